"""A tool call as `Client.tool` and `Pipe.tool` make it, references to tools, and the forms in which `Client.tools` gives tools
to models.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, NotRequired, TypeAlias, TypedDict, Unpack

from rrext.client.client_session import ClientSession
from rrext.client.endpoint import Body, Deadline
from rrext.client.updates import (
    CallEventCallback,
    ChunkCallback,
    PermissionCallback,
    ProgressCallback,
    QuestionCallback,
    Updates,
)
from rrext.content import Content
from rrext.errors import InvalidArguments, UsageError
from rrext.limits import CLIENT_DEFAULTS

if TYPE_CHECKING:
    from rrext.client.client import Client


_NUMBERS: Final = (int, float)


def tool_arguments(
    tool: str,
    node_id: str,
    given: Mapping[str, Any] | None,
    token: str | None,
    pipe_id: int | None,
    context: Mapping[str, Any] | None,
    meta: Any,
    *,
    unique: bool,
) -> Body:
    """The arguments of a tool call. Optional ones that are None are left out."""
    arguments: Body = {"subcommand": "tool", "tool": tool, "nodeId": node_id, "input": {} if given is None else given}
    if unique:
        arguments["unique"] = True
    if token is not None:
        arguments["token"] = token
    if pipe_id is not None:
        arguments["pipe_id"] = pipe_id
    if context is not None:
        arguments["context"] = context
    if meta is not None:
        arguments["_meta"] = meta
    return arguments


class AnsweringOptions(TypedDict, total=False):
    """Who answers what the tools of a request ask; see `Client.tool`."""

    on_permission: PermissionCallback | None
    on_question: QuestionCallback | None


class ObjectFeed(AnsweringOptions, total=False):
    """What a pipeline tells and asks while it works on an object: each write and the close; see `Client.tool`."""

    on_event: CallEventCallback | None


class FeedOptions(ObjectFeed, total=False):
    """Rarer options of a tool call: what it tells while it runs, and the time without progress; see `Client.tool`."""

    progress: ProgressCallback | None
    on_chunk: ChunkCallback | None
    content: bool
    reset_on_progress: bool
    max_total: float | None


def tool_call(
    session: ClientSession, arguments: Body, timeout: float | None, options: FeedOptions, command: str = "rrext_process"
) -> Coroutine[Any, Any, Body]:
    """A call of a tool, which returns the body of the answer; see `Client.tool`."""
    deadline = updates = None
    if options:
        deadline, updates = _with_options(session, arguments, timeout, options)
    elif timeout is not None:
        deadline = _limit(arguments, timeout, idle=False, total=None)
    slots = session.pipe_slots if "pipe_id" in arguments else session.slots
    return session.endpoint.call(command, arguments, None, slots, deadline, updates)


def _with_options(
    session: ClientSession, arguments: Body, timeout: float | None, options: FeedOptions
) -> tuple[Deadline | None, Updates | None]:
    """The deadline and the updates of a call; what the server must know of them goes into `arguments`."""
    progress, on_chunk = options.get("progress"), options.get("on_chunk")
    idle, total = options.get("reset_on_progress", False), options.get("max_total")
    deadline = None
    if timeout is not None or idle or total is not None:
        deadline = _limit(arguments, timeout, idle=idle, total=total)
    if progress is not None or idle:
        arguments["progress"] = True
    if on_chunk is not None:
        arguments["stream"] = True
    if options.get("content"):
        arguments["content"] = True
    return deadline, object_updates(options, session, arguments, progress, on_chunk, wanted=idle)


MakeUpdates: TypeAlias = Callable[[ClientSession, Body], Updates | None]
"""Makes the updates of a request; what the server must know of them goes into its arguments."""


def object_updates(
    options: ObjectFeed,
    session: ClientSession,
    arguments: Body,
    progress: ProgressCallback | None = None,
    on_chunk: ChunkCallback | None = None,
    *,
    wanted: bool = False,
) -> Updates | None:
    """The updates of a request whose callbacks are these; None if there is none, and no updates are `wanted`."""
    on_event, questions = options.get("on_event"), ask_for_questions(arguments, options)
    if on_event is not None:
        arguments["events"] = True
    if not (wanted or progress or on_chunk or on_event or questions):
        return None
    return session.endpoint.updates(progress, on_chunk, on_event, questions)


def ask_for_questions(arguments: Body, options: AnsweringOptions) -> dict[str, PermissionCallback | QuestionCallback]:
    """Ask for the events that the callbacks answer: event → callback."""
    questions: dict[str, PermissionCallback | QuestionCallback] = {}
    if (on_permission := options.get("on_permission")) is not None:
        arguments["permits"] = True
        questions["rrext_permission"] = on_permission
    if (on_question := options.get("on_question")) is not None:
        arguments["questions"] = ["form", "url"]
        questions["rrext_question"] = on_question
    return questions


def result_of(body: Body, options: FeedOptions) -> Any:
    """The result of the tool: a JSON value, or bytes; `Content` if it was asked for."""
    if options.get("content"):
        return Content.of_members(body["result"])
    return body["result"] if "result" in body else body.get("data")


def _limit(arguments: Body, timeout: float | None, *, idle: bool, total: float | None) -> Deadline | None:
    """The client's own deadline; the server's goes into `arguments`."""
    if not idle:
        if total is not None:
            raise UsageError("max_total is of use with reset_on_progress=True alone; timeout limits the whole call.")
        if timeout is not None:
            arguments["timeout"] = timeout
        return deadline_of(_named(arguments), timeout)
    if timeout is None:
        raise UsageError("reset_on_progress=True needs a timeout: how long the tool may report nothing.")
    if total is not None:
        arguments["timeout"] = _checked(total)
    return Deadline(_named(arguments), _checked(timeout), idle=True, total=total)


def _named(arguments: Body) -> str:
    tool = arguments.get("tool") or arguments.get("call_ref") or arguments.get("name")
    return f'Tool "{tool}"'


def deadline_of(what: str, timeout: float | None) -> Deadline | None:
    """The deadline of a call whose server keeps to the same timeout, and is given a little longer to say so."""
    return None if timeout is None else Deadline(what, _checked(timeout), margin=CLIENT_DEFAULTS.timeout_margin)


def _checked(seconds: float) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, _NUMBERS) or not 0 < seconds < inf:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArguments.at("/timeout", f"must be a number of seconds above 0, not {seconds!r}")
    return seconds


async def tools_resolve(
    self: Client,
    tools: Sequence[str | Mapping[str, Any]],
    *,
    token: str | None = None,
    context: Mapping[str, Any] | None = None,
) -> Body:
    """Resolve references to tools: `{builtins, custom: [{name, description, input_schema, call_ref, permission?}]}`.

    Raises one error for all problems, which are in `data["errors"]`. An empty list asks nobody.
    """
    given = tools if isinstance(tools, str | Mapping) else list(tools)  # the server says what is wrong with one alone
    if given == []:
        return {"builtins": [], "custom": []}
    return await self.request("rrext_tools_resolve", {"tools": given, "token": token, "context": context})


async def tools_call(
    self: Client,
    call_ref: str | None = None,
    arguments: Mapping[str, Any] | str | None = None,
    *,
    name: str | None = None,
    token: str | None = None,
    pipe_id: int | None = None,
    context: Mapping[str, Any] | None = None,
    meta: Any = None,
    timeout: float | None = None,
    **options: Unpack[FeedOptions],
) -> Any:
    """The result of a tool by its call ref or by a `name`, as `tool` returns and raises it, with the same options.

    `arguments` may be a JSON text, as models write them.
    """
    given: Body = {"call_ref": call_ref, "name": name, "arguments": arguments, "token": token, "pipe_id": pipe_id}
    given |= {"context": context, "_meta": meta}
    sent = {key: value for key, value in given.items() if value is not None}
    return result_of(await tool_call(self._connected(), sent, timeout, options, "rrext_tools_call"), options)


OpenAIFormat: TypeAlias = Literal["openai", "openai-strict"]

Schema: TypeAlias = dict[str, Any]


class WhichTools(TypedDict, total=False):
    """The arguments of `Client.tools` that select tools; `context` replaces the context of the client."""

    token: str | None
    node_id: str | None
    tool: str | None
    context: Mapping[str, Any] | None


class OpenAIFunction(TypedDict):
    """A function of OpenAI's Chat Completions; `strict` is present in the format `openai-strict`."""

    name: str
    description: NotRequired[str]
    parameters: Schema
    strict: NotRequired[bool]


class OpenAITool(TypedDict):
    """An entry of `tools` in a request to OpenAI's Chat Completions."""

    type: Literal["function"]
    function: OpenAIFunction


class AnthropicTool(TypedDict):
    """An entry of `tools` in a request to Anthropic's Messages."""

    name: str
    description: NotRequired[str]
    input_schema: Schema


class McpTool(TypedDict):
    """An entry of the answer to MCP's `tools/list`."""

    name: str
    title: str
    description: NotRequired[str]
    inputSchema: Schema
    outputSchema: NotRequired[Schema]
    annotations: NotRequired[dict[str, bool]]
