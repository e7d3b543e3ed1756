"""The node that every face serves: tools of every kind."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Annotated, Any

from face_state import inside, journals, opened, pass_gate, wait_behind

from rrext import Content, Node, ToolContext, ToolError, tool_function


def only_for(user: str) -> Callable[[ToolContext], bool]:
    """A predicate: the tool is there for one user alone."""

    def available(ctx: ToolContext) -> bool:
        return ctx.user_id == user

    return available


def broken_predicate(ctx: ToolContext) -> bool:
    raise RuntimeError("the predicate fell over")


def seen_by(node: Node, ctx: ToolContext) -> dict[str, Any]:
    """A context as data, and where the node keeps one."""
    kept = [name for name, value in vars(node).items() if isinstance(value, ToolContext)]
    return {
        "user": ctx.user_id,
        "space": ctx.space_id,
        "node": ctx.node_id,
        "pipe": ctx.pipe_id,
        "meta": ctx.meta,
        "kept": kept,
    }


class Probe(Node):
    """Tools that answer, wait, report and tell who calls."""

    provider = "probe"

    # answers

    @tool_function
    def add(self, a: int, b: int = 1) -> dict[str, int]:
        """Add."""
        return {"sum": a + b}

    @tool_function
    async def add_async(self, a: int, b: int = 1) -> dict[str, int]:
        """Add, on the loop."""
        return {"sum": a + b}

    @tool_function
    def echo(self, value: Any) -> Any:
        """The same value."""
        return value

    @tool_function
    def blob(self, data: bytes) -> bytes:
        """The same bytes."""
        return data

    @tool_function
    def boxed_blob(self, data: bytes) -> dict[str, bytes]:
        """The same bytes inside of JSON."""
        return {"data": data}

    @tool_function
    def several(self) -> Content:
        """A text, a picture, a link and a block with annotations."""
        loud = {"type": "text", "text": "loud", "annotations": {"priority": 1}}
        return Content("words", b"GIF89a", Content.link("file:///a/b.csv", mimeType="text/csv"), loud)

    @tool_function
    def told(self) -> Content:
        """A text that says something else than the structured result."""
        return Content("three in all", structured={"count": 3}, meta={"org.example/kind": "sum"})

    @tool_function
    def nothing(self) -> None:
        """Null."""

    @tool_function(output_schema={"anyOf": [{"type": "object"}, {"type": "array"}]})
    def either(self, value: Any) -> Any:
        """An object or a list."""
        return value

    @tool_function(output_schema={"type": "object"})
    def boxed(self, value: Any) -> Any:
        """An object."""
        return value

    @tool_function(output_schema={"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}})
    def numbers(self, value: Any) -> Any:
        """A list of numbers."""
        return value

    @tool_function
    def environment(self) -> dict[str, str]:
        """What this process sees."""
        return dict(os.environ)

    @tool_function
    def typed(
        self,
        name: str,
        count: Annotated[int, "How many."] = 1,
        share: float = 0.5,
        flag: bool = False,
        tags: list[str] | None = None,
        box: dict[str, int] | None = None,
        pair: tuple[int, str] = (0, ""),
        *,
        ctx: ToolContext,
    ) -> list[str]:
        """Parameters of many types; says what arrived as what."""
        return [type(value).__name__ for value in (name, count, share, flag, tags, box, pair)]

    # who calls

    @tool_function
    def who(self, *, ctx: ToolContext) -> dict[str, Any]:
        """The context of this call."""
        return seen_by(self, ctx)

    @tool_function
    async def who_behind(self, key: str, *, ctx: ToolContext) -> dict[str, Any]:
        """The context of this call, once the gate is open."""
        ctx.progress(1)
        await opened(key)
        return seen_by(self, ctx)

    @tool_function
    def who_behind_in_thread(self, key: str, *, ctx: ToolContext) -> dict[str, Any]:
        """The same in a thread."""
        ctx.progress(1)
        wait_behind(key)
        return seen_by(self, ctx)

    @tool_function(available=only_for("ada"))
    def for_ada(self) -> str:
        """For one user."""
        return "hello ada"

    @tool_function(available=only_for("bob"))
    async def for_bob(self) -> str:
        """For another."""
        return "hello bob"

    @tool_function(available=broken_predicate)
    def for_nobody(self) -> str:
        """Its predicate is broken."""
        return "never"

    # the tests' own switches

    @tool_function
    async def open_gate(self, key: str) -> None:
        """Let those pass who wait."""
        pass_gate(key)

    @tool_function
    async def journal(self, key: str) -> list[Any]:
        """What was noted."""
        return list(journals[key])

    @tool_function
    def note(self, key: str, text: str = "ran") -> None:
        """A side effect."""
        journals[key].append(text)

    @tool_function
    async def note_async(self, key: str, text: str = "ran") -> None:
        """The same on the loop."""
        journals[key].append(text)

    # waiting

    @tool_function
    async def wait(self, key: str = "", *, ctx: ToolContext) -> str:
        """Wait on the loop for the gate."""
        journals[f"{key} began"].append("wait")
        ctx.progress(1, message="parked")
        try:
            await opened(key)
        except asyncio.CancelledError:
            journals[key].append("unwound")
            raise
        return "passed"

    @tool_function
    def park(self, key: str = "", *, ctx: ToolContext) -> str:
        """Wait in a thread for the gate, or for a cancel."""
        stop = threading.Event()
        ctx.on_cancel(stop.set)
        journals[f"{key} began"].append("park")
        ctx.progress(1, message="parked")
        wait_behind(key, stop)
        if ctx.cancelled:
            journals[key].append(ctx.token.reason)
        ctx.check()
        return "passed"

    @tool_function
    def deaf(self, key: str) -> str:
        """Wait in a thread for the gate, whatever happens."""
        journals[key].append("in")
        wait_behind(key)
        journals[key].append("out")
        return "passed"

    @tool_function
    def moody(self, key: str, wait: bool = False) -> str:
        """As quick as can be, until it is not."""
        if wait:
            journals[key].append("in")
            wait_behind(key)
        return "passed"

    @tool_function(timeout=30)
    async def short_tempered(self, key: str) -> str:
        """Wait, with a deadline of its own."""
        await opened(key)
        return "passed"

    @tool_function
    async def crowd(self, key: str, size: int) -> int:
        """Wait until `size` of these run at the same time; the most that ever did."""
        inside[key].append(1)
        journals[key].append(len(inside[key]))
        if len(inside[key]) >= size:
            pass_gate(key)
        await opened(key)
        await asyncio.sleep(0)
        inside[key].pop()
        return max(journals[key])

    @tool_function
    def crowd_in_threads(self, key: str, size: int) -> int:
        """The same in threads."""
        inside[key].append(1)
        journals[key].append(len(inside[key]))
        if len(inside[key]) >= size:
            pass_gate(key)
        wait_behind(key)
        inside[key].pop()
        return max(journals[key])

    # chunks and progress

    @tool_function
    def count(self, to: int) -> Iterator[int]:
        """Chunks."""
        yield from range(to)

    @tool_function
    def count_and_sum(self, to: int) -> Generator[int, None, int]:
        """Chunks and a value."""
        yield from range(to)
        return sum(range(to))

    @tool_function
    async def count_async(self, to: int) -> AsyncIterator[int]:
        """Chunks, from the loop."""
        for number in range(to):
            yield number

    @tool_function
    def count_and_fail(self, to: int) -> Iterator[int]:
        """Chunks, then a failure."""
        yield from range(to)
        raise ToolError("out of numbers", code="no_more")

    @tool_function
    def pieces(self, data: bytes, size: int) -> Iterator[bytes]:
        """The same bytes in pieces."""
        for start in range(0, len(data), size):
            yield data[start : start + size]

    @tool_function
    def slabs(self, number: int, size: int, key: str = "") -> Iterator[bytes]:
        """Chunks that are bytes, of one value each; the journal counts those that were made."""
        for value in range(number):
            journals[key].append(value)
            yield bytes([value % 256]) * size

    @tool_function
    async def slabs_async(self, number: int, size: int, key: str = "") -> AsyncIterator[bytes]:
        """The same from the loop."""
        for value in range(number):
            journals[key].append(value)
            yield bytes([value % 256]) * size

    @tool_function
    def report(self, to: int, key: str = "", *, ctx: ToolContext) -> str:
        """Progress from a thread; the lower value in between is dropped."""
        for value in range(1, to + 1):
            ctx.progress(value, to)
            ctx.progress(value / 2, to, "goes back")
        journals[key].append("reported")
        return "done"

    @tool_function
    async def report_async(self, to: int, *, ctx: ToolContext) -> str:
        """Progress from the loop."""
        for value in range(1, to + 1):
            ctx.progress(value, to)
            await asyncio.sleep(0)
        return "done"

    @tool_function
    async def report_late(self, key: str, *, ctx: ToolContext) -> str:
        """Answer, while a thread goes on to report."""

        def go_on() -> None:
            wait_behind(key)
            for value in range(2, 200):
                ctx.progress(value)
            journals[key].append("reported")

        ctx.progress(1)
        threading.Thread(target=go_on, daemon=True).start()
        return "done"
