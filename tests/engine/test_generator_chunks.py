"""Generator tools: chunks leave in order and wait for room, limits stop the generator, and it is always closed."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from typing import Any

import msgspec
import pytest
from engine_world import until, world

from rrext.errors import Cancelled, ResultTooLarge, ToolError
from rrext.nodes.base.node import Node
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function


class Stream:
    """A feed that takes `room` chunks before it says that it is full, until `drain`."""

    def __init__(self, room: int = 10**9) -> None:
        self.chunks: list[tuple[int, bytes, bytes | None]] = []
        self.room_left = room
        self.ended = False
        self._loop = asyncio.get_running_loop()
        self._changed = threading.Condition()
        self.waiting = 0

    def progress(self, value: float, total: float | None, message: str | None) -> None: ...

    def chunk(self, index: int, chunk: bytes, tail: bytes | None) -> None:
        assert not self.ended
        self.chunks.append((index, chunk, tail))
        self.room_left -= 1

    def wait_for_room(self) -> None:
        with self._changed:
            self.waiting += 1
            while self.room_left <= 0 and not self.ended:
                assert self._changed.wait(20)
            self.waiting -= 1

    async def room(self) -> None:
        self.waiting += 1
        while self.room_left <= 0 and not self.ended:
            await asyncio.sleep(0)
        self.waiting -= 1

    def drain(self, count: int) -> None:
        with self._changed:
            self.room_left = count
            self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self.ended = True
            self._changed.notify_all()


def counters(log: list[str]) -> type[Node]:
    class Counters(Node):
        provider = "counters"

        @tool_function
        def pool(self, to: int):
            try:
                for number in range(to):
                    yield number
                    log.append("more")
            finally:
                log.append("closed")

        @tool_function(thread="same")
        def same(self, to: int):
            yield from self.pool(to)

        @tool_function(thread="main")
        def main(self, to: int):
            yield from self.pool(to)

        @tool_function
        async def coro(self, to: int):
            try:
                for number in range(to):
                    yield number
                    log.append("more")
            finally:
                log.append("closed")

        @tool_function
        def endless(self):
            while True:
                yield 1

        @tool_function
        async def endless_async(self):
            while True:
                yield 1

        @tool_function
        def with_value(self, to: int) -> Any:
            yield from range(to)
            return "value"

        @tool_function
        def pieces(self, size: int, count: int):
            for _ in range(count):
                yield b"x" * size

        @tool_function
        async def pieces_async(self, size: int, count: int):
            for _ in range(count):
                yield b"x" * size

        @tool_function
        def odd(self, what: str):
            yield 1
            if what == "stop":
                raise StopIteration
            if what == "exit":
                raise SystemExit(3)
            if what == "cancelled":
                raise asyncio.CancelledError
            if what == "nan":
                yield float("nan")
            if what == "raise":
                raise ValueError("as asked")

        @tool_function
        def stubborn(self):
            while True:
                try:
                    yield "x" * 100
                except GeneratorExit:
                    yield "never"

    return Counters


KINDS = ("pool", "same", "main", "coro")


@pytest.mark.parametrize("tool", KINDS)
async def test_without_a_stream_the_result_is_the_list_of_chunks(tool: str) -> None:
    async with world(counters([])) as w:
        assert await w.tool(tool, to=100).result() == list(range(100))
        assert await w.tool(tool, to=0).result() == []
        await w.at_rest()


@pytest.mark.parametrize("tool", KINDS)
async def test_a_stream_gets_every_chunk_in_order_and_the_result_is_null(tool: str) -> None:
    async with world(counters([])) as w:
        stream = Stream()
        assert await w.tool(tool, to=100, feed=stream).result() is None
        assert stream.chunks == [(n, b"%d" % n, None) for n in range(100)]
        await w.at_rest()


async def test_a_returned_value_stands_beside_the_chunks_or_is_the_streams_result() -> None:
    async with world(counters([])) as w:
        assert await w.tool("with_value", to=2).result() == {"chunks": [0, 1], "value": "value"}
        assert await w.tool("with_value", to=2, feed=Stream()).result() == "value"


@pytest.mark.parametrize("tool", KINDS)
async def test_a_generator_waits_while_there_is_no_room_and_loses_nothing(tool: str) -> None:
    log: list[str] = []
    async with world(counters(log)) as w:
        stream = Stream(room=3)
        asked = w.tool(tool, to=10, feed=stream)
        await until(lambda: stream.waiting and len(stream.chunks) == 3)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(stream.chunks) == 3
        assert log.count("more") == 2
        assert await w.tool("with_value", to=1).result()  # everybody else goes on, also where the loop runs it
        stream.drain(4)
        await until(lambda: stream.waiting and len(stream.chunks) == 7)
        stream.drain(100)
        assert await asked.result() is None
        assert [index for index, *_ in stream.chunks] == list(range(10))
        await w.at_rest()


@pytest.mark.parametrize("tool", KINDS)
async def test_a_cancel_reaches_a_generator_that_waits_for_room_and_closes_it(tool: str) -> None:
    log: list[str] = []
    async with world(counters(log)) as w:
        stream = Stream(room=2)
        asked = w.tool(tool, to=10, feed=stream)
        await until(lambda: stream.waiting and len(stream.chunks) == 2)
        asked.cancel()
        assert isinstance(await asked.error(), Cancelled)
        await w.at_rest()
        assert log[-1] == "closed"
        assert len(stream.chunks) == 2


@pytest.mark.parametrize("tool", KINDS)
async def test_a_cancel_comes_through_to_a_generator_that_never_waits(tool: str) -> None:
    log: list[str] = []
    async with world(counters(log)) as w:
        asked = w.tool(tool, to=10**9)
        await until(lambda: len(log) > 100)
        asked.cancel()
        await w.at_rest()
        assert log[-1] == "closed"


@pytest.mark.parametrize("tool", KINDS)
async def test_max_result_counts_all_chunks_together_and_stops_the_generator(tool: str) -> None:
    log: list[str] = []
    async with world(counters(log), max_result=100) as w:
        error = await w.tool(tool, to=10**9).error()
        assert isinstance(error, ResultTooLarge)
        assert error.data["limit"] == "max_result"
        await w.at_rest()
        assert log[-1] == "closed"
        assert 30 < log.count("more") < 100
        stream = Stream()
        assert await w.tool(tool, to=200, feed=stream).result() is None  # a stream has no limit on the whole
        assert len(stream.chunks) == 200


async def test_the_list_of_chunks_is_kept_to_the_byte() -> None:
    async with world(counters([]), max_result=21) as w:
        assert len(msgspec.json.encode(await w.tool("pool", to=10).result())) == 21
        assert isinstance(await w.tool("pool", to=11).error(), ResultTooLarge)


async def test_a_list_with_a_value_is_kept_to_the_byte() -> None:
    whole = len(b'{"chunks":[0,1,2],"value":"value"}')
    async with world(counters([]), max_result=whole) as w:
        assert await w.tool("with_value", to=3).result() == {"chunks": [0, 1, 2], "value": "value"}
    async with world(counters([]), max_result=whole - 1) as w:
        assert isinstance(await w.tool("with_value", to=3).error(), ResultTooLarge)


@pytest.mark.promise("result:endless:bounded")
@pytest.mark.parametrize("tool", ["endless", "endless_async"])
async def test_an_endless_generator_costs_no_more_memory_than_its_result_may_have(tool: str) -> None:
    """As objects, a hundred thousand numbers take twenty times the bytes that they are in JSON."""
    limit = 256 * 1024
    async with world(counters([]), max_result=limit) as w:
        tracemalloc.start()
        try:
            error = await w.tool(tool).error()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert isinstance(error, ResultTooLarge)
        assert peak < 3 * limit


async def test_chunks_and_value_are_counted_together() -> None:
    class Both(Node):
        provider = "both"

        @tool_function
        def give(self, size: int) -> Any:
            yield "x" * 60
            return "y" * size

    async with world(Both, max_result=150) as w:
        assert len((await w.tool("give", size=40).result())["value"]) == 40
        assert isinstance(await w.tool("give", size=100).error(), ResultTooLarge)


@pytest.mark.parametrize("tool", ["pieces", "pieces_async"])
async def test_bytes_are_raw_in_a_stream_and_base64_in_a_list(tool: str) -> None:
    async with world(counters([]), max_result=1000) as w:
        stream = Stream()
        await w.tool(tool, size=300, count=9, feed=stream).answer()
        assert stream.chunks == [(n, b"", b"x" * 300) for n in range(9)]
        assert await w.tool(tool, size=3, count=2).result() == ["eHh4", "eHh4"]
        assert isinstance(await w.tool(tool, size=1001, count=1, feed=Stream()).error(), ResultTooLarge)
        await w.at_rest()


@pytest.mark.parametrize(
    ("what", "said"),
    [("stop", "StopIteration"), ("exit", "SystemExit"), ("cancelled", "from inside"), ("nan", "NaN"), ("raise", "as asked")],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_what_a_generator_raises_half_way_is_the_calls_failure(what: str, said: str, streamed: bool) -> None:
    async with world(counters([])) as w:
        error = await w.tool("odd", what=what, feed=Stream() if streamed else None).error()
        assert isinstance(error, ToolError)
        assert said in error.message
        await w.at_rest()


async def test_a_generator_that_refuses_to_be_closed_costs_nothing_but_its_call() -> None:
    async with world(counters([]), max_result=1000) as w:
        assert isinstance(await w.tool("stubborn").error(), ToolError | ResultTooLarge)
        await w.at_rest()


async def test_a_callee_that_is_cancelled_half_way_gives_its_caller_no_result() -> None:
    """Its caller must not take what there was until then for the whole."""
    seen: list[Any] = []
    go = threading.Event()

    class Part(Node):
        provider = "part"

        @tool_function
        def ask(self, ctx: ToolContext) -> Any:
            try:
                seen.append(ctx.call_blocking("part", "chunks"))
            except Cancelled:
                seen.append("cancelled")
            return 1

        @tool_function
        def chunks(self):
            yield 1
            seen.append("half way")
            assert go.wait(10)
            yield 2

    async with world(Part) as w:
        asked = w.tool("ask")
        await until(lambda: seen)
        asked.cancel()
        go.set()
        await w.at_rest()
        assert seen == ["half way", "cancelled"]
