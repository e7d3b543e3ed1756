"""The operations of an engine, as plain data.

Nothing here names a node or a pipe object, so the same operations can go to a worker process or another machine. An
operation's fields are the arguments of the command of the same name (protocol.md).
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal

import msgspec


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of all operations. `timeout` is in seconds from receipt."""

    takes_tail: ClassVar[bool] = False
    """Whether its request may have a raw tail."""
    names_caller: ClassVar[bool] = False
    """Whether its request may name its caller."""
    counts: ClassVar[bool] = False
    """Whether its request counts against `max_inflight`."""
    runs_here: ClassVar[bool] = False
    """Whether the thread that reads may begin it."""

    token: str | None = None
    timeout: float | None = None
    meta: Any = msgspec.field(name="_meta", default=None)


class Fed(Operation, frozen=True, kw_only=True):
    """An operation whose request may ask for events of the tools that it runs. `questions` are the kinds of input that its user
    can give.
    """

    events: bool | None = None
    permits: bool | None = None
    questions: list[Literal["form", "url"]] | None = None

    @property
    def is_fed(self) -> bool:
        """Whether the request asks for events."""
        return bool(self.events or self.permits or self.questions)


class ToolOperation(Fed, frozen=True, kw_only=True):
    """An operation that calls one tool, whose request may also ask for the progress and the chunks of that tool."""

    names_caller = True
    counts = True
    runs_here = True

    progress: bool | None = None
    stream: bool | None = None
    content: bool | None = None

    @property
    def is_fed(self) -> bool:
        return bool(self.progress or self.stream or super().is_fed)


FEEDS: Final = frozenset(ToolOperation.__struct_fields__) - frozenset(Operation.__struct_fields__)
"""The arguments that ask for events."""


class Tool(ToolOperation, frozen=True, kw_only=True, rename="camel"):
    """Call one tool. An empty `node_id` asks every node in chain order, with `unique` the only owner. → `{result}`"""

    tool: str
    node_id: str | None = None
    unique: bool | None = None
    input: Any = None
    pipe_id: int | None = msgspec.field(name="pipe_id", default=None)


class ResolveTools(Operation, frozen=True, kw_only=True):
    """Resolve references to tools, all or none. → `{builtins, custom}`"""

    names_caller = True

    tools: Any


class CallTool(ToolOperation, frozen=True, kw_only=True):
    """Call a tool by its call ref, or by a name. → `{result}`"""

    call_ref: str | None = None
    name: str | None = None
    arguments: Any = None
    pipe_id: int | None = None


ANY_TOOL: Final = "*"
"""In the answer to `tools`, in place of a name: every tool of a node that cannot tell them."""


class ListTools(Operation, frozen=True, kw_only=True, rename="camel"):
    """List the tools that this caller may call now, or those of one name; `format` is that of a vendor. → `{tools}`"""

    names_caller = True

    node_id: str | None = None
    tool: str | None = None
    format: str | None = None


class ListStores(Operation, frozen=True, kw_only=True, rename="camel"):
    """The stores that objects go to which enter at `source`. → `{stores, canMove, places, target, settings, namespace}`"""

    names_caller = True

    source: str | None = None
    mime_type: str | None = None


class Open(Operation, frozen=True, kw_only=True, rename="camel"):
    """Open a pipe for one object. → `{pipe_id}`"""

    names_caller = True
    counts = True

    object: dict[str, Any] | None = None
    mime_type: str | None = None
    provider: str | None = None
    source: str | None = None


class Write(Fed, frozen=True, kw_only=True):
    """Write to a pipe: exactly one of text, base64 text and (outside of JSON) raw bytes. → `{}`"""

    runs_here = True
    takes_tail = True

    pipe_id: int
    data: str | None = None
    data_base64: str | None = None


class Close(Fed, frozen=True, kw_only=True):
    """End the object and free its pipe. → the result body"""

    pipe_id: int


