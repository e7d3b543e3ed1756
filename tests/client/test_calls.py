"""Calls of `rrext.Client` against a scripted server, in both dialects, on asyncio and trio."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest
from scripted_peer import EchoPipes, Peer, connected

import rrext
from rrext.client.client import Client
from rrext.errors import (
    InvalidArguments,
    NotConnected,
    PipeNotOpen,
    RrextError,
    ServerExited,
    ToolError,
    ToolNotFound,
    UsageError,
)
from rrext.testing.sessions import memory_pair
from rrext.wire.messages import Request

pytestmark = pytest.mark.anyio


async def test_a_tool_call_returns_the_result(dialect: Any) -> None:
    async with connected(EchoPipes(), dialect=dialect) as (client, _):
        assert await client.tool(tool="echo", input={"a": 1}) == {"echo": {"a": 1}, "pipe": None}


async def test_a_tool_call_says_what_the_reference_says(dialect: Any) -> None:
    async with connected(EchoPipes(), dialect=dialect) as (client, peer):
        await client.tool(
            tool="echo", node_id="n_1", input={"a": 1}, token="T", context={"userId": "u"}, meta={"traceparent": "x"}
        )
        await client.tool(tool="echo")
    full, bare = (request.arguments for request in peer.seen if request.command == "rrext_process")
    assert full == {
        "subcommand": "tool",
        "tool": "echo",
        "nodeId": "n_1",
        "input": {"a": 1},
        "token": "T",
        "context": {"userId": "u"},
        "_meta": {"traceparent": "x"},
    }
    assert bare == {"subcommand": "tool", "tool": "echo", "nodeId": "", "input": {}}


async def test_initialize_is_sent_first_and_its_answer_is_kept(dialect: Any) -> None:
    async with connected(EchoPipes(), dialect=dialect) as (client, peer):
        assert client.server["server"]["name"] == "scripted"
    hello = peer.seen[0]
    assert hello.command == "initialize"
    assert hello.arguments == {"clientName": "rrext.Client", "clientVersion": rrext.__version__, "rawTail": True}


class OldPeer(Peer):
    """A server without `initialize`."""

    async def handle(self, request: Request) -> None:
        if request.command == "initialize":
            await self.fail(request, rrext.UnknownCommand("Invalid command: initialize"))
        else:
            await super().handle(request)


async def test_a_server_that_does_not_know_initialize_is_served_too() -> None:
    async with connected(EchoPipes(), kind=OldPeer) as (client, _):
        assert client.server == {}
        assert (await client.tool(tool="echo"))["echo"] == {}


async def test_a_result_of_bytes_comes_back_as_bytes(dialect: Any) -> None:
    data = bytes(range(256)) * 300
    async with connected(dialect=dialect) as (client, peer), anyio.create_task_group() as tasks:
        results: list[Any] = []

        async def call() -> None:
            results.append(await client.tool(tool="blob"))

        tasks.start_soon(call)
        await peer.answer(await peer.take("tool"), {}, tail=data)
        with anyio.fail_after(5):
            while not results:
                await anyio.lowlevel.checkpoint()
        assert results == [data]


async def test_answers_may_come_in_any_order(dialect: Any) -> None:
    results: dict[int, Any] = {}
    async with connected(dialect=dialect) as (client, peer):

        async def call(number: int) -> None:
            results[number] = await client.tool(tool="t", input={"n": number})

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(call, number)
            requests = [await peer.take("tool") for _ in range(20)]
            for request in reversed(requests):
                await peer.answer(request, {"result": request.arguments["input"]["n"]})
    assert results == {number: number for number in range(20)}


@pytest.mark.promise("error:failure:stays-failure")
@pytest.mark.parametrize("code", sorted(rrext.errors.NUMBERS))
async def test_an_error_answer_raises_the_class_of_its_code(code: str, dialect: Any) -> None:
    sent = rrext.errors.error_from_wire(code, "it failed", "look here", {"near": ["x"]})

    def fail(_: Any) -> None:
        raise sent

    async with connected(fail, dialect=dialect) as (client, _):
        with pytest.raises(RrextError) as caught:
            await client.tool(tool="t")
    error = caught.value
    assert type(error) is type(sent)
    assert (error.code, error.message, error.hint, error.data) == (code, "it failed", "look here", {"near": ["x"]})


async def test_a_tools_own_code_arrives(dialect: Any) -> None:
    def fail(_: Any) -> None:
        raise ToolError("sold out", code="sold_out")

    async with connected(fail, dialect=dialect) as (client, _):
        with pytest.raises(ToolError, match="sold out") as caught:
            await client.tool(tool="t")
    assert caught.value.code == "sold_out"


async def test_the_body_of_the_block_is_not_wrapped_in_a_group() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with connected(EchoPipes()):
            raise KeyError("mine")


async def test_a_failure_that_ends_the_block_is_not_wrapped_in_a_group() -> None:
    def fail(_: Any) -> None:
        raise ToolNotFound("no such tool")

    with pytest.raises(ToolNotFound):
        async with connected(fail) as (client, _):
            await client.tool(tool="t")


async def test_calls_before_the_block_and_after_it_say_so() -> None:
    ours, _ = memory_pair()
    client = Client.over(ours)
    with pytest.raises(NotConnected, match="async with"):
        await client.tool(tool="t")
    with pytest.raises(NotConnected):
        client.events()
    async with connected(EchoPipes()) as (client, _):
        pass
    with pytest.raises(NotConnected, match="closed"):
        await client.tool(tool="t")
    with pytest.raises(NotConnected, match="closed"):
        await client.pipe().open()


async def test_calls_after_close_inside_the_block_say_so() -> None:
    async with connected(EchoPipes()) as (client, _):
        await client.close()
        with pytest.raises(NotConnected, match="closed"):
            await client.tool(tool="t")


async def test_a_client_is_used_once() -> None:
    async with connected(EchoPipes()) as (client, _):
        with pytest.raises(UsageError, match="once"):
            await client.__aenter__()


async def test_a_connection_that_the_server_closes_fails_all_calls_now_and_later() -> None:
    errors: list[RrextError] = []
    async with connected() as (client, peer):

        async def call() -> None:
            with pytest.raises(ServerExited) as caught:
                await client.tool(tool="t")
            errors.append(caught.value)

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(call)
            for _ in range(3):
                await peer.take("tool")
            await peer.stream.aclose()
        await call()
    assert len(errors) == 4
    assert len({id(error) for error in errors}) == 4  # tracebacks of different tasks do not mix
    assert all(error.data == {"exit_code": None, "stderr": ""} for error in errors)


async def test_bytes_that_are_no_frame_end_the_connection_with_their_text() -> None:
    async with connected() as (client, peer), anyio.create_task_group() as tasks:

        async def call() -> None:
            with pytest.raises(ServerExited, match="cannot be read"):
                await client.tool(tool="t")

        tasks.start_soon(call)
        await peer.take("tool")
        await peer.stream.send(b'{"hello": "I print to stdout"}\n' * 400)


async def test_input_that_json_cannot_hold_is_refused_before_it_is_sent() -> None:
    async with connected(EchoPipes()) as (client, peer):
        for value in (float("nan"), float("inf"), {1: 2}, object()):
            with pytest.raises(UsageError):
                await client.tool(tool="t", input={"value": value})
        assert await client.tool(tool="t", input={"value": 1.5})
    assert peer.commands().count("tool") == 1


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "30"])
async def test_a_timeout_that_is_none_is_refused(timeout: Any) -> None:
    async with connected(EchoPipes()) as (client, peer):
        with pytest.raises(InvalidArguments, match="timeout"):
            await client.tool(tool="t", timeout=timeout)
        with pytest.raises(InvalidArguments, match="timeout"):
            await client.tool(tool="t", timeout=timeout, reset_on_progress=True)
    assert "tool" not in peer.commands()


async def test_a_timeout_is_told_to_the_server_in_seconds(dialect: Any) -> None:
    async with connected(EchoPipes(), dialect=dialect) as (client, peer):
        await client.tool(tool="t", timeout=2.5)
        await client.tool(tool="t", timeout=2, reset_on_progress=True, max_total=60)
        await client.tool(tool="t", timeout=2, reset_on_progress=True)
    sent = [request.arguments for request in peer.seen if request.command == "rrext_process"]
    assert [arguments.get("timeout") for arguments in sent] == [2.5, 60, None]
    assert [arguments.get("progress") for arguments in sent] == [None, True, True]


async def test_options_without_meaning_are_refused() -> None:
    async with connected(EchoPipes()) as (client, _):
        with pytest.raises(UsageError, match="max_total"):
            await client.tool(tool="t", timeout=1, max_total=5)
        with pytest.raises(UsageError, match="timeout"):
            await client.tool(tool="t", reset_on_progress=True)


async def test_an_answer_to_nobody_is_dropped_with_a_debug_line(caplog: pytest.LogCaptureFixture, dialect: Any) -> None:
    caplog.set_level(logging.DEBUG, "rrext.client")
    async with connected(dialect=dialect) as (client, peer), anyio.create_task_group() as tasks:

        async def call(expected: int) -> None:
            assert await client.tool(tool="t") == expected

        tasks.start_soon(call, 1)
        first = await peer.take("tool")
        await peer.answer(first, {"result": 1})
        await peer.answer(first, {"result": "again"})
        await peer.fail(first, ToolError("and again"))
        tasks.start_soon(call, 2)
        await peer.answer(await peer.take("tool"), {"result": 2})
    assert sum("nobody waits" in record.message and record.levelno == logging.DEBUG for record in caplog.records) == 2


async def test_requests_over_the_servers_limit_queue_here(dialect: Any) -> None:
    hello = {"limits": {"maxInflight": 8}}
    async with connected(dialect=dialect, hello=hello) as (client, peer), anyio.create_task_group() as tasks:
        done: list[int] = []

        async def call(number: int) -> None:
            done.append(await client.tool(tool="t", input={"n": number}))

        async def answer(request: Request) -> None:
            await peer.answer(request, {"result": request.arguments["input"]["n"]})

        for number in range(20):
            tasks.start_soon(call, number)
        waiting = [await peer.take("tool") for _ in range(7)]
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        assert peer.requests.statistics().current_buffer_used == 0
        assert peer.commands() == ["tool"] * 7
        for _ in range(13):
            await answer(waiting.pop(0))
            waiting.append(await peer.take("tool"))
        for request in waiting:
            await answer(request)
    assert sorted(done) == list(range(20))


async def test_a_call_on_an_open_pipe_does_not_wait_for_those_that_want_one() -> None:
    hello = {"limits": {"maxInflight": 8}}
    async with connected(hello=hello) as (client, peer), anyio.create_task_group() as tasks:
        pipe = client.pipe()

        async def opening() -> None:
            await pipe.open()

        tasks.start_soon(opening)
        await peer.answer(await peer.take("open"), {"pipe_id": 1})
        for _ in range(20):
            tasks.start_soon(client.pipe().open)
        for _ in range(7):
            await peer.take("open")
        assert pipe.pipe_id == 1

        async def call() -> None:
            assert await pipe.tool(tool="t") == 5
            tasks.cancel_scope.cancel()

        tasks.start_soon(call)
        await peer.answer(await peer.take("tool"), {"result": 5})
        await anyio.sleep_forever()


async def test_the_small_commands_ask_and_answer_as_the_contract_says(dialect: Any) -> None:
    bodies: dict[str, Any] = {
        "tools": {"tools": [{"nodeId": "n", "name": "t"}]},
        "rrext_get_tasks": {"tasks": [{"token": "T"}]},
        "rrext_get_task_status": {"state": 3},
        "rrext_services": {"services": {}},
        "rrext_validate": {"pipeline": {}, "errors": [], "warnings": []},
        "execute": {"token": "T"},
        "terminate": {},
        "rrext_ping": {"pong": True},
        "shutdown": {},
        "cancel": {},
    }
    async with connected(lambda request: bodies[request.command], dialect=dialect) as (client, peer):
        assert await client.tools(token="T", node_id="n") == [{"nodeId": "n", "name": "t"}]
        assert await client.tasks() == [{"token": "T"}]
        assert await client.status("T") == {"state": 3}
        assert await client.services() == {"services": {}}
        assert (await client.validate(pipeline={"components": []}))["errors"] == []
        assert await client.ping() == {"pong": True}
        assert await client.use(pipeline={"components": []}, threads=2, use_existing=True) == {"token": "T"}
        await client.terminate("T")
        await client.cancel(7)
        await client.shutdown()
    sent = {request.command: request.arguments for request in peer.seen}
    assert sent["tools"] == {"token": "T", "nodeId": "n"}
    assert sent["execute"] == {"pipeline": {"components": []}, "args": [], "threads": 2, "useExisting": True}
    assert sent["rrext_ping"] == {}
    assert sent["cancel"] == {"requestId": 7}


async def test_a_pipe_that_is_not_open_is_refused_here() -> None:
    async with connected(EchoPipes()) as (client, _):
        pipe = client.pipe()
        with pytest.raises(PipeNotOpen, match="Pipe is not open"):
            await pipe.tool(tool="t")
        with pytest.raises(PipeNotOpen):
            await pipe.write(b"x")
        assert await pipe.close() == {}
