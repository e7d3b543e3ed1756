"""Calls of the tools of external MCP servers: results of every kind, errors, progress, cancel."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp_connections import wait_for_text

from rrext.errors import ToolError, ToolNotFound
from rrext.providers.mcp.provider import McpProvider
from rrext.tools.context import ToolContext

ByHand = Callable[..., McpProvider]
RESULT = "serve(lambda request: answer(request, {result!r}), tools=[{tool!r}])"
ACT = {"name": "act", "inputSchema": {"type": "object"}}
IMAGE = {"type": "image", "data": b64encode(b"pixels").decode(), "mimeType": "image/png"}
SOUND = {"type": "audio", "data": b64encode(b"waves").decode(), "mimeType": "audio/wav"}
BLOB = {"type": "resource", "resource": {"uri": "file:///a", "blob": b64encode(b"blob").decode()}}
PAGE = {"type": "resource", "resource": {"uri": "file:///b", "text": "page"}}
LINK = {"type": "resource_link", "uri": "file:///c", "name": "c"}
TEXT = {"type": "text", "text": "words"}
RESULTS: list[tuple[dict[str, Any], Any]] = [
    ({"content": [TEXT]}, "words"),
    ({"content": [IMAGE]}, b"pixels"),
    ({"content": [SOUND]}, b"waves"),
    ({"content": [BLOB]}, b"blob"),
    ({"content": [PAGE]}, {"content": [PAGE]}),
    ({"content": [LINK]}, {"content": [LINK]}),
    ({"content": [TEXT, IMAGE, LINK]}, {"content": [TEXT, IMAGE, LINK]}),
    ({"content": []}, {"content": []}),
    ({"content": [{"type": "of tomorrow"}]}, {"content": [{"type": "of tomorrow"}]}),
    ({"content": [TEXT], "structuredContent": {"a": [1]}}, {"a": [1]}),
    ({"structuredContent": {"a": 1}}, {"a": 1}),
    ({"content": [IMAGE], "structuredContent": {"a": 1}}, {"content": [IMAGE], "structuredContent": {"a": 1}}),
]
FAILURES: list[tuple[dict[str, Any], str]] = [
    ({"content": [TEXT, {"type": "text", "text": "and more"}], "isError": True}, "words\nand more"),
    ({"content": [], "isError": True}, "did not say why"),
    ({"content": "words"}, "content is no list"),
    ({"content": [{**IMAGE, "data": "?"}]}, "no base64"),
    ({"resultType": "input_required", "inputRequests": {"a": {"method": "elicitation/create"}}}, "elicitation/create"),
    ({"resultType": "surprise"}, 'unknown type "surprise"'),
]
ANSWERS = "serve(lambda request: answer(request, {results!r}[request['params']['arguments']['position']]))"


async def test_tools_have_descriptions_and_schemas(over_http: McpProvider) -> None:
    tools = {tool.name: tool for tool in await over_http.tools()}
    assert tools["greet"].description == "Greet somebody."
    assert tools["greet"].input_schema["properties"]["name"]["description"] == "Whom"
    assert tools["add"].output_schema is not None


async def test_text_structured_content_and_bytes_are_results(sdk: McpProvider) -> None:
    assert await sdk.call("greet", {"name": "Ada"}, ToolContext()) == "Hello Ada"
    assert await sdk.call("add", {"a": 1, "b": 2}, ToolContext()) == {"sum": 3}
    assert await sdk.call("picture", {}, ToolContext()) == b"\x89PNG...."


async def test_no_part_of_a_result_is_lost(by_hand: ByHand) -> None:
    provider = by_hand(ANSWERS.format(results=[result for result, _ in RESULTS]))
    for position, (_, value) in enumerate(RESULTS):
        assert await provider.call("act", {"position": position}, ToolContext()) == value


async def test_a_failure_or_a_strange_result_is_a_tool_error(by_hand: ByHand) -> None:
    provider = by_hand(ANSWERS.format(results=[result for result, _ in FAILURES]))
    for position, (_, message) in enumerate(FAILURES):
        with pytest.raises(ToolError, match=message):
            await provider.call("act", {"position": position}, ToolContext())


async def test_a_result_without_the_promised_structure_is_a_tool_error(by_hand: ByHand) -> None:
    tool = {**ACT, "outputSchema": {"type": "object"}}
    provider = by_hand(RESULT.format(result={"content": [TEXT]}, tool=tool))
    with pytest.raises(ToolError, match="no structured content"):
        await provider.call("act", {}, ToolContext())


async def test_an_error_of_the_protocol_keeps_its_number_and_data(by_hand: ByHand) -> None:
    provider = by_hand("serve(lambda request: refuse(request, 'not today', -31))")
    with pytest.raises(ToolError, match="error -31: not today") as caught:
        await provider.call("act", {}, ToolContext())
    assert caught.value.data["mcpCode"] == -31


async def test_an_unknown_tool_is_refused_with_near_names(over_http: McpProvider) -> None:
    with pytest.raises(ToolNotFound) as caught:
        await over_http.call("gret", {}, ToolContext())
    assert caught.value.data["near"] == ["greet"]


async def test_progress_arrives_in_order_and_before_the_result(sdk: McpProvider) -> None:
    reports: list[tuple[Any, ...]] = []
    context = ToolContext(report=lambda *report: reports.append(report))
    assert await sdk.call("count", {"to": 3}, context) == "counted"
    assert reports == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_a_cancel_reaches_the_server_at_once(sdk: McpProvider, tmp_path: Path) -> None:
    file = tmp_path / "state"
    call = asyncio.create_task(sdk.call("hang", {"path": str(file)}, ToolContext()))
    await wait_for_text(file, "began")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await wait_for_text(file, "cancelled")
    assert await sdk.call("greet", {"name": "Bob"}, ToolContext()) == "Hello Bob"


async def test_many_calls_at_once_get_their_own_answers(over_http: McpProvider) -> None:
    sums = await asyncio.gather(*(over_http.call("add", {"a": i, "b": i}, ToolContext()) for i in range(50)))
    assert sums == [{"sum": 2 * i} for i in range(50)]


async def test_many_calls_at_once_over_stdio_may_be_answered_in_any_order(by_hand: ByHand) -> None:
    provider = by_hand(
        """
        waiting = []
        def handle(request):
            waiting.append(request)
            if len(waiting) == 50:
                for each in reversed(waiting):
                    answer(each, {"structuredContent": each["params"]["arguments"]})
        serve(handle)
        """
    )
    found = await asyncio.gather(*(provider.call("act", {"i": i}, ToolContext()) for i in range(50)))
    assert found == [{"i": i} for i in range(50)]


async def test_questions_of_the_server_are_refused_politely(by_hand: ByHand) -> None:
    provider = by_hand(
        """
        def handle(request):
            answers = []
            for method in ("elicitation/create", "sampling/createMessage", "roots/list", "ping"):
                params = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
                if method == "sampling/createMessage":
                    params = {"messages": [], "maxTokens": 1}
                say({"id": "q-" + method, "method": method, "params": params})
                reply = read()
                answers.append("refused" if "error" in reply else "answered")
            answer(request, {"content": [{"type": "text", "text": " ".join(answers)}]})
        serve(handle)
        """
    )
    assert await provider.call("act", {}, ToolContext()) == "refused refused refused answered"
