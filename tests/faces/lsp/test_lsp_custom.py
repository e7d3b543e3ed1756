"""The commands of protocol.md as methods of the editor's connection."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from faces.lsp.desks import Desk, desk, pipeline

from rrext.server.commands import COMMANDS


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(tmp_path) as found:
        await found.editor.request("execute", {"pipeline": pipeline(), "token": "own", "folder": str(tmp_path)})
        yield found


def tool(name: str, input: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"subcommand": "tool", "tool": name, "input": input or {}, **more}


async def test_the_methods_are_the_commands_of_the_table_but_for_those_about_a_connection(bench: Desk) -> None:
    methods = set(bench.editor.server.protocol.raw)
    assert set(COMMANDS) - methods == {"initialize", "shutdown", "disconnect"}
    assert (await bench.editor.failure("disconnect"))["code"] == -32601
    assert await bench.editor.request("rrext_ping") == {"pong": True}


async def test_answers_are_those_of_the_engine(bench: Desk) -> None:
    assert await bench.editor.request("rrext_ping") == {"pong": True}
    assert await bench.editor.request("rrext_process", tool("add", {"a": 2})) == {"result": {"sum": 3}}
    assert {one["name"] for one in (await bench.editor.request("tools", {"nodeId": "bench"}))["tools"]} >= {"add"}
    assert "bench" in (await bench.editor.request("rrext_services"))["services"]
    checked = await bench.editor.request("rrext_validate", {"pipeline": {"components": []}})
    assert [problem["code"] for problem in checked["problems"]] == ["no_source"]
    assert (await bench.editor.request("rrext_get_task_status", {"token": "own"}))["state"] == 3
    assert await bench.editor.request("terminate", {"token": "own"}) == {}


async def test_errors_are_those_of_the_engine(bench: Desk) -> None:
    error = await bench.editor.failure("rrext_process", tool("ad"))
    assert (error["code"], error["data"]["code"], error["data"]["near"]) == (-32010, "tool_not_found", ["add"])
    assert error["message"] == 'No handler found for tool "ad". Did you mean "add"?'
    error = await bench.editor.failure("rrext_process", tool("refuse"))
    assert (error["code"], error["message"], error["data"]["code"]) == (-32016, "nothing is left", "sold_out")
    assert error["data"]["hint"] == "come back tomorrow"
    error = await bench.editor.failure("rrext_process", {"subcommand": "tol"})
    assert (error["code"], error["data"]["code"]) == (-32601, "unknown_command")
    error = await bench.editor.failure("rrext_process", tool("add", {"a": 1}, node_id="x"))
    assert error["data"]["errors"] == [{"path": "/node_id", "message": 'unknown argument; did you mean "nodeId"?'}]
    for strange in ([1], "text", 7):
        assert (await bench.editor.failure("rrext_ping", strange))["code"] == -32600
    error = await bench.editor.failure("rrext_process", tool("add", {"\ud800": 1}))
    assert (error["code"], error["data"]["code"]) == (-32602, "invalid_arguments")


async def test_events_are_notifications_that_name_the_editors_own_request(bench: Desk) -> None:
    request = bench.editor.post("rrext_process", tool("steps", progress=True))
    await bench.editor.answer(request)
    reports = bench.messages("rrext_progress")
    assert reports[-1] == {"request": request, "progress": 4, "total": 4, "message": "step 4"}
    counting = bench.editor.post("rrext_process", tool("count", {"to": 3, "returns": True}, stream=True))
    assert (await bench.editor.answer(counting))["result"] == {"result": "counted"}
    assert bench.messages("rrext_chunk") == [{"request": counting, "index": n, "chunk": n} for n in range(3)]
    kinds = [message.get("method") or message.get("id") for message in bench.editor.messages]
    assert kinds.index("rrext_chunk") < kinds.index(counting)


async def test_bytes_are_base64(bench: Desk) -> None:
    body = await bench.editor.request("rrext_process", tool("picture"))
    assert b64decode(body["result"], validate=True).startswith(b"\x89PNG")
    assert set(body) == {"result"}


async def test_an_object_goes_through_a_pipe(bench: Desk) -> None:
    opened = await bench.editor.request("rrext_process", {"subcommand": "open", "mimeType": "text/plain"})
    await bench.editor.request("rrext_process", {"subcommand": "write", **opened, "data": "hello"})
    closed = await bench.editor.request("rrext_process", {"subcommand": "close", **opened})
    assert closed["text"] == ["HELLO\n\n"]


async def test_cancel_reaches_the_tool_both_ways(bench: Desk) -> None:
    for cancel in ("notification", "method"):
        request = bench.editor.post("rrext_process", tool("wait", progress=True))
        await bench.told("rrext_progress", f'"request": {request}')
        if cancel == "method":
            assert await bench.editor.request("cancel", {"requestId": request}) == {"cancelled": True}
        else:
            bench.editor.notify("$/cancelRequest", {"id": request})
        error = (await bench.editor.answer(request))["error"]
        assert (error["code"], error["data"]["code"]) == (-32800, "cancelled")
    while bench.journal().count("unwound") < 2:
        await bench.editor.request("rrext_ping")
    assert await bench.editor.request("cancel", {"requestId": 12345}) == {"cancelled": False}
    assert (await bench.editor.failure("cancel", {}))["data"]["errors"][0]["path"] == "/requestId"


async def test_hundreds_at_a_time_are_answered_each_with_its_own(bench: Desk) -> None:
    ids = [bench.editor.post("rrext_process", tool("add", {"a": number})) for number in range(500)]
    for number, request in enumerate(ids):
        assert (await bench.editor.answer(request))["result"] == {"result": {"sum": number + 1}}


async def test_a_stuck_tool_holds_up_nobody(bench: Desk) -> None:
    stuck = bench.editor.post("rrext_process", tool("block", progress=True))
    await bench.editor.until(lambda message: message.get("method") == "rrext_progress")
    assert await bench.editor.request("rrext_process", tool("add", {"a": 1})) == {"result": {"sum": 2}}
    bench.editor.notify("$/cancelRequest", {"id": stuck})
    assert (await bench.editor.answer(stuck))["error"]["code"] == -32800


async def test_a_crash_fails_what_runs_and_the_next_request_finds_a_new_engine(bench: Desk) -> None:
    parked = bench.editor.post("rrext_process", tool("wait"))
    error = await bench.editor.failure("rrext_process", tool("crash"))
    assert (error["data"]["code"], error["data"]["exit_code"]) == ("engine_ended", 7)
    assert "the roof falls down" in error["message"]
    assert (await bench.editor.answer(parked))["error"]["data"]["code"] == "engine_ended"
    assert await bench.editor.request("rrext_get_tasks") == {"tasks": []}


async def test_large_answers_come_whole(bench: Desk) -> None:
    body = await bench.editor.request("rrext_process", tool("large", {"mebibytes": 8}))
    assert len(body["result"]) == 8 * 1024 * 1024


async def test_chunks_wait_for_an_editor_that_reads_slowly(bench: Desk) -> None:
    room = asyncio.Event()
    bench.editor.server.documents.taken = room.wait
    request = bench.editor.post("rrext_process", tool("count", {"to": 50}, stream=True))
    assert await bench.editor.request("rrext_ping") == {"pong": True}
    assert not bench.messages("rrext_chunk")
    room.set()
    await bench.editor.answer(request)
    assert [event["chunk"] for event in bench.messages("rrext_chunk")] == list(range(50))


async def test_the_token_of_an_open_document_is_taken(bench: Desk) -> None:
    token = (await bench.ask("rrext.listTools"))["result"]["token"]
    ambiguous = await bench.editor.failure("rrext_process", tool("add", {"a": 1}))
    assert ambiguous["data"]["code"] == "TASK_AMBIGUOUS"
    assert ambiguous["data"]["tokens"] == sorted(["own", token])
    assert await bench.editor.request("rrext_process", tool("add", {"a": 1}, token=token)) == {"result": {"sum": 2}}
    await bench.editor.request("terminate", {"token": token})
    lost = await bench.run("add", {"a": 1})
    assert lost["error"]["code"] == "TASK_NOT_REGISTERED"
    assert (await bench.run("add", {"a": 1}))["ok"]


async def test_params_are_not_touched(bench: Desk) -> None:
    strange = {"jsonrpc": "1", "class": {"a-b": [None, 1.5, {"id": 3}]}, "method": "x"}
    error = await bench.editor.failure("rrext_process", tool("add", strange))
    paths = {problem["path"] for problem in error["data"]["errors"]}
    assert {f"/input/{name}" for name in strange} <= paths
    assert json.dumps(error)
