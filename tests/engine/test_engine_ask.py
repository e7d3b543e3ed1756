"""What code of this process asks an engine, and awaits."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from engine_world import AsyncPark, Park, until, world

from rrext.engine.interface.operations import Tool
from rrext.errors import ToolNotFound
from rrext.nodes.base.node import Node
from rrext.tools.decorator import tool_function


def tools(park: Park, lot: AsyncPark) -> type[Node]:
    class Tools(Node):
        provider = "some_tools"

        @tool_function
        def add(self, a: int, b: int) -> int:
            return a + b

        @tool_function
        def raw(self) -> bytes:
            return b"bytes"

        @tool_function
        async def stay(self) -> None:
            await lot.stay()

        @tool_function
        def stay_in_thread(self) -> None:
            park.stay()

    return Tools


async def test_an_answer_is_awaited_with_its_raw_bytes_or_raised() -> None:
    async with world(tools(Park(), AsyncPark())) as w:
        body, tail = await w.engine.ask(Tool(tool="add", input={"a": 1, "b": 2}))
        assert (msgspec.json.decode(body), tail) == ({"result": 3}, None)
        assert (await w.engine.ask(Tool(tool="raw")))[1] == b"bytes"
        with pytest.raises(ToolNotFound):
            await w.engine.ask(Tool(tool="ad"))
        await w.at_rest()


@pytest.mark.parametrize("tool", ["stay", "stay_in_thread"])
async def test_who_is_cancelled_while_asking_cancels_the_call(tool: str) -> None:
    park, lot = Park(), AsyncPark()
    async with world(tools(park, lot)) as w:
        asking = asyncio.create_task(w.engine.ask(Tool(tool=tool)))
        await until(lambda: park.inside or lot.inside)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert not w.task.active or not any(call for call in w.task.active if not call.settled)
        park.let_go()
        await w.at_rest()
