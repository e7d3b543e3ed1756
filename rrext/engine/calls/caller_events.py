"""The events of one call for its caller, who asked for them: calls of tools within it, and the steps of its agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.engine.events.hub import EventHub
from rrext.engine.events.records import AgentStep, CallEnded, CallEvent, CallStarted, EngineEvent, kind_of

if TYPE_CHECKING:
    from rrext.engine.interface.call import Feed

TOLD: Final = frozenset((CallStarted, CallEnded, AgentStep))
"""Progress and chunks have events of their own, for those who ask for them."""
LEFT_OUT: Final = frozenset(("token", "connection_id", "pipe_id", "request_id", "user_id", "space_id", "command", "address"))
"""Fields that the caller knows."""


class CallerEvents(EventHub):
    """The hub of one call: its events go to the feed of the call, and to the subscribers of the engine."""

    __slots__ = ("_engine", "_feed")

    def __init__(self, engine: EventHub, feed: Feed) -> None:
        super().__init__(engine.clock, engine.redactor, engine.limits, watches_calls=True)
        self.numbers = engine.numbers
        self.with_data = TOLD | engine.with_data
        self._engine = engine
        self._feed = feed

    def wants(self, kind: type[EngineEvent]) -> bool:
        return kind in TOLD or self._engine.wants(kind)

    def tell(self, event: EngineEvent) -> None:
        if type(event) in TOLD and isinstance(event, CallEvent):
            self._feed.call_event(body_of(event))
        self._engine.tell(event)


def body_of(event: CallEvent) -> dict[str, Any]:
    """An event as its caller gets it: `{event, time, call, caller?, tool?, nodeId?, …}`, without members that are not known."""
    body: dict[str, Any] = {"event": kind_of(type(event))}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if name not in LEFT_OUT and value is not None and value is not msgspec.UNSET and value != ():
            head, *rest = name.split("_")
            body[head + "".join(map(str.capitalize, rest))] = list(value) if type(value) is tuple else value
    return body
