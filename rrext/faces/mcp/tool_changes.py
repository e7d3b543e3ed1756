"""Changes of the list of tools, from the engine's events to those who are to be told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rrext.engine.events.hub import Subscription
from rrext.engine.interface.engine import Engine

if TYPE_CHECKING:
    from rrext.faces.mcp.connection import McpConnection
    from rrext.server.session import Session

KINDS: Final = frozenset(("task_begun", "task_ended", "tools_changed"))
"""The events after which other tools are listed."""


def watch_tools(engine: Engine, changed: Callable[[Any], object]) -> Subscription:
    """Call `changed` in any thread after each event that may change the list of tools."""
    from rrext.engine.events.records import Filter

    return engine.subscribe(Filter(kinds=KINDS), changed)


class ToolChanges:
    """Tells the client of a connection that its list of tools has changed; once, however often it changes, while the client
    reads nothing.
    """

    def __init__(self, engine: Engine, session: Session, connection: McpConnection) -> None:
        self._engine = engine
        self._session = session
        self._connection = connection
        self._watches = False
        connection.when_heard = self._begin

    def _begin(self) -> None:
        """Begin to watch the engine, when the client may have begun to listen. On the thread that reads."""
        if not self._watches:
            self._watches = True
            watch_tools(self._engine, self._tell)

    def _tell(self, event: Any) -> None:
        if self._session.outbox.is_full:
            self._session.late_event(self)
        else:
            self.catch_up()

    def catch_up(self) -> None:
        """Send what the client does not know yet."""
        pieces = self._connection.tools_changed()
        if pieces and not self._session.is_closed:
            self._session.send(pieces)
