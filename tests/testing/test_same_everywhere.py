"""The same assertions on a pair in memory, on a pair over pipes, and on a spawned server."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from rrext import Client
from rrext.errors import (
    InvalidArguments,
    InvalidPipeline,
    NotConnected,
    PipeNotOpen,
    ServerExited,
    ShuttingDown,
    TaskAmbiguous,
    ToolError,
    ToolNotFound,
    ToolTimeout,
    TooManyRequests,
    UnknownCommand,
)
from rrext.limits import DEFAULTS
from rrext.testing import open_pipeline

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.promise("testing:pair-public"),
    pytest.mark.usefixtures("forked_servers"),
]

CLIENT_TESTS = Path(__file__).resolve().parents[1] / "client"
ROOT = str(CLIENT_TESTS.parents[1])
PIPELINE = CLIENT_TESTS / "real.pipe"
NODES = [CLIENT_TESTS / "real_nodes.py"]

WAYS = {"memory": "dap", "pipes": "jsonrpc", "spawned": "dap"}
"""What lies between client and engine → the dialect in which both speak."""


def opened(way: Any, dialect: Any, **more: Any) -> AbstractAsyncContextManager[Client]:
    if way == "spawned":
        return Client.spawn(PIPELINE, nodes=NODES, env={"PYTHONPATH": ROOT}, dialect=dialect, **more)
    return open_pipeline(PIPELINE, nodes=NODES, over=way, dialect=dialect, **more)


@pytest.fixture(params=WAYS.items(), ids="-".join)
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param


@pytest.fixture
def way(pair: tuple[str, str]) -> str:
    return pair[0]


@pytest.fixture
def dialect(pair: tuple[str, str]) -> str:
    return pair[1]


@pytest.fixture
async def client(way: str, dialect: str) -> AsyncIterator[Client]:
    async with opened(way, dialect) as connected:
        yield connected


async def test_tools_answer_and_fail_alike(client: Client) -> None:
    assert await client.tool(tool="add", input={"a": 1, "b": 2}) == {"sum": 3}
    with pytest.raises(ToolNotFound):
        await client.tool(tool="ad")
    with pytest.raises(InvalidArguments):
        await client.tool(tool="add", input={"a": "x"})
    with pytest.raises(ToolError, match="sold out"):
        await client.tool(tool="refuse")
    with pytest.raises(ToolTimeout):
        await client.tool(tool="wait", timeout=0.05)
    with pytest.raises(UnknownCommand, match="rrext_ping"):
        await client.request("rrext_pong")
    assert "wait" in {tool["name"] for tool in await client.tools()}


async def test_many_quick_calls_in_a_row_are_answered(client: Client) -> None:
    for number in range(300):
        assert await client.tool(tool="add", input={"a": number}) == {"sum": number + 1}


async def test_calls_at_a_time_are_answered(client: Client) -> None:
    sums: list[int] = []

    async def call(number: int) -> None:
        sums.append((await client.tool(tool="add", input={"a": number}))["sum"])

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(call, number)
    assert sorted(sums) == list(range(1, 51))


@pytest.mark.parametrize("tool", ["wait", "park"])
@pytest.mark.promise("cancel:reaches:both-kinds")
async def test_a_cancelled_call_ends(tool: str, client: Client) -> None:
    await client.tool(tool="how_they_ended")
    with anyio.CancelScope() as scope:
        await client.tool(tool=tool, progress=lambda *_: scope.cancel())
    with anyio.fail_after(10):
        while await client.tool(tool="how_they_ended") != [tool]:
            await anyio.lowlevel.checkpoint()


async def test_progress_chunks_and_bytes_arrive(client: Client) -> None:
    reports: list[Any] = []
    await client.tool(tool="report", input={"to": 20}, progress=lambda value, total, message: reports.append(value))
    assert reports[-1] == 20
    assert reports == sorted(set(reports))
    chunks: list[Any] = []
    await client.tool(tool="count", input={"to": 1000}, on_chunk=chunks.append)
    assert chunks == list(range(1000))
    assert await client.tool(tool="blob", input={"data": "AAECAw=="}) == b"\x00\x01\x02\x03"


async def test_a_stalled_reader_gets_every_chunk_in_the_end(client: Client) -> None:
    sizes: list[int] = []

    async def slow(chunk: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        sizes.append(len(chunk))

    await client.tool(tool="slabs", input={"number": 40, "size": 1024 * 1024}, on_chunk=slow)
    assert sizes == [1024 * 1024] * 40


async def test_large_results_and_writes_pass(client: Client) -> None:
    assert len(await client.tool(tool="large", input={"mebibytes": 15})) == 15 * 1024 * 1024
    async with client.pipe() as pipe:
        for _ in range(3):
            await pipe.write(os.urandom(4_000_000))
        assert await pipe.tool(tool="measured") == 12_000_000
    assert pipe.result is not None
    assert pipe.result["reply"] == ["12000000 bytes\n\n"]
    with pytest.raises(PipeNotOpen):
        await client.tool(tool="measured", pipe_id=pipe.pipe_id)


async def test_pipes_are_freed_with_their_client(way: str, dialect: str) -> None:
    async with opened(way, dialect) as client:
        await client.pipe().open()
        await client.pipe().open()


async def test_pipelines_are_used_and_ended(client: Client) -> None:
    await client.use(filepath=PIPELINE, token="second")
    with pytest.raises(TaskAmbiguous):
        await client.tool(tool="add", input={"a": 1})
    await client.terminate("second")
    assert await client.tool(tool="add", input={"a": 1})
    with pytest.raises(InvalidPipeline):
        await client.use(pipeline={"components": []})


async def test_close_lets_calls_finish(client: Client) -> None:
    results: list[Any] = []

    async def call() -> None:
        results.append(await client.tool(tool="report", input={"to": 3}, progress=lambda *_: None))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        await client.close()
    assert results == ["done"]
    with pytest.raises(NotConnected):
        await client.ping()


async def test_shutdown_fails_what_does_not_finish(way: str, dialect: str) -> None:
    more: dict[str, Any] = {"drain": 0.1} if way == "spawned" else {"limits": quick_drain()}
    async with opened(way, dialect, **more) as client, anyio.create_task_group() as tasks:
        parked = anyio.Event()

        async def call() -> None:
            with pytest.raises(ShuttingDown):
                await client.tool(tool="wait", progress=lambda *_: parked.set())

        tasks.start_soon(call)
        await parked.wait()
        with anyio.fail_after(10):
            await client.shutdown()
        with pytest.raises((ServerExited, ShuttingDown)):
            await client.tool(tool="add", input={"a": 1})


def quick_drain() -> Any:
    return msgspec.structs.replace(DEFAULTS, drain=0.1)


async def test_the_servers_limit_of_requests_is_kept_by_the_client(way: str, dialect: str) -> None:
    """A quarter more calls at a time than the server takes: it would refuse the others."""
    most = DEFAULTS.max_inflight if way == "spawned" else 100
    more: dict[str, Any] = {} if way == "spawned" else {"limits": msgspec.structs.replace(DEFAULTS, max_inflight=most)}
    failures: list[Exception] = []

    async with opened(way, dialect, **more) as client:

        async def call() -> None:
            try:
                await client.tool(tool="add", input={"a": 1})
            except TooManyRequests as error:
                failures.append(error)

        async with anyio.create_task_group() as tasks:
            for _ in range(most + most // 4):
                tasks.start_soon(call)
    assert failures == []