class Execute(Operation, frozen=True, kw_only=True, rename="camel"):
    """Load a pipeline and keep it running. → `{id, token, publicToken, projectId, source, provider, unavailable?}`"""

    pipeline: dict[str, Any] | str
    source: str | None = None
    threads: int | None = None
    ttl: float | None = None
    use_existing: bool | None = None
    env: dict[str, str] | None = None
    name: str | None = None
    folder: str | None = None
    args: list[Any] | None = None
    pipeline_trace_level: str | None = None
    partial: bool | None = None


class Terminate(Operation, frozen=True, kw_only=True):
    """Stop a pipeline: its calls are cancelled, its pipes freed, its shared state closed. → `{}`"""


class Restart(Operation, frozen=True, kw_only=True, rename="camel"):
    """End a pipeline and load one in its place, with its token, threads, ttl and variables. → as `execute`"""

    pipeline: dict[str, Any] | str | None = None
    project_id: str | None = None
    source: str | None = None


class Validate(Operation, frozen=True, kw_only=True):
    """Check a pipeline without loading it. → `{pipeline, errors, warnings, problems}`"""

    pipeline: dict[str, Any] | str
    source: str | None = None


class Services(Operation, frozen=True, kw_only=True):
    """Describe the nodes of the catalog, or one of them. → `{services}` or the definition"""

    service: str | None = None


class ResolveConfig(Operation, frozen=True, kw_only=True):
    """Merge the settings of a component as its node gets them. → `{provider, profile, resolved, dropped}`"""

    provider: str
    config: dict[str, Any] | None = None


class GetToken(Operation, frozen=True, kw_only=True, rename="camel"):
    """Find the running pipeline of a project and source. → `{token}`"""

    project_id: str
    source: str


class GetPipeline(Operation, frozen=True, kw_only=True):
    """The pipeline of a task, without values of variables. → `{pipeline}`; its outline alone → `{outline}`"""

    outline: bool | None = None


class Monitor(Operation, frozen=True, kw_only=True, rename="camel"):
    """Begin, change or end the events of tasks for this connection. → `{ignored?: [{name, near}]}`"""

    project_id: str | None = None
    source: str | None = None
    pipe_id: int | None = None
    types: list[str] | int | str | None = None


class RowList(Operation, frozen=True, kw_only=True):
    """The fields of operations that list rows. → `{rows, total, page, pageSize}`"""

    page: int | None = None
    page_size: int | None = None
    search: str | None = None
    sort: list[dict[str, Any]] | None = None
    filters: dict[str, Any] | None = None


class ListTaskRows(RowList, frozen=True, kw_only=True):
    """List the caller's tasks, also those that ended a short while ago."""


class ListConnections(RowList, frozen=True, kw_only=True):
    """List the caller's connections."""


class Dashboard(Operation, frozen=True, kw_only=True):
    """Describe the server as the caller sees it. → `{overview, connections, tasks}`"""


class ListTasks(Operation, frozen=True, kw_only=True):
    """List the running pipelines. → `{tasks}`"""


class ProfileOperation(Operation, frozen=True, kw_only=True):
    """The base class of operations of the profiler (`rare_operations.py`). `target` is the token of a task; else: server."""

    target: str | None = None


class LogOperation(Operation, frozen=True, kw_only=True, rename="camel"):
    """The base class of operations of run logs (`rare_operations.py`): the log of one source of a project."""

    project_id: str | None = None
    source: str | None = None
    team_id: str | None = None
    run_kind: str | None = None


class StoreOperation(Operation, frozen=True, kw_only=True):
    """The base class of operations of the file store (`rare_operations.py`)."""

    names_caller = True


class ListOffers(Operation, frozen=True, kw_only=True):
    """List what the caller's pipelines offer to hosts beside tools. → `{tasks: [{token, offers}]}`"""


class TaskStatus(Operation, frozen=True, kw_only=True):
    """Describe the status of one pipeline. → the status object"""
