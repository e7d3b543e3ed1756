"""Each call that a worker has gets the code of its own fate."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from task_server import TaskServer, pipeline


async def opened(face: Any, token: str) -> int:
    """A pipe."""
    body = await face.request("rrext_process", {"subcommand": "open", "token": token, "mimeType": "text/plain"})
    return int(body["pipe_id"])


@pytest.mark.promise("call:own-fate")
async def test_whatever_reaches_a_worker_whose_task_is_terminated_hears_of_the_task_and_not_of_the_server(
    server: TaskServer,
) -> None:
    codes = set()
    async with server.line() as line, server.connect() as face:
        for _ in range(4):
            token = (await face.request("execute", {"pipeline": pipeline()}))["token"]
            opening = await line.send("rrext_process", {"subcommand": "open", "token": token, "mimeType": "text/plain"})
            about = {"pipe_id": (await line.answer(opening)).body["pipe_id"]}
            ending = await line.send("terminate", {"token": token})
            sent = []
            while not any(getattr(each, "id", None) == ending for each in line.messages):
                sent.append(await line.send("rrext_process", {"subcommand": "write", "data": "x", **about}))
                sent.append(await line.send("rrext_process", {"subcommand": "tool", "tool": "pid", **about}))
                sent.append(await line.send("rrext_process", {"subcommand": "tool", "tool": "pid", "token": token}))
                await anyio.lowlevel.checkpoint()
            for number in sent:
                error = (await line.answer(number)).error
                codes.add("" if error is None else error.code)
    assert codes <= {"", "cancelled", "pipe_not_open", "TASK_NOT_REGISTERED"}


@pytest.mark.promise("pipe:late:failed")
async def test_a_write_that_is_cancelled_before_it_reaches_the_worker_leaves_a_gap_that_close_tells(server: TaskServer) -> None:
    async with server.task() as (face, token), server.line() as line:
        pid = await face.tool("pid", token=token)
        opening = await line.send("rrext_process", {"subcommand": "open", "token": token, "mimeType": "text/plain"})
        about = {"pipe_id": (await line.answer(opening)).body["pipe_id"]}
        os.kill(pid, signal.SIGSTOP)
        written = [
            await line.send("rrext_process", {"subcommand": "write", "data": "x" * 2**20, **about}) for _ in range(12)
        ]  # more than the pipe to the process and its outbox take
        await line.cancel(written[-1])
        error = (await line.answer(written[-1])).error
        assert error is not None
        assert error.code == "cancelled"
        os.kill(pid, signal.SIGCONT)
        for number in written[:-1]:
            assert (await line.answer(number)).error is None
        closed = await line.answer(await line.send("rrext_process", {"subcommand": "close", **about}))
        assert closed.body["error"]["code"] == "cancelled"


@pytest.mark.promise("pipe:late:failed")
async def test_a_close_that_is_cancelled_before_it_reaches_the_worker_frees_the_pipe(server: TaskServer) -> None:
    async with server.task() as (face, token), server.line() as line:
        pid = await face.tool("pid", token=token)
        opening = await line.send("rrext_process", {"subcommand": "open", "token": token, "mimeType": "text/plain"})
        about = {"pipe_id": (await line.answer(opening)).body["pipe_id"]}
        os.kill(pid, signal.SIGSTOP)
        written = [await line.send("rrext_process", {"subcommand": "write", "data": "x" * 2**20, **about}) for _ in range(12)]
        closing = await line.send("rrext_process", {"subcommand": "close", **about})
        await line.cancel(closing)
        assert (await line.answer(closing)).error is not None
        os.kill(pid, signal.SIGCONT)
        for number in written:
            assert (await line.answer(number)).error is None
        again = (await line.answer(await line.send("rrext_process", {"subcommand": "close", **about}))).error
        assert again is not None
        assert again.code == "pipe_not_open"


@pytest.mark.promise("call:own-fate")
async def test_a_tool_whose_other_pipeline_is_terminated_was_not_cancelled_itself(server: TaskServer) -> None:
    async with server.task() as (face, token), server.line() as line:
        other = (await face.request("execute", {"pipeline": pipeline()}))["token"]
        asking = await line.call("ask_other", {"token": other, "text": "stay"}, token=token)
        while not await face.tool("staying", token=other):
            await anyio.lowlevel.checkpoint()
        await face.request("terminate", {"token": other})
        error = (await line.answer(asking)).error
        assert error is not None
        assert error.code == "tool_failed"
        assert other in error.message


@pytest.fixture
def deep_reader() -> Iterator[None]:
    """This process reads what is nested deeper than any server can."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(4 * usual)
    yield
    sys.setrecursionlimit(usual)


@pytest.mark.promise("call:own-fate")
@pytest.mark.usefixtures("deep_reader")
async def test_a_value_as_deep_as_one_end_of_the_hop_can_take_is_answered_and_so_is_the_next_call(server: TaskServer) -> None:
    depths = range(970, 1001)
    inner: Any = []
    for _ in range(depths[0]):
        inner = [inner]
    async with server.task() as (face, token), server.line() as line:
        for depth in depths:
            result = await line.answer(await line.call("nested", {"inner": [], "depth": depth}, token=token))
            assert result.error is None or result.error.code == "tool_failed"
            taken = await line.answer(await line.call("nested", {"inner": inner, "depth": 0}, token=token))
            assert taken.error is None or taken.error.code in ("tool_failed", "invalid_arguments", "parse_error")
            inner = [inner]
        assert await face.tool("nested", {"inner": 1, "depth": 1}, token=token) == [1]
