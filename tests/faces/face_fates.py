"""Nodes whose tools fail in every way there is, call each other, or hold on to a thread."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

from face_state import journals, wait_behind

from rrext import Node, ToolContext, ToolError, tool_function

SECRET = "the password is swordfish"


def _cycle() -> list[Any]:
    circle: list[Any] = [1]
    circle.append(circle)
    return circle


def _deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


BAD_VALUES: dict[str, Callable[[], Any]] = {
    "nan": lambda: {"a": [1.0, math.nan]},
    "infinity": lambda: {"a": {"b": -math.inf}},
    "object": lambda: {"a": [{}, object()]},
    "surrogate": lambda: {"a": "\ud800"},
    "key": lambda: {"a": {1: 2}},
    "cycle": _cycle,
    "depth": _deep,
    "set_of_objects": lambda: {"a": {object()}},
}


class Mute(Exception):
    """An exception without a text."""

    def __str__(self) -> str:
        raise RuntimeError("no")


class Fate(Node):
    """Tools that do not answer as they should."""

    provider = "fate"

    @tool_function
    def bad(self, kind: str) -> Any:
        """A result that JSON cannot hold."""
        return BAD_VALUES[kind]()

    @tool_function
    async def bad_async(self, kind: str) -> Any:
        """The same on the loop."""
        return BAD_VALUES[kind]()

    @tool_function
    def bad_chunk(self, kind: str) -> Iterator[Any]:
        """The same as the second chunk."""
        yield 1
        yield BAD_VALUES[kind]()

    @tool_function(output_schema={"type": "object", "required": ["city"]})
    def broken_promise(self, keep: bool) -> dict[str, Any]:
        """A result that may break the output schema."""
        return {"city": "Oslo"} if keep else {"town": "Oslo"}

    @tool_function
    def refuse(self) -> None:
        """Fail in the author's own words."""
        raise ToolError("sold out", code="sold_out", hint="come back tomorrow", data={"left": 0})

    @tool_function
    def crash(self) -> None:
        """Fail by accident."""
        raise ValueError(SECRET)

    @tool_function
    async def crash_async(self) -> None:
        """The same on the loop."""
        raise KeyError(SECRET)

    @tool_function
    def leave(self) -> None:
        """Try to end the process."""
        raise SystemExit(3)

    @tool_function
    async def give_up(self) -> None:
        """Cancel itself."""
        raise asyncio.CancelledError

    @tool_function
    def stop_iteration(self) -> None:
        """What coroutines cannot carry."""
        raise StopIteration

    @tool_function
    def mute(self) -> None:
        """An exception whose text cannot be read."""
        raise Mute

    @tool_function
    def large(self, size: int, key: str = "") -> str:
        """A text of that size; the journal counts them."""
        journals[key].append(size)
        return "x" * size


class Nest(Node):
    """Tools that call tools."""

    provider = "nest"

    @tool_function
    def ask(self, node: str, tool: str, input: dict[str, Any] | None = None, *, ctx: ToolContext) -> Any:
        """Call another tool from a thread."""
        return ctx.call_blocking(node, tool, input)

    @tool_function
    async def ask_async(self, node: str, tool: str, input: dict[str, Any] | None = None, *, ctx: ToolContext) -> Any:
        """Call another tool from the loop."""
        return await ctx.call(node, tool, input)

    @tool_function(thread="same")
    def ask_same(self, node: str, tool: str, input: dict[str, Any] | None = None, *, ctx: ToolContext) -> Any:
        """Call another tool from the node's own thread."""
        return ctx.call_blocking(node, tool, input)

    @tool_function
    async def ask_many(self, number: int, tool: str = "", *, ctx: ToolContext) -> list[Any]:
        """Call many at a time."""
        calls = (ctx.call("", tool or ("add" if n % 2 else "add_async"), {"a": n}) for n in range(number))
        return [answer["sum"] for answer in await asyncio.gather(*calls)]

    @tool_function
    async def ask_user(self, params: dict[str, Any], *, ctx: ToolContext) -> Any:
        """Ask the user of the caller."""
        return {"modes": list(ctx.question_modes), **await ctx.ask(params)}

    @tool_function
    def sink(self, depth: int, *, ctx: ToolContext) -> int:
        """Call itself, by turns from a thread and from the loop."""
        return 0 if depth <= 1 else 1 + ctx.call_blocking("", "sink_async", {"depth": depth - 1})

    @tool_function
    async def sink_async(self, depth: int, *, ctx: ToolContext) -> int:
        """The other half."""
        return 0 if depth <= 1 else 1 + await ctx.call("", "sink", {"depth": depth - 1})

    @tool_function
    def who_nested(self, *, ctx: ToolContext) -> Any:
        """The context of a nested call."""
        return ctx.call_blocking("", "who")

    @tool_function
    async def who_in_space(self, space: str | None = None, *, ctx: ToolContext) -> dict[str, Any]:
        """The contexts of nested calls in another space of the same user."""
        there = ctx.in_space(space)
        async with there.stream("", "who") as chunks:
            assert [chunk async for chunk in chunks] == []
        return {
            "called": await there.call("", "who"),
            "streamed": chunks.value,
            "in_thread": await asyncio.to_thread(there.call_blocking, "", "who"),
            "within": await there.call("", "who_nested"),
            "back": await there.in_space(ctx.space_id).call("", "who"),
            "after": await ctx.call("", "who"),
        }

    @tool_function(thread="same")
    def thread_same(self) -> int:
        """Which thread it is."""
        return threading.get_ident()

    @tool_function(thread="main")
    def thread_main(self) -> bool:
        """Whether it is the loop's thread."""
        return asyncio._get_running_loop() is not None

    @tool_function(thread="same")
    def park_same(self, key: str) -> None:
        """Hold the node's own thread."""
        journals[key].append("in")
        wait_behind(key)


class Missing(Node):
    """Cannot run on this machine."""

    provider = "missing"

    @classmethod
    def unavailable(cls) -> str:
        """What to install."""
        return "the oracle is not installed: pip install oracle"

    @tool_function
    def oracle(self) -> str:
        """Never called."""
        return "yes"


class Doubt(Node):
    """Cannot even say whether it can run."""

    provider = "doubt"

    @classmethod
    def unavailable(cls) -> str | None:
        """Breaks."""
        raise Mute

    @tool_function
    def omen(self) -> str:
        """Never called."""
        return "no"
