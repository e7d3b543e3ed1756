"""Lines of servers that are too long, broken or none at all: nothing stalls, nothing grows, and other calls go on."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import ResultTooLarge, ToolError
from rrext.limits import KIB, Limits
from rrext.providers.mcp.provider import McpProvider
from rrext.providers.mcp.transport import LINE_ENDS, LineReader, LongLine, answered_id
from rrext.tools.context import ToolContext

ByHand = Callable[..., McpProvider]
SMALL = Limits(max_result=64 * KIB)
LIMIT = 300
LINES = st.lists(st.binary(max_size=2 * LIMIT).map(lambda line: line.replace(b"\n", b" ")), max_size=6)


@given(lines=LINES, cuts=st.lists(st.integers(0, 3000), max_size=8))
def test_lines_do_not_depend_on_how_they_arrive(lines: list[bytes], cuts: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    reader = LineReader(LIMIT)
    found = [line for start, end in pairwise(places) for line in reader.feed(data[start:end])]
    assert [line if isinstance(line, bytes) else line.size for line in found] == [
        line if len(line) <= LIMIT else len(line) for line in lines
    ]
    for line, sent in zip(found, lines, strict=True):
        if isinstance(line, LongLine):
            assert sent.startswith(line.head)
            assert sent.endswith(line.tail)
            assert min(len(line.head), len(line.tail)) == LINE_ENDS


JSON = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5
)


@given(
    request_id=st.integers(0, 10**17) | st.text("abc-", min_size=1, max_size=64),
    result=st.dictionaries(st.sampled_from(["id", "result", "x"]) | st.text(), JSON),
    order=st.permutations(["jsonrpc", "id", "result"]),
    spaced=st.booleans(),
)
def test_the_id_that_is_found_at_the_ends_of_an_answer_is_its_own(
    request_id: int | str, result: Any, order: list[str], spaced: bool
) -> None:
    members = {"jsonrpc": "2.0", "id": request_id, "result": result}
    line = json.dumps({key: members[key] for key in order}, separators=None if spaced else (",", ":")).encode()
    found = answered_id(line[:LINE_ENDS], line[-LINE_ENDS:])
    assert found in (request_id, None)
    if order[:2] in (["jsonrpc", "id"], ["id", "result"]) or order[2] == "id" or order[1:] == ["id", "jsonrpc"]:
        assert found == request_id


@given(message=st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params"]), JSON))
def test_no_id_is_found_in_what_is_no_answer(message: dict[str, Any]) -> None:
    line = msgspec.json.encode({"method": "x", **message})
    assert answered_id(line, line) is None


@contextmanager
def turning() -> Iterator[list[None]]:
    """Counts the turns of the loop that another task gets."""
    turns: list[None] = []

    async def count() -> None:
        while True:
            turns.append(None)
            await asyncio.sleep(0)

    counter = asyncio.create_task(count())
    yield turns
    counter.cancel()


HUGE = """
def handle(request):
    if request["params"]["arguments"].get("small"):
        answer(request, {"content": [{"type": "text", "text": "small"}]})
        return
    out = sys.stdout.buffer
    out.write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % request["id"])
    for _ in range(300):
        out.write(b"x" * 1024 * 1024)
    out.write(b'"}]}}\\n')
    out.flush()
serve(handle)
"""


@pytest.mark.promise("mcp-server:hostile:alone")
async def test_an_answer_of_300_mb_fails_its_call_alone_and_needs_no_memory(by_hand: ByHand) -> None:
    provider = by_hand(HUGE)
    assert await provider.call("act", {"small": True}, ToolContext()) == "small"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with turning() as turns:
        with pytest.raises(ResultTooLarge, match="more than the 33,554,432 bytes") as caught:
            await provider.call("act", {}, ToolContext())
        assert len(turns) > 300, "the loop was held up"
    assert caught.value.data["limit"] == "max_result"
    assert await provider.call("act", {"small": True}, ToolContext()) == "small"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 200, f"grew by {grown} MiB"


async def test_a_long_line_whose_call_is_unknown_ends_the_connection_and_says_why(by_hand: ByHand) -> None:
    provider = by_hand("serve(lambda request: write(b'x' * 1000000))", limits=SMALL)
    with pytest.raises(ToolError, match="it sent a line of 1,000,000 bytes"):
        await provider.call("act", {}, ToolContext())
    assert [tool.name for tool in await provider.tools()] == ["act"]


@pytest.mark.promise("mcp-server:hostile:alone")
async def test_lines_that_are_no_messages_harm_nothing(by_hand: ByHand) -> None:
    provider = by_hand(
        """
        print("Welcome!\\n\\n{not json}\\n[1, 2]\\nnull\\n" + "[" * 100_000, flush=True)
        write(b"\\xff\\xfe")
        say({"id": 999, "result": {}})
        say({"method": "notifications/unknown"})
        say({"method": "notifications/progress", "params": {"progressToken": 7, "progress": "much"}})
        serve(lambda request: answer(request, {"content": [{"type": "text", "text": "fine"}]}))
        """
    )
    assert await provider.call("act", {}, ToolContext()) == "fine"


async def test_an_answer_that_is_no_json_fails_its_call(by_hand: ByHand) -> None:
    line = '{"jsonrpc":"2.0","id":%d,"result":{"a":NaN,}}'
    provider = by_hand(f"serve(lambda request: write(({line!r} % request['id']).encode()))")
    with pytest.raises(ToolError, match="no valid JSON-RPC"):
        await provider.call("act", {}, ToolContext())


@pytest.mark.promise("mcp-server:hostile:alone")
async def test_a_server_that_reads_nothing_holds_up_no_cancelled_call(by_hand: ByHand) -> None:
    provider = by_hand("serve(lambda request: time.sleep(1000))")
    text = "x" * 5_000_000
    calls = [asyncio.create_task(provider.call("act", {"text": text}, ToolContext())) for _ in range(10)]
    done, pending = await asyncio.wait(calls, return_when=asyncio.FIRST_EXCEPTION)
    assert {type(call.exception()).__name__ for call in done} == {"Unavailable"}
    for call in pending:
        call.cancel()
    async with asyncio.timeout(3.0):
        await asyncio.wait(pending)


async def test_a_flood_of_notifications_lets_other_tasks_run(by_hand: ByHand) -> None:
    provider = by_hand(
        """
        def handle(request):
            for i in range(20000):
                say({"method": "notifications/message", "params": {"level": "info", "data": i}})
            answer(request, {"content": [{"type": "text", "text": "done"}]})
        serve(handle)
        """
    )
    with turning() as turns:
        assert await provider.call("act", {}, ToolContext()) == "done"
    assert len(turns) > 1000
