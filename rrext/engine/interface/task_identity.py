"""The public description of a task: names, user, pipeline and numbers."""

from __future__ import annotations

from itertools import count
from time import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sized

    from rrext.engine.interface.call import Caller


class ToolNames(NamedTuple):
    """What the tools of a task are called: each by its name, its exported name, and `node.tool`. `later` are the nodes that
    learn their tools at first use, `denied` the names `node.tool` of those that the settings deny to everyone.
    """

    names: list[str]
    later: list[str]
    denied: list[str]


_NUMBERS: Final = count(1)


class TaskIdentity:
    """A running pipeline under its token, wherever it runs. `options` are the arguments of its `load`, for a restart.

    `scope` is the user among whose tasks the token is a name; None for the tasks of callers who are trusted. `number` is that
    of the task in this process, which is never used again; a token may be.
    """

    __slots__ = (
        "active", "began", "calls", "description", "event_head", "failed_count", "finished_count",
        "is_restarted", "last_used", "name", "number", "options", "owner", "pipeline", "project_id", "provider", "public_token",
        "scope", "source", "started", "stopping", "token",
    )  # fmt: skip

    def __init__(
        self,
        *,
        token: str,
        public_token: str,
        name: str,
        project_id: str,
        source: str,
        provider: str,
        description: str,
        pipeline: dict[str, Any],
        options: dict[str, Any],
        active: Sized,
        now: float,
    ) -> None:
        self.number = next(_NUMBERS)
        self.token = token
        self.public_token = public_token
        self.name = name
        self.project_id = project_id
        self.source = source
        self.provider = provider
        """The provider of its source; empty if it has several sources or none."""
        self.description = description
        self.pipeline = pipeline
        self.options = options
        self.owner: str | None = options.get("owner")
        self.scope = self.owner if options.get("remote") else None
        self.active = active
        """The calls that run or wait."""
        self.started = time()
        self.began = self.last_used = now
        self.is_restarted = False
        self.stopping = False
        self.event_head = {"token": token, "name": name, "project_id": project_id, "source": source, "user_id": self.owner}
        """The fields of all events of the task."""
        self.calls = 0
        self.finished_count = 0
        self.failed_count = 0

    if TYPE_CHECKING:

        @property
        def tool_names(self) -> ToolNames:
            """What its tools are called."""
            ...

        @property
        def text_type(self) -> str:
            """The MIME type of a text for the pipeline."""
            ...

    @property
    def key(self) -> tuple[str | None, str, str]:
        """The identity of a task for a second `execute`: user, project and source."""
        return (self.owner, self.project_id, self.source)

    def is_visible_to(self, caller: Caller) -> bool:
        """Whether a caller may see and use the task: a trusted one any, others those without an owner and their own."""
        return caller.trusted or self.owner is None or self.owner == caller.user_id

    def only_route(self, node_id: str | None, tool: str) -> Any:
        """The route of a tool of these names, if there is one alone; None where the tools are elsewhere."""
        return None
