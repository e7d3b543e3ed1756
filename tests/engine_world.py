"""An engine in this process with real threads and a real loop, and callers who note every answer they get."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from rrext.engine.interface.call import ANONYMOUS, Call, Caller, Feed
from rrext.engine.interface.operations import Close, ListTools, Open, Operation, Terminate, Tool, Write
from rrext.engine.local_engine import LocalEngine
from rrext.engine.tasks.task import Task
from rrext.errors import Cancelled, RrextError
from rrext.limits import DEFAULTS
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.catalog import Catalog
from rrext.testing.sessions import ManualClock
from rrext.tools.context import SILENT, ToolCallbacks

__all__ = ["Asked", "AsyncPark", "Events", "Park", "World", "pipeline_of", "until", "world"]


async def until(condition: Callable[[], Any]) -> None:
    """Return when it holds. What threads do tells nobody, so it is looked for; the test's own timeout ends it."""
    while not condition():
        await asyncio.sleep(0.0005)


class Park:
    """Where sync tools stay until the test lets them go. `peak` is how many ever stayed at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gate = threading.Event()
        self.inside = 0
        self.peak = 0
        self.visits = 0

    def stay(self) -> None:
        with self._lock:
            self.inside += 1
            self.visits += 1
            self.peak = max(self.peak, self.inside)
        assert self._gate.wait(50)
        with self._lock:
            self.inside -= 1

    def let_go(self) -> None:
        self._gate.set()

    @property
    def is_open(self) -> bool:
        return self._gate.is_set()

    def shut(self) -> None:
        self._gate.clear()


class AsyncPark:
    """`Park` for async tools. `cancelled` counts those that were cancelled there."""

    def __init__(self) -> None:
        self._gate = asyncio.Event()
        self.inside = 0
        self.visits = 0
        self.cancelled = 0

    async def stay(self) -> None:
        self.inside += 1
        self.visits += 1
        try:
            await self._gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.inside -= 1

    def let_go(self) -> None:
        self._gate.set()


class Asked:
    """A call, and all its answers."""

    def __init__(self) -> None:
        self.call: Call
        self.answers: list[Any] = []
        self.tail: bytes | None = None
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None:
        self.tail = tail
        self._end(msgspec.json.decode(body))

    def fail(self, call: Call, error: RrextError) -> None:
        self._end(error)

    def _end(self, answer: Any) -> None:
        if self.call.feed is not None:
            self.call.feed.end()
        self.answers.append(answer)
        self._loop.call_soon_threadsafe(self._news.set)

    @property
    def is_answered(self) -> bool:
        return bool(self.answers)

    async def answer(self) -> Any:
        """The body; raises the failure."""
        await self._news.wait()
        if isinstance(self.answers[0], RrextError):
            raise self.answers[0]
        return self.answers[0]

    async def result(self) -> Any:
        """What a tool returned."""
        return (await self.answer())["result"]

    async def error(self) -> RrextError:
        """The failure."""
        await self._news.wait()
        assert isinstance(self.answers[0], RrextError), self.answers[0]
        return self.answers[0]

    def cancel(self, reason: str = "cancelled") -> bool:
        return self.call.cancel(reason, Cancelled())


class Events:
    """The feed of a caller who wants all events, and answers questions for permits with `permit`."""

    def __init__(self, *, permit: bool | None = None) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.chunks: list[bytes] = []
        self.asked: list[dict[str, Any]] = []
        self.permit = permit
        self.never = asyncio.Event()

    @property
    def kinds(self) -> list[str]:
        """The events in short: `agent_step start`, `call_started add` …; pieces of text that follow each other are one."""
        found: list[str] = []
        for body in self.bodies:
            short = f"{body['event']} {body.get('step') or body.get('tool', '')} {body.get('agentTool', '')}".rstrip()
            if short != "agent_step chunk" or found[-1:] != [short]:
                found.append(short)
        return found

    def call_event(self, body: dict[str, Any]) -> None:
        self.bodies.append(body)

    def chunk(self, index: int, chunk: bytes, tail: bytes | None) -> None:
        self.chunks.append(chunk)

    async def ask(self, event: str, body: dict[str, Any]) -> Any:
        self.asked.append(body)
        if self.permit is None:
            await self.never.wait()
        return self.permit

    def progress(self, value: float, total: float | None, message: str | None) -> None: ...

    def wait_for_room(self) -> None: ...

    async def room(self) -> None: ...

    def end(self) -> None: ...


class World:
    """An engine with one loaded pipeline, and everybody who asked it something."""

    def __init__(self, engine: LocalEngine, task: Task, clock: ManualClock) -> None:
        self.engine = engine
        self.task = task
        self.clock = clock
        self.asked: list[Asked] = []

    def ask(
        self, operation: Operation, *, data: bytes | None = None, caller: Caller = ANONYMOUS, feed: Feed | None = None
    ) -> Asked:
        """Start an operation as a face would."""
        asked = self.asked_for(operation, data=data, caller=caller, feed=feed)
        self.engine.start(asked.call)
        return asked

    def asked_for(
        self, operation: Operation, *, data: bytes | None = None, caller: Caller = ANONYMOUS, feed: Feed | None = None
    ) -> Asked:
        """An operation that is received, and not started."""
        asked = Asked()
        number = len(self.asked) + 1
        received = None if operation.timeout is None else self.clock.now()
        asked.call = Call(operation, asked, caller, number, "test", data, feed, received)
        self.asked.append(asked)
        return asked

    def tool(
        self,
        tool: str,
        input: Any = None,
        /,
        *,
        node: str | None = None,
        pipe: int | None = None,
        timeout: float | None = None,
        meta: Any = None,
        caller: Caller = ANONYMOUS,
        feed: Feed | None = None,
        **given: Any,
    ) -> Asked:
        """Call a tool; its input is `input` or the named arguments."""
        operation = Tool(
            tool=tool,
            node_id=node,
            input=given if input is None else input,
            pipe_id=pipe,
            timeout=timeout,
            meta=meta,
            progress=feed is not None,
            stream=feed is not None,
        )
        return self.ask(operation, caller=caller, feed=feed)

    async def open(self, *, mime_type: str = "text/plain", source: str | None = None, caller: Caller = ANONYMOUS) -> int:
        return (await self.ask(Open(mime_type=mime_type, source=source), caller=caller).answer())["pipe_id"]

    def write(self, pipe: int, data: str, *, timeout: float | None = None, caller: Caller = ANONYMOUS) -> Asked:
        return self.ask(Write(pipe_id=pipe, data=data, timeout=timeout), caller=caller)

    def close(self, pipe: int, *, timeout: float | None = None, caller: Caller = ANONYMOUS) -> Asked:
        return self.ask(Close(pipe_id=pipe, timeout=timeout), caller=caller)

    async def tools(self, caller: Caller = ANONYMOUS) -> list[str]:
        return [found["name"] for found in (await self.ask(ListTools(), caller=caller).answer())["tools"]]

    async def terminate(self) -> Any:
        return await self.ask(Terminate()).answer()

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing runs, waits, or holds a place."""
        task = self.task
        limits = (task.places, task.sync_places)
        return not task.active and all(not places.used and not places.waiting for places in limits)

    async def at_rest(self) -> None:
        """Wait until nothing runs; every call must have exactly one answer then."""
        await until(lambda: self.is_at_rest and all(asked.is_answered for asked in self.asked))
        await asyncio.sleep(0)
        assert [len(asked.answers) for asked in self.asked] == [1] * len(self.asked)


