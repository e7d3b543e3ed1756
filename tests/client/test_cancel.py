"""A call that is cancelled or late is cancelled in the server, and harms no other call."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import anyio
import pytest
from scripted_peer import EchoPipes, Peer, connected, settle, until

from rrext.client.client import Client
from rrext.errors import Cancelled
from rrext.wire.messages import Request

pytestmark = pytest.mark.anyio


@pytest.mark.promise("cancel:reaches:both-kinds")
async def test_a_cancelled_call_sends_cancel_with_its_id(dialect: Any) -> None:
    async with connected(dialect=dialect) as (client, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_for_ever, client)
            request = await peer.take("tool")
            tasks.cancel_scope.cancel()
        cancel = await peer.take("cancel")
        assert cancel.arguments == {"requestId": request.id}


async def call_for_ever(client: Client) -> None:
    await client.tool(tool="slow")
    raise AssertionError("it has no answer")


async def test_a_task_that_is_cancelled_the_native_way_sends_cancel_too(anyio_backend: str) -> None:
    if anyio_backend != "asyncio":
        return  # trio knows scopes only, and those are tested above
    async with connected() as (client, peer):
        task = asyncio.ensure_future(client.tool(tool="slow"))
        request = await peer.take("tool")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await peer.take("cancel")).arguments == {"requestId": request.id}


@pytest.mark.promise("cancel:reaches:both-kinds")
async def test_a_call_under_the_callers_own_deadline_sends_cancel(dialect: Any) -> None:
    async with connected(dialect=dialect) as (client, peer):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:

                async def time_passes() -> None:
                    await peer.take("tool")
                    scope.deadline = -1

                tasks.start_soon(time_passes)
                await client.tool(tool="slow")
        assert scope.cancelled_caught
        await peer.take("cancel")


async def test_a_late_answer_to_a_cancelled_call_is_dropped_quietly(dialect: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "rrext.client")
    async with connected(dialect=dialect) as (client, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_for_ever, client)
            request = await peer.take("tool")
            tasks.cancel_scope.cancel()
        cancel = await peer.take("cancel")
        await peer.fail(request, Cancelled())
        await peer.fail(request, Cancelled())  # and once more, which a server should not do
        await peer.answer(cancel, {})
        peer.handler = EchoPipes()
        assert await client.tool(tool="echo")
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []


async def test_a_call_cancelled_while_it_queues_here_is_never_sent() -> None:
    async with connected(hello={"limits": {"maxInflight": 1}}) as (client, peer):
        async with anyio.create_task_group() as tasks:

            async def first() -> None:
                assert await client.tool(tool="first") == 1

            tasks.start_soon(first)
            request = await peer.take("tool")
            with anyio.CancelScope() as scope:
                scope.cancel()
                await client.tool(tool="second")
            await peer.answer(request, {"result": 1})
        peer.handler = EchoPipes()
        await client.tool(tool="third")
    assert [r.arguments["tool"] for r in peer.seen if r.command == "rrext_process"] == ["first", "third"]
    assert "cancel" not in peer.commands()


async def test_a_request_that_is_not_written_yet_is_taken_back() -> None:
    """The server does not read: what waits behind a full stream is withdrawn, and needs no cancel."""
    async with connected(capacity=64) as (client, peer):
        peer.stall()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_named, client, "a" * 1000)
            await settle()  # its first bytes are on their way
            async with anyio.create_task_group() as more:
                more.start_soon(call_named, client, "b")
                more.start_soon(call_named, client, "c")
                await settle()
                more.cancel_scope.cancel()
            tasks.cancel_scope.cancel()
        peer.go_on()
        await peer.take("tool")
        await peer.take("cancel")
        peer.handler = EchoPipes()
        await client.ping()
    assert [r.arguments["tool"][0] for r in peer.seen if r.command == "rrext_process"] == ["a"]
    assert peer.commands().count("cancel") == 1


async def call_named(client: Client, name: str) -> None:
    await client.tool(tool=name)


async def test_a_request_that_is_taken_back_gives_its_place_back() -> None:
    async with connected(EchoPipes(), capacity=64, hello={"limits": {"maxInflight": 1}}) as (client, peer):
        peer.stall()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.request, "rrext_ping", {"filler": "x" * 1000})
            await settle()
            async with anyio.create_task_group() as more:
                more.start_soon(call_named, client, "b")
                await settle()
                more.cancel_scope.cancel()
            peer.go_on()
        await client.tool(tool="c")
    assert [r.arguments["tool"] for r in peer.seen if r.command == "rrext_process"] == ["c"]


async def test_cancel_goes_before_requests_that_wait() -> None:
    async with connected(capacity=64) as (client, peer), anyio.create_task_group() as tasks:
        async with anyio.create_task_group() as first:
            first.start_soon(call_for_ever, client)
            request = await peer.take("tool")
            peer.stall()
            for _ in range(5):
                tasks.start_soon(call_named, client, "x" * 1000)
            await settle()
            first.cancel_scope.cancel()
        peer.go_on()
        names = [(await peer.take()).arguments for _ in range(6)]
        places = [index for index, arguments in enumerate(names) if arguments.get("requestId") == request.id]
        assert places[0] <= 2  # the stream and one read had taken one or two in already
        tasks.cancel_scope.cancel()


async def test_a_close_that_is_cancelled_before_it_is_written_still_closes() -> None:
    pipes = EchoPipes()
    async with connected(pipes, capacity=64) as (client, peer), anyio.create_task_group() as tasks:
        pipe = client.pipe()
        await pipe.open()
        peer.stall()
        tasks.start_soon(call_named, client, "x" * 1000)  # fills the way
        async with anyio.create_task_group() as closing:
            closing.start_soon(pipe.close)
            await settle()
            closing.cancel_scope.cancel()
        peer.go_on()
        await until(lambda: not pipes.open)
        assert await pipe.close() == {}
    assert peer.commands().count("close") == 1


async def test_a_call_that_is_answered_already_needs_no_cancel() -> None:
    async with connected() as (client, peer):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                reached = anyio.Event()

                async def slow(*_: Any) -> None:
                    reached.set()
                    await anyio.sleep_forever()

                async def answer() -> None:
                    request = await peer.take("tool")
                    await peer.progress(request, 1)
                    await reached.wait()
                    await peer.answer(request, {"result": 1})
                    await until(lambda: "<Endpoint 0 calls" in repr(client))
                    scope.cancel()

                tasks.start_soon(answer)
                await client.tool(tool="t", progress=slow)
        peer.handler = EchoPipes()
        await client.ping()
    assert "cancel" not in peer.commands()


@pytest.mark.promise("cancel:next-call-unharmed")
async def test_two_hundred_cancelled_calls_harm_no_next_one(dialect: Any) -> None:
    """Each is cancelled one turn of the event loop later than the one before."""

    async def answer_slowly(peer: Peer, tasks: Any) -> None:
        async for request in peer.requests:
            tasks.start_soon(answer_later, peer, request)

    async def answer_later(peer: Peer, request: Request) -> None:
        if request.command == "cancel":
            await peer.answer(request, {})
            return
        await settle(request.arguments["input"].get("turns", 0))
        await peer.answer(request, {"result": request.arguments["input"]["n"]})

    async with connected(dialect=dialect) as (client, peer), anyio.create_task_group() as tasks:
        tasks.start_soon(answer_slowly, peer, tasks)
        for n in range(200):
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as pair:
                    pair.start_soon(cancel_after, scope, n % 40)
                    await client.tool(tool="t", input={"n": n, "turns": n % 7})
                    pair.cancel_scope.cancel()
            assert await client.tool(tool="t", input={"n": -n}) == -n
        await until(lambda: "<Endpoint 0 calls" in repr(client))
        tasks.cancel_scope.cancel()


async def cancel_after(scope: anyio.CancelScope, turns: int) -> None:
    await settle(turns)
    scope.cancel()


@pytest.mark.promise("cancel:next-call-unharmed")
@pytest.mark.parametrize("turns", range(30))
async def test_a_pipe_whose_opening_is_cancelled_at_any_moment_is_not_left_open(turns: int) -> None:
    pipes = EchoPipes()
    async with connected(pipes) as (client, _):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel_after, scope, turns)
                async with client.pipe() as pipe:
                    await pipe.write(b"x")
                tasks.cancel_scope.cancel()
        await until(lambda: "<Endpoint 0 calls" in repr(client))
        assert pipes.open == {}
        assert await client.send("next") == {"result_types": {"text": "text"}, "text": ["next"]}
