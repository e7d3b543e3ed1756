"""The link of one node to its receivers in an open object: the targets of `emit`, and the times when it is allowed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Final

from rrext.errors import near_matches
from rrext.nodes.base.node import Node
from rrext.pipefile.lane_plan import Method

if TYPE_CHECKING:
    from rrext.engine.flow.conductor import Conductor
    from rrext.engine.flow.objects import NodeObjects
    from rrext.nodes.base.node import Entry


# States of a node: the method that runs. A node may emit in SENDING and SENDING_ASYNC only.
QUIET: Final = 0  # no method of the object runs; perhaps a tool
SILENT: Final = 1  # open or close
SENDING: Final = 2  # a `def` lane method or closing
SENDING_ASYNC: Final = 3  # an `async def` lane method or closing
WAITING: Final = 4  # an emit of the node has not returned yet


class Target:
    """A method of a node object, ready to be called; `state` is that of the link while the method runs."""

    __slots__ = ("call", "is_async", "lane", "link", "name", "state")

    def __init__(self, link: NodeLink, method: Method, call: Callable[..., Any]) -> None:
        self.link = link
        self.name = method.name
        self.lane = method.name.removeprefix("write_") if method.name.startswith("write_") else None
        self.is_async = method.is_async
        self.call = call
        if method.name in ("open", "close"):
            self.state = SILENT
        else:
            self.state = SENDING_ASYNC if method.is_async else SENDING


class NodeLink:
    """A node object while its pipe is open. `opened` is true from the end of `open` to the beginning of `close`.

    The data edges make no circle, so at most one lane method of a node runs at any time, and one state is enough.
    """

    __slots__ = ("_conductor", "_fanouts", "_objects", "emissions", "node", "node_id", "opened", "state")

    def __init__(self, objects: NodeObjects, conductor: Conductor, node_id: str, node: Node) -> None:
        self._objects = objects
        self._conductor = conductor
        self.node_id = node_id
        self.node = node
        self.opened = False
        self.state = QUIET
        self.emissions: list[Emission] = []  # emits that have not ended
        self._fanouts: dict[str, tuple[Target, ...]] = {}

    def emit(self, lane: str, value: Any) -> Awaitable[None] | None:
        """Send a payload on a lane; see `Node.emit`."""
        conductor = self._conductor
        if self.state == SENDING and conductor.failure is None:
            targets = self._fanouts.get(lane)
            if targets is None:
                targets = self._find(lane)
            depth = conductor.depth
            if depth >= conductor.max_depth:
                raise conductor.too_deep()
            conductor.depth = depth + 1
            self.state = WAITING
            conductor.deliver(targets, (value,))
            self.state = SENDING
            conductor.depth = depth
            return None
        if self.state == SENDING_ASYNC:  # a failure is raised when it is awaited
            targets = self._fanouts.get(lane)
            if targets is None:
                targets = self._find(lane)
            caller = sys._getframe(2)  # 0 is this method, 1 is Node.emit
            emission = Emission(self, lane, targets, value, f"{caller.f_code.co_filename}:{caller.f_lineno}")
            self.emissions.append(emission)
            return emission
        raise self._refusal(lane)

    def listens(self, lane: str) -> bool:
        """Whether the node listens on a lane; see `Node.listens`."""
        return f"write_{lane}" in self._objects.plan.methods(self.node_id) and self._objects.reaches(self.node_id)

    def target(self, method: Method) -> Target:
        """Make the target of a node method: passes a context to a method with a context parameter, and maintains `opened`."""
        call = getattr(self.node, method.name)
        name = method.context
        if name is not None:
            call = _with_context(call, name, lambda: self._conductor.context(self.node_id))
        if method.name == "open":
            call = self._after_open_on_loop(call) if method.is_async else self._after_open(call)
        elif method.name == "close":
            call = self._before_close(call)
        return Target(self, method, call)

    def _after_open(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def opening(entry: Entry) -> Any:
            outcome = call(entry)
            self.opened = True
            return outcome

        return opening

    def _after_open_on_loop(self, call: Callable[..., Any]) -> Callable[..., Any]:
        async def opening(entry: Entry) -> None:
            await call(entry)
            self.opened = True

        return opening

    def _before_close(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def closing() -> Any:
            self.opened = False
            return call()

        return closing

    def begin(self, emission: Emission) -> Conductor:
        """Begin an awaited emission, and return the conductor that delivers it."""
        if emission.task is not None:
            raise self._broken(RuntimeError(f"the emit at {emission.where} is awaited twice"))
        if self.state != SENDING_ASYNC:
            raise self._refusal(emission.lane)
        self.state = WAITING
        return self._conductor

    def strays(self) -> list[asyncio.Task[Any]]:
        """The tasks of the node that still emit, though the method that started them has ended."""
        mine = asyncio.current_task()
        tasks = (emission.task for emission in self.emissions)
        return [task for task in tasks if task is not None and task is not mine and not task.done()]

    def done(self, emission: Emission) -> None:
        """End an emission: its receivers have returned."""
        self.emissions.remove(emission)
        self.state = SENDING_ASYNC

    def _find(self, lane: str) -> tuple[Target, ...]:
        declared = self._objects.plan.declared(self.node_id)
        if lane in declared:
            found = self._fanouts[lane] = self._objects.bind(self.node_id, lane)
            return found
        near = near_matches(lane, declared) if isinstance(lane, str) else []
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise self._broken(
            ValueError(
                f'Node "{self.node_id}" emits on the lane "{lane}", but its class declares {", ".join(declared) or "none"} '
                f"as lanes out.{hint}"
            )
        )

    def _refusal(self, lane: str) -> BaseException:
        who = f'Node "{self.node_id}": emit("{lane}")'
        if self.state == QUIET:
            return RuntimeError(f"{who} outside of an object: it works in write_<lane> and closing, not in tools")
        if self._conductor.failure is not None:
            return self._conductor.failure  # a node that caught the error gets it again
        if self.state == SILENT:
            return self._broken(RuntimeError(f"{who} in open or close: only in between its receivers listen"))
        return self._broken(
            RuntimeError(f"{who} while its last emit has not returned: emit one value after the other, from one thread")
        )

    def _broken(self, error: Exception) -> Exception:
        """Mark the object failed and return the same error: an author may catch it, but the failure stays."""
        self._conductor.fail_in(self.node_id, "emit", error)
        return error


class Emission:
    """The awaitable that `emit` returns in an `async def` method; awaiting it sends the payload."""

    __slots__ = ("_link", "_targets", "_value", "lane", "task", "where")

    def __init__(self, link: NodeLink, lane: str, targets: tuple[Target, ...], value: Any, where: str) -> None:
        self._link = link
        self._targets = targets
        self._value = value
        self.lane = lane
        self.where = where
        self.task: asyncio.Task[Any] | None = None

    def __await__(self) -> Generator[Any, None, None]:
        return self._send().__await__()

    async def _send(self) -> None:
        conductor = self._link.begin(self)
        self.task = asyncio.current_task()
        depth = conductor.depth
        if depth >= conductor.max_depth:
            raise conductor.too_deep()
        conductor.depth = depth + 1
        await conductor.deliver_on_loop(self._targets, (self._value,))
        conductor.depth = depth
        self._link.done(self)


def _with_context(call: Callable[..., Any], name: str, context: Callable[[], Any]) -> Callable[..., Any]:
    return lambda *args: call(*args, **{name: context()})
