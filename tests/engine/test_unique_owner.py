"""`unique`: a tool that several nodes own runs on none of them, unless its caller names one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from engine_world import World, world
from outside_tools import Outside

from rrext.engine.interface.call import ANONYMOUS
from rrext.engine.interface.operations import Tool
from rrext.errors import InvalidArguments, ToolNotFound, Unavailable
from rrext.nodes.base.node import Node, Switch
from rrext.nodes.basic.sources import ToolsNode
from rrext.tools.decorator import tool_function

pytestmark = [pytest.mark.anyio, pytest.mark.promise("tools:unique-owner")]


class First(Node):
    provider = "first"
    written: list[str] = []

    @tool_function
    def write(self) -> str:
        First.written.append(self.node_id)
        return "first"

    @tool_function
    def first_alone(self) -> str:
        return "first"


class Second(Node):
    provider = "second"

    @tool_function
    def write(self) -> str:
        First.written.append(self.node_id)
        return "second"


class Closed(Node):
    provider = "closed"

    @tool_function(available=lambda node, ctx: False)
    def write(self) -> str:
        raise AssertionError


class Switched(Node):
    provider = "switched"

    class Config:
        on: bool = False

    @tool_function(available=Switch("on"))
    def write(self) -> str:
        First.written.append(self.node_id)
        return self.node_id


@pytest.fixture(autouse=True)
def _nothing_written() -> None:
    First.written.clear()


async def only(w: World, tool: str, *, caller: Any = ANONYMOUS, **given: Any) -> Any:
    return await w.ask(Tool(tool=tool, unique=True, **given), caller=caller).result()


async def test_several_owners_are_named_and_none_of_them_is_called() -> None:
    async with world(First, Second) as w:
        for tool in ("write", " write "):
            with pytest.raises(InvalidArguments) as caught:
                await only(w, tool)
            assert caught.value.data["errors"][0]["path"] == "/nodeId"
            assert caught.value.data["nodes"] == ["first", "second"]
            assert caught.value.hint == "pass `nodeId`, one of: first, second"
        assert First.written == []
        assert await w.tool("write").result() == "first"
        await w.at_rest()


async def test_a_call_that_means_one_tool_is_unique() -> None:
    async with world(First, Second) as w:
        assert await only(w, "write", node_id="second") == "second"
        assert await only(w, "second__write") == "second"
        assert await only(w, "first_alone") == "first"
        with pytest.raises(ToolNotFound):
            await only(w, "wrote")


@pytest.mark.parametrize("nodes", [(First, Closed), (Closed, First)])
async def test_an_owner_that_is_not_available_is_an_owner(nodes: Any) -> None:
    async with world(*nodes) as w:
        with pytest.raises(InvalidArguments):
            await only(w, "write")


def switched(**on: bool) -> dict[str, Any]:
    components = [{"id": name, "provider": "switched", "config": {"on": value}} for name, value in on.items()]
    for component in components:
        component["control"] = [{"classType": "tool", "from": "tools_1"}]
    return {"components": [{"id": "tools_1", "provider": "tools", "config": {}}, *components], "source": "tools_1"}


async def test_what_is_meant_for_a_node_whose_settings_deny_the_tool_runs_in_no_other_one() -> None:
    async with world(Switched, more=[ToolsNode], pipeline=switched(one=False, two=True)) as w:
        with pytest.raises(InvalidArguments) as caught:
            await only(w, "write")
        assert caught.value.data["nodes"] == ["one", "two"]
        assert First.written == []


async def test_a_tool_that_the_caller_may_not_see_is_no_owner() -> None:
    async with world(First, Second) as w:
        caller = msgspec.structs.replace(ANONYMOUS, tools=frozenset({"second.write"}))
        assert await only(w, "write", caller=caller) == "second"


async def test_many_owners_are_listed_in_part_and_told_in_full() -> None:
    nodes = [type(f"N{n}", (First,), {"provider": f"n{n}"}) for n in range(20)]
    async with world(*nodes) as w:
        with pytest.raises(InvalidArguments) as caught:
            await only(w, "write")
        assert len(caught.value.data["nodes"]) == 20
        assert caught.value.hint == "pass `nodeId`, one of: n0, n1, n2, n3, n4, n5, n6, n7, …"


async def test_a_tool_of_a_server_outside_takes_no_name_away() -> None:
    outside = Outside("write", "find")
    async with world(outside.node, First) as w:
        assert await only(w, "write") == "first"
        assert outside.setups == 0
        assert await only(w, "find") == {}
        assert await only(w, "write") == "first"


async def test_the_only_owner_is_asked_alone_although_a_server_outside_has_the_tool_too() -> None:
    outside = Outside("write")
    async with world(outside.node, Closed) as w:
        assert await w.tool("write", node="outside").result() == {}
        assert await w.tool("write").result() == {}
        with pytest.raises(Unavailable):
            await only(w, "write")


async def test_servers_outside_tell_their_tools_before_one_of_them_is_the_only_owner() -> None:
    one, other = Outside("find"), Outside("find")
    other.node.provider = "other"
    async with world(one.node, other.node) as w:
        assert await w.tool("find", node="outside").result() == {}
        with pytest.raises(InvalidArguments) as caught:
            await only(w, "find")
        assert caught.value.data["nodes"] == ["outside", "other"]
        assert other.setups == 1


async def test_a_server_that_is_down_is_no_owner_and_is_asked_once() -> None:
    one, down = Outside("find"), Outside("find")
    down.node.provider = "down"
    down.failures += [Unavailable("the server is down")] * 3
    async with world(one.node, down.node) as w:
        assert await w.tool("find", node="outside").result() == {}
        for _ in range(3):
            assert await only(w, "find") == {}
        assert down.setups == 1


async def test_a_tool_and_its_form_with_fixed_arguments_are_two_owners() -> None:
    reference = {"type": "node", "node": "first", "tool": "write", "name": "write"}
    components: list[dict[str, Any]] = [
        {"id": "tools_1", "provider": "tools", "config": {"tools": [reference]}},
        {"id": "first", "provider": "first", "config": {}, "control": [{"classType": "tool", "from": "tools_1"}]},
    ]
    async with world(First, more=[ToolsNode], pipeline={"components": components, "source": "tools_1"}) as w:
        with pytest.raises(InvalidArguments) as caught:
            await only(w, "write")
        assert caught.value.data["nodes"] == ["first", "tools_1"]
