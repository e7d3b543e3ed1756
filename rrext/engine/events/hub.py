"""The hub of an engine's events: subscriptions, and the delivery of each event to their sinks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from itertools import count
from time import time
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from rrext.errors import InvalidArguments, near_matches
from rrext.tools.context import checked_message

if TYPE_CHECKING:
    from rrext.clock import Clock
    from rrext.engine.events.console import Console
    from rrext.engine.events.publishers import FlowEvents
    from rrext.engine.events.records import EngineEvent, Filter
    from rrext.engine.events.trace import PipeTrace
    from rrext.limits import Limits
    from rrext.secrets.redaction import Redactor


EventSink: TypeAlias = "Callable[[EngineEvent], object]"

log: Final = logging.getLogger("rrext.events")


class Subscription:
    """Passes events that match a filter to a sink, until it is cancelled or the sink raises."""

    def __init__(self, hub: EventHub, filter: Filter, sink: EventSink) -> None:
        self._hub: EventHub | None = hub
        self.filter = filter
        self.sink = sink

    @property
    def is_active(self) -> bool:
        """Whether events still go to the sink."""
        return self._hub is not None

    def change(self, filter: Filter) -> None:
        """Select other events from now on, of kinds that exist; no event is missed or told twice."""
        if self._hub is not None:
            self._hub.change(self, filter)

    def cancel(self) -> None:
        """Stop the subscription, from any thread. Events that other threads are delivering right now still arrive."""
        hub, self._hub = self._hub, None
        if hub is not None:
            hub.remove(self)


class EventHub:
    """Delivers events from any thread to the subscribers.

    `watches_calls` says whether a subscriber wants events of calls; given as true, it stays true. `flow` publishes the
    events of tasks, pipes and lanes, and is None without subscribers. `messages` says whether a subscriber wants messages of
    nodes. Publishers keep the order of the events within a call or a pipe.
    """

    __slots__ = ("_always_watches", "_changed", "_console", "_kept_console", "_listeners", "_lock", "_subscriptions", "clock",
                 "flow", "limits", "messages", "numbers", "pace", "post", "redactor", "watches_calls", "with_data")  # fmt: skip

    def __init__(
        self,
        clock: Clock,
        redactor: Redactor,
        limits: Limits,
        *,
        watches_calls: bool = False,
        post: Callable[[Callable[[], object]], object] = lambda action: action(),
    ) -> None:
        self.clock = clock
        self.redactor = redactor
        self.limits = limits
        self.post = post
        """Runs an action on the loop's thread soon."""
        self.pace = post
        """Runs an action there when those who are told of events are done with the earlier ones."""
        self.flow: FlowEvents | None = None
        self.messages = False
        self.with_data: frozenset[type[EngineEvent]] = frozenset()
        """The event types whose data at least one subscriber asked for."""
        self.numbers = count(1)
        """The source of call numbers, which are never reused."""
        self.watches_calls = self._always_watches = watches_calls
        self._changed: Callable[[], object] = _nothing
        self._lock = threading.Lock()
        self._console: Console | None = None
        self._kept_console: Console | None = None
        """The same, also while nobody wants what nodes print: a thread may print to it still."""
        self._subscriptions: list[Subscription] = []
        self._listeners: dict[type[EngineEvent], list[Subscription]] = {}

    def when_changed(self, action: Callable[[], object]) -> None:
        """Call `action` now, and in any thread after each change of `watches_calls` or `flow`."""
        self._changed = action
        action()

    def subscribe(self, filter: Filter, sink: EventSink) -> Subscription:
        """See `Engine.subscribe`."""
        from rrext.engine.events.records import KINDS

        for kind in sorted(filter.kinds):
            if kind not in KINDS:
                near = near_matches(kind, KINDS)
                hint = f'Did you mean "{near[0]}"?' if near else "one of " + ", ".join(KINDS)
                raise InvalidArguments.at("/kinds", f'there are no events "{kind}". {hint}', hint=hint)
        subscription = Subscription(self, filter, sink)
        with self._lock:
            self._subscriptions.append(subscription)
            self._refresh()
        return subscription

    def change(self, subscription: Subscription, filter: Filter) -> None:
        """Give a subscription another filter."""
        with self._lock:
            subscription.filter = filter
            self._refresh()

    def remove(self, subscription: Subscription) -> None:
        """Remove a cancelled subscription."""
        with self._lock:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
            self._refresh()

    def _refresh(self) -> None:
        """Recompute the wanted events. Readers need no lock: collections are replaced, never mutated."""
        from rrext.engine.events.publishers import FlowEvents
        from rrext.engine.events.records import KINDS, CallEvent, FlowStep, Message, Output

        listeners: dict[type[EngineEvent], list[Subscription]] = {}
        for subscription in self._subscriptions:
            for kind in subscription.filter.kinds:
                listeners.setdefault(KINDS[kind], []).append(subscription)
        self._listeners = listeners
        self.with_data = frozenset(
            KINDS[kind]
            for subscription in self._subscriptions
            if subscription.filter.data
            for kind in subscription.filter.kinds
        )
        self.watches_calls = self._always_watches or any(issubclass(kind, CallEvent) for kind in listeners)
        wants_flow = any(not issubclass(kind, CallEvent | Message | FlowStep | Output) for kind in listeners)
        self.flow = (self.flow or FlowEvents(self)) if wants_flow else None
        self.messages = Message in listeners
        if (Output in listeners) != (self._console is not None):
            self._listen(wanted=Output in listeners)
        self._changed()

    def _listen(self, *, wanted: bool) -> None:
        """Begin to take what nodes print, or end it."""
        console, self._console = self._console, None
        if console is not None:
            console.end()
        if wanted:
            from rrext.engine.events.console import Console

            self._console = self._kept_console = self._kept_console or Console(self)
            self._console.begin()

    def close(self) -> None:
        """Give the streams of the process back; the nodes have ended."""
        self.publish_output()
        with self._lock:
            self._listen(wanted=False)

    @property
    def wanted(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of the events that subscribers want, and of those with their data."""
        from rrext.engine.events.records import kind_of

        return frozenset(map(kind_of, self._listeners)), frozenset(map(kind_of, self.with_data))

    def wants(self, kind: type[EngineEvent]) -> bool:
        """Whether a subscriber wants events of this type."""
        return kind in self._listeners

    def publish(self, event: EngineEvent) -> None:
        """Deliver an event to each matching subscriber, after the lines that nodes printed before it."""
        self.publish_output()
        self.deliver(event)

    def publish_output(self) -> None:
        """Deliver the lines that nodes printed and that wait."""
        if self._console is not None:
            self._console.publish_waiting()

    def deliver(self, event: EngineEvent) -> None:
        """Deliver an event now. A sink that raises gets no more events; the others are not affected."""
        for subscription in self._listeners.get(type(event), ()):
            if not (subscription.is_active and subscription.filter.fits(event)):
                continue
            try:
                subscription.sink(event)
            except BaseException as error:
                subscription.cancel()
                log.error("a subscriber failed and gets no more events: %r", subscription.sink, exc_info=error)
                if isinstance(error, KeyboardInterrupt):
                    raise

    def shown(self, kind: type[EngineEvent], value: Any) -> Any:
        """Copy data for events of this type, as JSON values without secrets; `UNSET` if the data is left out."""
        if kind not in self.with_data or (isinstance(value, str | bytes) and len(value) > self.limits.max_event_data):
            return msgspec.UNSET
        try:
            return self.shown_json(kind, msgspec.json.encode(value))
        except Exception:  # payloads of lanes may be no JSON
            return msgspec.UNSET

    def shown_text(self, text: str, most: int) -> str:
        """A text for events: of bounded length, without secrets, and such that JSON can hold it."""
        cut = text if len(text) <= most else f"{text[:most]}…"
        return self.redactor.text(cut).encode("utf-8", "replace").decode()

    def shown_json(self, kind: type[EngineEvent], encoded: bytes) -> Any:
        """Copy encoded JSON for events of this type, without secrets; `UNSET` if the data is left out."""
        if kind not in self.with_data or len(encoded) > self.limits.max_event_data:
            return msgspec.UNSET
        try:
            value = msgspec.json.decode(encoded)
            return self.redactor.value(value) if self.redactor.knows_any else value
        except RecursionError:
            return msgspec.UNSET


class EventOrigin:
    """The origin of node events: one pipe, or the nodes of a task that serve calls without a pipe.

    `task` is the `event_head` of the task. `trace` follows the object of a traced pipe; None for others.
    """

    __slots__ = ("_task", "connection_id", "events", "pipe_id", "trace", "user_id")

    def __init__(
        self,
        events: EventHub,
        task: dict[str, Any],
        *,
        connection_id: str | None = None,
        user_id: str | None = None,
        pipe_id: int | None = None,
    ) -> None:
        self.events = events
        self.connection_id = connection_id
        self.user_id = user_id
        self.pipe_id = pipe_id
        self.trace: PipeTrace | None = None
        self._task = task

    @property
    def head(self) -> dict[str, Any]:
        """The fields common to events of this origin."""
        task = self._task
        return {
            "token": task["token"],
            "project_id": task["project_id"],
            "source": task["source"],
            "owner": task["user_id"],
            "connection_id": self.connection_id,
            "user_id": self.user_id,
            "pipe_id": self.pipe_id,
        }

    def publish(self, node_id: str, type: str, data: Any, request_id: int | str | None = None) -> None:
        """Publish a node's message. Raises `ToolError` if it is no JSON or too large, also without subscribers."""
        events = self.events
        encoded = checked_message(type, data, events.limits)
        if not events.messages:
            return
        from rrext.engine.events.records import Message

        redactor = events.redactor
        events.publish(
            Message(
                time=time(),
                **self.head,
                node_id=node_id,
                type=redactor.text(type),
                data=redactor.value(msgspec.json.decode(encoded)),
                request_id=request_id,
            )
        )


def _nothing() -> None: ...
