"""Random requests on one pipe, compared with a model: what waits in a line takes effect in the order of its arrival."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple

import pytest
from engine_world import Asked, World, until, world
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rrext.engine.interface.operations import Write
from rrext.engine.tasks.pipes import OpenPipe
from rrext.errors import Cancelled
from rrext.nodes.base.node import Node
from rrext.tools.decorator import tool_function

Fate = Literal["cancel", "timeout"]
SECONDS = {"cancel": None, "timeout": 4.0}


class Step(NamedTuple):
    """`write`, `raise` (a write that fails), `tool` or `close`, stopped while it waits, or with its `fate` None left alone;
    `hold`: let what comes behind wait; `go`: let the first of those holds end.
    """

    what: Literal["write", "raise", "tool", "close", "hold", "go"]
    fate: Fate | None = None
    after: int = 0
    """How many further steps pass before it is stopped."""


class Waiting(NamedTuple):
    """A request in the line of the model, with the number of its step; -1: the end of an object that failed."""

    number: int
    what: str


class Model:
    """What each request must be answered, as one line of requests."""

    def __init__(self) -> None:
        self.line: deque[Waiting] = deque()
        self.answers: dict[int, str] = {}
        self.stopped: dict[int, str] = {}
        self.failed: str | None = None
        self.has_ended = self.is_kept = False
        self.ends = False
        """Whether a `close` that waits was stopped: what comes later need not wait."""

    def send(self, number: int, what: str) -> None:
        """A request arrives."""
        if self.ends or (self.has_ended and not self.is_kept):
            self.answers[number] = "pipe_not_open"
            return
        self.line.append(Waiting(number, what))
        self.advance()

    def stop(self, number: int, code: str) -> None:
        """A request is stopped, if it still waits."""
        if number not in self.answers:
            self.answers[number] = self.stopped[number] = code
            self.ends = self.ends or Waiting(number, "close") in self.line

    def go(self) -> None:
        """The first hold ends."""
        held = next((each for each in self.line if each.what == "hold"), None)
        if held is not None:
            self.line.remove(held)
        self.advance()

    def advance(self) -> None:
        """Let all take effect that nothing holds."""
        while self.line and self.line[0].what != "hold":
            number, what = self.line.popleft()
            code = self.effect(what, self.stopped.get(number))
            if number >= 0:
                self.answers.setdefault(number, code)

    def effect(self, what: str, stopped: str | None) -> str:
        """The effect and the answer of the request whose turn it is."""
        if what in ("close", "settle"):
            return self.end(what, keeps=what == "settle", stopped=stopped)
        if self.has_ended and not self.is_kept:
            return "pipe_not_open"
        if self.failed is not None:
            return "pipe_failed"
        if what == "tool":
            return "ok"
        if stopped is not None or what == "raise":
            self.failed = stopped or "tool_failed"
            if stopped is None:
                self.line.append(Waiting(-1, "settle"))
            return "tool_failed"
        return "ok"

    def end(self, what: str, *, keeps: bool, stopped: str | None) -> str:
        """The turn of a `close`, or of the end of an object that failed."""
        if self.has_ended and not (self.is_kept and what == "close"):
            return "pipe_not_open"
        self.has_ended, self.is_kept = True, keeps
        return f"closed {self.failed}"


async def at_rest() -> None:
    """Let the loop do all that it can: nothing here waits for a thread or for time."""
    for _ in range(12):
        await asyncio.sleep(0)


async def outcome(asked: Asked, what: str) -> str:
    """What a request was answered, as the model says it."""
    try:
        body = await asyncio.wait_for(asked.answer(), 10)
    except Exception as error:
        return getattr(error, "code", repr(error))
    return f"closed {body['error']['code'] if 'error' in body else None}" if what == "close" else "ok"


class Quick(Node):
    """Its objects are written on the loop."""

    provider = "quick"
    lanes = {"text": ()}

    async def write_text(self, text: str) -> None:
        if text == "raise":
            raise ValueError("as asked")

    async def close(self) -> None: ...

    @tool_function
    async def tool(self) -> None: ...


class Line:
    """The same requests for an engine and for the model."""

    def __init__(self, w: World, pipe: OpenPipe) -> None:
        self.w = w
        self.pipe = pipe
        self.model = Model()
        self.asked: dict[int, tuple[Asked, str]] = {}
        self.turns: deque[Any] = deque()
        self.stops: list[tuple[int, int, Fate]] = []

    async def step(self, number: int, step: Step) -> None:
        what = step.what
        if what == "hold":
            self.turns.append(self.pipe.lock.enter(exclusive=True))
            self.model.send(number, "hold")
        elif what == "go":
            if self.turns:
                self.turns.popleft().release()
            self.model.go()
        else:
            self.asked[number] = self.request(what, SECONDS[step.fate or "cancel"]), what
            self.model.send(number, what)
            if step.fate is not None:
                self.stops.append((number + step.after, number, step.fate))
        await at_rest()
        for when, stopped, fate in list(self.stops):
            if when <= number:
                self.stops.remove((when, stopped, fate))
                if fate == "cancel":
                    self.asked[stopped][0].cancel()
                else:
                    self.asked[stopped][0].call.deadline = 0.0
                    self.w.engine.host.expire(self.asked[stopped][0].call)
                self.model.stop(stopped, "cancelled" if fate == "cancel" else "tool_timeout")
                await at_rest()

    def request(self, what: str, seconds: float | None) -> Asked:
        if what == "close":
            return self.w.close(self.pipe.id, timeout=seconds)
        if what == "tool":
            return self.w.tool("tool", pipe=self.pipe.id, timeout=seconds)
        return self.w.write(self.pipe.id, what, timeout=seconds)


async def compared(steps: list[Step]) -> None:
    async with world(Quick) as w:
        pipe = w.engine._pipes.at(await w.open())
        line = Line(w, pipe)
        for number, step in enumerate(steps):
            await line.step(number, step)
        for last, what in enumerate([*["go"] * len(line.turns), "close"], len(steps)):
            await line.step(last, Step(what))
        found = {number: await outcome(*asked) for number, asked in line.asked.items()}
        assert found == {number: line.model.answers[number] for number in found}
        await w.at_rest()
        assert not w.engine._pipes.any_known
        assert w.engine._pipes._kept_bytes == 0


steps = st.lists(
    st.builds(
        Step,
        st.sampled_from(["write", "raise", "tool", "close", "close", "hold", "go"]),
        st.sampled_from([None, None, "cancel", "timeout"]),
        st.integers(0, 4),
    ),
    max_size=14,
)


@pytest.mark.promise("call:own-fate")
@settings(max_examples=150)
@example([Step("hold"), Step("close", "cancel", 3), Step("write"), Step("close", "timeout")])
@example([Step("hold"), Step("raise"), Step("hold"), Step("go"), Step("close"), Step("close", "cancel")])
@given(steps)
def test_what_waits_on_a_pipe_takes_effect_in_the_order_of_its_arrival(steps: list[Step]) -> None:
    asyncio.run(compared(steps))


@asynccontextmanager
async def written_pipe(during: list[Callable[[OpenPipe], None]]) -> AsyncIterator[tuple[World, OpenPipe]]:
    """A pipe whose writes run on the thread that reads them, and do what `during` holds."""

    class Does(Node):
        provider = "does"
        lanes = {"tags": ()}

        def write_tags(self, tag: Any) -> None:
            for do in during if tag.kind == "data" else ():
                do(pipe)

    async with world(Does) as w:
        pipe = w.engine._pipes.at(await w.open(mime_type="application/octet-stream"))
        assert pipe is not None
        await w.ask(Write(pipe_id=pipe.id), data=b"x").answer()
        await until(lambda: not w.task.sync_places.used)  # a write is answered before its thread gives its place back
        assert pipe.quick
        yield w, pipe


def begins_behind(pipe: OpenPipe, begin: Callable[[], object]) -> None:
    """Let something wait for the turn behind the write that runs."""
    turn = pipe.lock.enter(exclusive=False)

    def begins() -> None:
        begin()
        turn.release()

    assert turn.when_granted(begins)


@pytest.mark.promise("call:own-fate")
@pytest.mark.parametrize("start", ["start_here", "start"])
async def test_a_write_is_not_late_any_more_when_what_is_behind_it_begins(start: str) -> None:
    during: list[Callable[[OpenPipe], None]] = []
    stops: list[bool] = []
    async with written_pipe(during) as (w, pipe):
        asked = w.asked_for(Write(pipe_id=pipe.id, timeout=5.0), data=b"x")
        during.append(lambda pipe: begins_behind(pipe, lambda: stops.append(asked.cancel("timeout"))))
        getattr(w.engine, start)(asked.call)
        assert await asked.answer() == {}
        await until(lambda: stops)
        assert stops == [False]


@pytest.mark.promise("call:own-fate")
@pytest.mark.parametrize(("late", "code"), [(5.0, "tool_timeout"), (1.0, "cancelled")])
@pytest.mark.parametrize("start", ["start_here", "start"])
async def test_what_is_behind_a_write_that_was_stopped_at_its_end_begins_on_a_failed_pipe(
    start: str, late: float, code: str
) -> None:
    during: list[Callable[[OpenPipe], None]] = []
    seen: list[Any] = []
    async with written_pipe(during) as (w, pipe):
        asked = w.asked_for(Write(pipe_id=pipe.id, timeout=5.0), data=b"x")

        def stop(pipe: OpenPipe) -> None:
            begins_behind(pipe, lambda: seen.append(pipe.failed))
            asked.call.claim()  # as `Call.cancel` on another thread does, before it stops the run
            w.clock.advance(late)

        during.append(stop)
        getattr(w.engine, start)(asked.call)
        await until(lambda: seen)
        assert [error and error.code for error in seen] == [code]
        asked.fail(asked.call, Cancelled())
