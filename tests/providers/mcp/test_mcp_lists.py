"""Lists of tools of external MCP servers: malformed, endless and changing ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from mcp_connections import PATIENCE

from rrext.errors import Unavailable
from rrext.providers.mcp.provider import McpProvider
from rrext.tools.context import ToolContext

ByHand = Callable[..., McpProvider]
ACT = {"name": "act", "inputSchema": {"type": "object"}}


async def names(provider: McpProvider) -> list[str]:
    return [tool.name for tool in await provider.tools()]


MALFORMED: list[Any] = [
    None,
    "act2",
    {},
    {"name": 7},
    {"name": ""},
    {"name": "n" * 300},
    {"name": "a", "inputSchema": []},
    {"name": "b", "inputSchema": {"type": "string"}},
    {"name": "c", "inputSchema": {"type": "nonsense"}},
    {"name": "d", "inputSchema": {"type": "object", "properties": {"x": {"$ref": "#/nowhere"}}}},
    {"name": "e", "inputSchema": {"type": "object"}, "outputSchema": {"type": 3}},
    ACT,
]


@pytest.mark.promise("mcp-server:hostile:alone")
async def test_a_malformed_tool_hides_no_other(by_hand: ByHand, caplog: pytest.LogCaptureFixture) -> None:
    tools = [ACT, *MALFORMED, {"name": "last"}]
    provider = by_hand(f"serve(lambda request: answer(request, {{}}), tools={tools!r})")
    assert await names(provider) == ["act", "last"]
    for position in range(len(MALFORMED)):
        assert f"tool {position + 2} " in caplog.text


async def test_what_else_is_malformed_of_a_tool_is_left_out_of_it(by_hand: ByHand) -> None:
    tool = {**ACT, "description": 5, "title": [], "annotations": {"readOnlyHint": True, "destructiveHint": "no", "x": 1}}
    provider = by_hand(f"serve(lambda request: answer(request, {{}}), tools=[{tool!r}])")
    (found,) = await provider.tools()
    assert (found.description, found.annotations) == ("", {"readOnlyHint": True})


async def test_all_pages_are_read_and_a_list_without_end_is_cut(by_hand: ByHand) -> None:
    code = """
        def tools(request):
            page = int(request.get("params", {}).get("cursor", 0))
            return {"tools": [{"name": f"t{page}"}], "nextCursor": str(page + 1)}
        serve(None, tools=tools)
    """
    found = await names(by_hand(code))
    assert found[:3] == ["t0", "t1", "t2"]
    assert len(found) == 100


async def test_an_answer_that_is_no_list_of_tools_is_one_error(by_hand: ByHand) -> None:
    with pytest.raises(Unavailable, match="has no list of tools"):
        await by_hand("serve(None, tools=lambda request: {'tools': 'many'})").tools()


async def test_an_error_instead_of_the_list_is_one_error(by_hand: ByHand) -> None:
    code = "serve(lambda request: None, tools=lambda request: 1 / 0)"
    with pytest.raises(Unavailable, match="ZeroDivisionError"):
        await by_hand(code).tools()


async def test_an_announced_change_is_told_and_the_list_is_new(by_hand: ByHand) -> None:
    provider = by_hand(
        """
        known = [{"name": "learn"}]
        def handle(request):
            known.append({"name": "learnt"})
            for _ in range(100):
                say({"method": "notifications/tools/list_changed"})
            answer(request, {"content": []})
        lists = []
        def tools(request):
            lists.append(1)
            return {"tools": known + [{"name": "count", "description": str(len(lists))}]}
        serve(handle, tools=tools, announces=True)
        """
    )
    changed = asyncio.Event()
    provider.watch(changed.set)
    before = {tool.name: tool for tool in await provider.tools()}
    await provider.call("learn", {}, ToolContext())
    async with asyncio.timeout(PATIENCE):
        while "learnt" not in await names(provider):
            await changed.wait()
            changed.clear()
    after = {tool.name: tool for tool in await provider.tools()}
    assert after["learn"] is before["learn"]
    assert int(after["count"].description) < 10


async def test_a_list_that_is_never_answered_hides_no_later_change(by_hand: ByHand) -> None:
    provider = by_hand(
        """
        lists = []
        def handle(request):
            if request["method"] == "tools/call":
                say({"method": "notifications/tools/list_changed"})
                answer(request, {"content": []})
        def tools(request):
            lists.append(1)
            if len(lists) == 2:
                request["id"] = 77_777  # the answer of another request: that of this one is lost
            return {"tools": [{"name": "act"}] + [{"name": "late"}] * (len(lists) > 2)}
        serve(handle, tools=tools, announces=True)
        """,
        timeout=5,
    )
    changed = asyncio.Event()
    provider.watch(changed.set)
    async with asyncio.timeout(PATIENCE):
        while "late" not in await names(provider):
            await provider.call("act", {}, ToolContext())
            await asyncio.wait([asyncio.ensure_future(changed.wait())], timeout=0.1)


async def test_a_change_that_is_told_to_subscribers_is_noticed(sdk: McpProvider) -> None:
    changed = asyncio.Event()
    provider = sdk
    assert "newcomer" not in await names(provider)
    provider.watch(changed.set)
    await provider.call("learn", {"name": "newcomer"}, ToolContext())
    async with asyncio.timeout(PATIENCE):
        await changed.wait()
    assert await provider.call("newcomer", {"name": "Eve"}, ToolContext()) == "Hello Eve"


async def test_a_list_that_changed_while_the_server_was_away_is_told(by_hand: ByHand, tmp_path: Any) -> None:
    file = tmp_path / "lives"
    provider = by_hand(
        f"""
        open({str(file)!r}, "a").write("x")
        serve(lambda request: os._exit(0), tools=[{{"name": "tool" + str(os.path.getsize({str(file)!r}))}}])
        """
    )
    changes: list[int] = []
    provider.watch(lambda: changes.append(1))
    assert await names(provider) == ["tool1"]
    with pytest.raises(Exception, match="was lost"):
        await provider.call("tool1", {}, ToolContext())
    assert changes == []
    with pytest.raises(Exception, match='no tool "tool1"'):
        await provider.call("tool1", {}, ToolContext())
    assert changes == [1]
    assert await names(provider) == ["tool2"]