class Source(Node):
    """Begins every pipeline here."""

    provider = "source"
    lanes = {"_source": ("tags", "text", "questions")}
    class_types = ("source",)


def pipeline_of(*nodes: type[Node], **config: Any) -> dict[str, Any]:
    """Every node is bound to the source, and listens to it on all its lanes; its id is its provider's name."""
    components: list[dict[str, Any]] = [{"id": "source", "provider": "source", "config": {}}]
    for node in nodes:
        lanes = [lane for lane in node.lanes if not lane.startswith("_")]
        components.append(
            {
                "id": node.provider,
                "provider": node.provider,
                "config": config.get(node.provider, {}),
                "input": [{"lane": lane, "from": "source"} for lane in lanes],
                "control": [{"classType": "tool", "from": "source"}] if node.tools or node.has_dynamic_tools else [],
            }
        )
    return {"components": components, "source": "source", "project_id": "3f0f5d1e-4a0b-4a57-9a63-0d5f6f4f7a11"}


@asynccontextmanager
async def world(
    *nodes: type[Node],
    threads: int | None = None,
    callbacks: ToolCallbacks = SILENT,
    more: Sequence[type[Node]] = (),
    pipeline: dict[str, Any] | None = None,
    partial: bool = False,
    **limits: Any,
) -> AsyncIterator[World]:
    """A world of these nodes; `limits` are fields of `Limits`. At its end nothing may be left behind."""
    clock = ManualClock()
    engine = LocalEngine(
        catalog=Catalog([Source, *nodes, *more]),
        limits=msgspec.structs.replace(DEFAULTS, **limits),
        clock=clock,
        callbacks=callbacks,
    )
    task = engine.load(pipeline or pipeline_of(*nodes), token="t", threads=threads, partial=partial)
    try:
        yield World(engine, task, clock)
    finally:
        await engine.aclose()
