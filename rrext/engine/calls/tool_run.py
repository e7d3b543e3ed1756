"""One run of one tool: on the loop, on a thread of the pool, on its node's own thread; for a caller or for a tool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rrext.engine.calls.chunks import Chunks
from rrext.engine.calls.failures import cancelled_from_inside
from rrext.engine.calls.host import Host
from rrext.engine.calls.lease import Lease
from rrext.engine.calls.nested import Nesting
from rrext.engine.calls.places import Loan
from rrext.engine.calls.run import Run
from rrext.engine.calls.watch import WatchedCall
from rrext.engine.interface import Call, Feed, Tool
from rrext.engine.node import Node
from rrext.engine.task import Route
from rrext.errors import ResultTooLarge, Unavailable
from rrext.limits import Limits
from rrext.tools.callbacks import CallInfo
from rrext.tools.context import CancelToken, ToolContext

if TYPE_CHECKING:
    from rrext.tools.spec import ToolSpec

__all__ = ["Encoded", "ToolRun", "encode_result"]

Encoded = tuple[bytes, bytes | None]
"""A result as JSON, and the raw bytes instead if the result is itself bytes."""


def encode_result(spec: ToolSpec, node: Node | None, value: Any, limits: Limits) -> Encoded:
    """A result, checked: as JSON, or as it is when it is bytes. Raises `ToolError` and `ResultTooLarge`."""
    if type(value) is bytes and spec.options.output_schema is None:
        if len(value) > limits.max_result:
            raise ResultTooLarge.of(len(value), limits.max_result)
        return b"", value
    return spec.encode(node, value, limits), None


class ToolRun(Run):
    """One run of a tool, from before it begins.

    `prepare` looks at input and availability and raises; `encoded` and `encoded_blocking` run the tool. A run does not
    keep the contexts that it gives, because they lead back to it.
    """

    __slots__ = ("node", "route")

    def __init__(
        self,
        host: Host,
        call: Call,
        lease: Lease,
        route: Route,
        *,
        deadline: float | None,
        token: CancelToken | None = None,
        trail: tuple[str, ...] = (),
    ) -> None:
        token = token if token is not None else CancelToken()
        super().__init__(host, call, lease, deadline=deadline, token=token, trail=(*trail, route.label))
        self.route = route
        self.node: Node | None = None

    @property
    def may_hold_the_loop(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether it is a `def` tool: one that runs on the loop's thread is there because an author asked for that."""
        return self.spec.kind in ("sync", "generator")

    @property
    def spec(self) -> ToolSpec:
        """The tool."""
        return self.route.spec

    @property
    def is_outermost(self) -> bool:
        """Whether the client asked for it, and no tool."""
        return len(self.trail) == 1

    def prepare(self, value: Any) -> dict[str, Any]:
        """The tool's keyword arguments for this input.

        Raises `Unavailable` and `InvalidArguments`. The component must be ready.
        """
        component, spec = self.route.component, self.spec
        self.node = self.lease.objects.object(component.id)
        if spec.has_predicate and not spec.is_available(self.node, self.context()):
            predicate = spec.options.available  # it may say what it misses
            raise Unavailable(
                getattr(predicate, "refusal", None)
                or f'Tool "{spec.name}" on node "{component.id}" is not available in this context',
                hint=getattr(predicate, "missing", None),
                data={"nodeId": component.id, "tool": spec.name},
            )
        return spec.structure(self.node, value, self.host.limits)

    async def encoded(self, kwargs: dict[str, Any]) -> Encoded:
        """Run the tool from the loop, whatever kind it is."""
        spec, node = self.spec, self.node
        with self._watched() as watched:
            if spec.kind == "async":
                watched.result = value = await spec.call(node, kwargs, self._given())
                return self.encode(value)
            if spec.kind == "async_generator":
                return await self._chunks(watched).drain_async(spec.call(node, kwargs, self._given())), None
            if spec.thread == "main":
                return await self._on_loop(kwargs, watched)
            return await self._in_thread(kwargs, watched)

    async def _on_loop(self, kwargs: dict[str, Any], watched: WatchedCall) -> Encoded:
        if self.spec.kind == "generator":
            chunks = self.spec.call(self.node, kwargs, self._given())
            return await self._chunks(watched).drain_on_loop(chunks), None
        return self._blocking(kwargs, watched)

    async def _in_thread(self, kwargs: dict[str, Any], watched: WatchedCall) -> Encoded:
        places = self.lease.task.sync_places

        def work() -> Encoded:
            self.loan = Loan(places)
            return self._blocking(kwargs, watched)

        if self.spec.thread != "same":
            return await self.host.in_thread(work, places=places, lease=self.lease)
        own = self.route.component.own_thread
        if not self.is_outermost:
            return await self.host.in_thread(work, places=places, lease=self.lease, run=own.run_inner)
        turn = self.route.component.turns.take()
        try:
            await self.host.granted(turn)
        except BaseException:
            turn.release()
            raise
        return await self.host.in_thread(work, places=places, lease=self.lease, run=own.run, turn=turn)

    def encoded_blocking(self, kwargs: dict[str, Any], loan: Loan | None) -> Encoded:
        """Run a sync tool to its end on this thread, which has its caller's place."""
        self.loan = loan
        with self._watched() as watched:
            return self._blocking(kwargs, watched)

    def _blocking(self, kwargs: dict[str, Any], watched: WatchedCall) -> Encoded:
        try:
            value = self.spec.call(self.node, kwargs, self._given())
            if self.spec.kind == "generator":
                return self._chunks(watched).drain(value, self.token), None
        except asyncio.CancelledError:
            raise cancelled_from_inside(self.spec.name, self.route.component.id) from None
        watched.result = value
        return self.encode(value)

    def encode(self, value: Any) -> Encoded:
        """A result on its way out."""
        return encode_result(self.spec, self.node, value, self.host.limits)

    def _given(self) -> ToolContext | None:
        return self.context() if self.spec.wants_context else None

    def _chunks(self, watched: WatchedCall) -> Chunks:
        feed = Chunks.wanted_by(self.call) if self.is_outermost else None
        return Chunks(self.spec, self.node, self.host.limits, feed=feed, watched=watched)

    def _watched(self) -> WatchedCall:
        caller, pipe = self.call.caller, self.lease.pipe
        owner = caller if pipe is None else pipe.caller
        return WatchedCall(
            self.host.callbacks,
            CallInfo(
                tool=self.spec.name,
                node_id=self.route.component.id,
                request_id=self.call.request_id,
                connection_id=caller.connection_id,
                pipe_id=None if pipe is None else pipe.id,
                user_id=owner.user_id,
                space_id=owner.space_id,
            ),
        )

    def _report(self, feed: Feed) -> Callable[[float, float | None, str | None], None]:
        redactor = self.host.redactor
        if not redactor.knows_any:
            return feed.progress
        return lambda value, total, message: feed.progress(value, total, None if message is None else redactor.text(message))

    def context(self) -> ToolContext:
        """A context for the tool or for its predicate."""
        call, operation = self.call, self.call.operation
        feed: Feed | None = call.feed if isinstance(operation, Tool) and operation.progress and self.is_outermost else None
        pipe = self.lease.pipe
        caller = call.caller if pipe is None else pipe.caller
        return ToolContext(
            node_id=self.route.component.id,
            token=self.token,
            user_id=caller.user_id,
            space_id=caller.space_id,
            request_id=call.request_id,
            connection_id=call.caller.connection_id,
            pipe_id=None if pipe is None else pipe.id,
            meta=operation.meta,
            deadline=self.deadline,
            clock=self.host.clock.now,
            report=None if feed is None else self._report(feed),
            nested=Nesting(self),
            callbacks=self.host.callbacks,
        )
