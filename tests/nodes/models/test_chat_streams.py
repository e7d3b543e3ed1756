"""Answers of `llm_openai_api` that come in pieces, and calls that end before their answer."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from rrext.errors import ToolError, ToolTimeout
from rrext.nodes.llm.openai import OpenAIApiNode
from rrext.testing import ManualClock, open_node

from chat_world import settings  # isort: skip
from model_server import Body, HalfStream, Hang, ModelServer, Reset, Say, Status  # isort: skip


async def streamed(server: ModelServer, expectJson: bool = False, **more: Any) -> tuple[list[Any], ToolError | None]:
    pieces: list[Any] = []
    async with open_node(OpenAIApiNode, settings(server, **more)) as client:
        given = {"question": "Hello", "expectJson": expectJson}
        try:
            await client.tool(tool="ask_stream", input=given, on_chunk=pieces.append)
        except ToolError as error:
            return pieces, error
    return pieces, None


async def test_a_stream_brings_the_answer_in_its_pieces(server: ModelServer) -> None:
    server.next(Say(pieces=["Hel", "", "lo ", "wörld"]))
    assert await streamed(server) == (["Hel", "lo ", "wörld"], None)
    assert server.asked[0].body["stream"] is True


async def test_before_its_first_piece_a_stream_is_tried_again(server: ModelServer) -> None:
    server.next(Status(500), Reset(), Say(pieces=["ok"]))
    assert await streamed(server) == (["ok"], None)


@pytest.mark.parametrize("clean", [False, True])
async def test_after_its_first_piece_a_stream_that_breaks_is_a_failure_and_not_begun_again(
    server: ModelServer, clean: bool
) -> None:
    server.next(HalfStream(["one ", "two"], clean))
    pieces, error = await streamed(server)
    assert pieces == ["one ", "two"]
    assert error is not None
    assert error.code == "model_unreachable"
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (Say(pieces=["a"], finish="length"), "answer_cut"),
        (Say(pieces=["a"], finish="content_filter"), "answer_filtered"),
        (Say(pieces=["a"], refusal="No."), "answer_refused"),
    ],
)
async def test_a_stream_that_is_not_all_of_the_answer_fails_at_its_end(server: ModelServer, said: Say, code: str) -> None:
    server.next(said)
    pieces, error = await streamed(server)
    assert pieces == ["a"]
    assert error is not None
    assert error.code == code


async def test_a_stream_of_json_is_checked_at_its_end(server: ModelServer) -> None:
    server.next(Say(pieces=['{"a"', ": 1}"]), Say(pieces=["{"]))
    assert await streamed(server, expectJson=True) == (['{"a"', ": 1}"], None)
    pieces, error = await streamed(server, expectJson=True)
    assert pieces == ["{"]
    assert error is not None
    assert error.code == "answer_not_json"


async def test_a_failure_within_a_stream_is_told_in_the_servers_words(server: ModelServer) -> None:
    server.next(Body(b'data: {"error": {"message": "overloaded"}}\n\n', "text/event-stream"))
    pieces, error = await streamed(server)
    assert (pieces, error and error.code) == ([], "model_failed")
    assert "overloaded" in str(error)


async def test_a_silence_within_a_stream_is_given_up(server: ModelServer) -> None:
    server.next(Hang(["one"]))
    pieces, error = await streamed(server, timeout=1.0)
    assert (pieces, error and error.code) == (["one"], "model_timeout")
    assert await anyio.to_thread.run_sync(lambda: server.lost.acquire(timeout=20))


# cancelled calls


@pytest.mark.parametrize("tool", ["ask", "ask_stream"])
async def test_a_cancelled_call_closes_its_request_at_once(server: ModelServer, tool: str) -> None:
    server.next(Hang(["one"] if tool == "ask_stream" else []))
    async with open_node(OpenAIApiNode, settings(server)) as client, anyio.create_task_group() as group:

        async def call() -> None:
            await client.tool(tool=tool, input={"question": "?"})

        group.start_soon(call)
        assert await anyio.to_thread.run_sync(lambda: server.hanging.acquire(timeout=20))
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            assert await anyio.to_thread.run_sync(lambda: server.lost.acquire(timeout=20)), "the request was not closed"


async def test_the_callers_deadline_wins_and_closes_the_request(server: ModelServer) -> None:
    server.next(Hang())
    clock = ManualClock()
    async with open_node(OpenAIApiNode, settings(server), clock=clock) as client, anyio.create_task_group() as group:

        async def call() -> None:
            with pytest.raises(ToolTimeout):
                await client.tool(tool="ask", input={"question": "?"}, timeout=50)

        group.start_soon(call)
        assert await anyio.to_thread.run_sync(lambda: server.hanging.acquire(timeout=20))
        clock.advance(51)
        assert await anyio.to_thread.run_sync(lambda: server.lost.acquire(timeout=20)), "the request was not closed"
    assert len(server.asked) == 1
