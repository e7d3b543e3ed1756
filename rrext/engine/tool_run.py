"""One run of one tool: on the loop, on a thread of the pool, on its node's own thread; for a caller or for a tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rrext.engine.chunks import Chunks
from rrext.engine.host import Host
from rrext.engine.interface import Call, Feed, Tool
from rrext.engine.lease import Lease
from rrext.engine.node import Node
from rrext.engine.task import Route
from rrext.engine.watch import WatchedCall
from rrext.errors import ResultTooLarge, Unavailable
from rrext.limits import Limits
from rrext.tools.callbacks import CallInfo
from rrext.tools.context import CancelToken, ToolContext

if TYPE_CHECKING:
    from rrext.tools.context import NestedCalls
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


class ToolRun:
    """What is known of a run before it begins: the call it serves, the lease it uses, the tool, the deadline.

    `prepare` looks at input and availability and raises; `encoded` and `encoded_blocking` run the tool.
    """

    __slots__ = ("_context", "call", "deadline", "host", "is_outermost", "lease", "nested", "node", "route", "token")

    def __init__(
        self, host: Host, call: Call, lease: Lease, route: Route, *, deadline: float | None, token: CancelToken | None = None
    ) -> None:
        self.host = host
        self.call = call
        self.lease = lease
        self.route = route
        self.deadline = deadline
        self.token = token if token is not None else CancelToken()
        self.nested: NestedCalls | None = None
        self.is_outermost = True
        self.node: Node | None = None
        self._context: ToolContext | None = None

    @property
    def spec(self) -> ToolSpec:
        """The tool."""
        return self.route.spec

    @property
    def context(self) -> ToolContext:
        """The context of this run, made at first use, the same for predicate and tool."""
        if self._context is None:
            self._context = self._make_context()
        return self._context

    def prepare(self, value: Any) -> dict[str, Any]:
        """The tool's keyword arguments for this input.

        Raises `Unavailable` and `InvalidArguments`. The component must be ready.
        """
        component, spec = self.route.component, self.spec
        self.node = self.lease.objects.object(component.id)
        if spec.has_predicate and not spec.is_available(self.node, self.context):
            raise Unavailable(
                f'Tool "{spec.name}" on node "{component.id}" is not available in this context',
                hint=getattr(spec.options.available, "missing", None),  # a predicate may say what it misses
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
                return self._blocking(kwargs, watched)
            threads = self.route.component.own_thread if spec.thread == "same" else None
            return await self.host.in_thread(
                lambda: self._blocking(kwargs, watched),
                places=self.lease.task.sync_places,
                lease=self.lease,
                threads=threads,
            )

    def encoded_blocking(self, kwargs: dict[str, Any]) -> Encoded:
        """Run a sync tool to its end on this thread."""
        with self._watched() as watched:
            return self._blocking(kwargs, watched)

    def _blocking(self, kwargs: dict[str, Any], watched: WatchedCall) -> Encoded:
        value = self.spec.call(self.node, kwargs, self._given())
        if self.spec.kind == "generator":
            return self._chunks(watched).drain(value, self.call), None
        watched.result = value
        return self.encode(value)

    def encode(self, value: Any) -> Encoded:
        """A result on its way out."""
        return encode_result(self.spec, self.node, value, self.host.limits)

    def _given(self) -> ToolContext | None:
        return self.context if self.spec.wants_context else None

    def _chunks(self, watched: WatchedCall) -> Chunks:
        feed = Chunks.wanted_by(self.call) if self.is_outermost else None
        return Chunks(self.spec, self.node, self.host.limits, feed=feed, watched=watched)

    def _watched(self) -> WatchedCall:
        caller, operation = self.call.caller, self.call.operation
        return WatchedCall(
            self.host.callbacks,
            CallInfo(
                tool=self.spec.name,
                node_id=self.route.component.id,
                request_id=self.call.request_id,
                connection_id=caller.connection_id,
                pipe_id=operation.pipe_id if isinstance(operation, Tool) else None,
                user_id=caller.user_id,
                space_id=caller.space_id,
            ),
        )

    def _make_context(self) -> ToolContext:
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
            report=None if feed is None else feed.progress,
            nested=self.nested,
            callbacks=self.host.callbacks,
        )
