"""`client.files`: what a user keeps on a server, in both clients, of a server that is spawned and of one at a WebSocket."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import pytest
from real_servers import joined, spawned

import rrext.blocking
from rrext import Client, ToolError, Unavailable

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("forked_servers"), pytest.mark.promise("store:whole-files")]


def connected(way: str, *args: str) -> AbstractAsyncContextManager[Client]:
    """A client of a server with these options."""
    return joined(args=args) if way == "joined" else spawned(args=args)


@pytest.fixture
async def client(anyio_backend: str, tmp_path: Path) -> AsyncIterator[Client]:
    """A client of a server with a store. On asyncio the client spawns the server, on trio it joins a running server."""
    way = "spawned" if anyio_backend == "asyncio" else "joined"
    async with connected(way, "--store", str(tmp_path / "store")) as connected_client:
        yield connected_client


async def test_files_of_every_size_are_read_as_they_were_written(client: Client) -> None:
    for size in (0, 1, 100_000, 5_000_000, 20_000_000):  # one read has 4 MiB, one frame 16 MiB
        data = os.urandom(size)
        await client.files.write(f"sizes/{size}", data)
        assert await client.files.read(f"sizes/{size}") == data
        assert (await client.files.stat(f"sizes/{size}"))["size"] == size
    await client.files.write("sizes/0", "wörld")
    assert await client.files.read("sizes/0") == "wörld".encode()


async def test_folders_are_made_listed_renamed_and_removed(client: Client) -> None:
    files = client.files
    await files.make_folder("a/b")
    await files.write("a/c.txt", "text")
    assert [(each["name"], each["type"], each.get("size")) for each in await files.list("a")] == [
        ("b", "dir", None),
        ("c.txt", "file", 4),
    ]
    await files.rename("a/c.txt", "d/e.txt")
    assert [each["name"] for each in await files.list()] == ["a", "d"]
    with pytest.raises(ToolError) as refused:
        await files.remove_folder("d")
    assert refused.value.code == "directory_not_empty"
    await files.remove_folder("d", recursive=True)
    await files.write("f", b"")
    await files.delete("f")
    assert await files.stat("f") == {"exists": False}
    for attempt in (files.read("f"), files.delete("f"), files.list("f")):
        with pytest.raises(ToolError) as missing:
            await attempt
        assert missing.value.code == "path_not_found"


async def test_a_write_that_does_not_end_leaves_nothing_and_no_open_file(client: Client) -> None:
    await client.files.write("kept", "before")
    for turns in range(80):  # a connection may have 64 open files
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel_after, scope, turns % 20)
                await client.files.write("half", b"x" * 50_000)
                tasks.cancel_scope.cancel()
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel_after, scope, turns % 20)
                await client.files.read("kept")
                tasks.cancel_scope.cancel()
    assert await client.files.read("kept") == b"before"
    found = await client.files.stat("half")
    assert found.get("size", 50_000) == 50_000


async def cancel_after(scope: anyio.CancelScope, turns: int) -> None:
    for _ in range(turns):
        await anyio.lowlevel.checkpoint()
    scope.cancel()


async def test_a_write_beyond_the_quota_is_told_and_keeps_what_was_there(tmp_path: Path) -> None:
    async with connected("spawned", "--store", str(tmp_path), "--store-quota", "20") as client:
        await client.files.write("a", "before")
        with pytest.raises(ToolError) as full:
            await client.files.write("a", "x" * 30)
        assert full.value.code == "quota_exceeded"
        assert await client.files.read("a") == b"before"


async def test_without_a_store_there_are_no_files() -> None:
    async with connected("spawned") as client:
        with pytest.raises(Unavailable, match="--store DIR"):
            await client.files.list()


def test_the_blocking_client_has_them_too(tmp_path: Path) -> None:
    with rrext.blocking.Client.spawn(args=["--store", str(tmp_path)]) as client:
        client.files.make_folder("a")
        client.files.write("a/b", "text")
        client.files.rename("a/b", "a/c")
        assert client.files.read("a/c") == b"text"
        assert [each["name"] for each in client.files.list("a")] == ["c"]
        assert client.files.stat("a/c")["exists"]
        client.files.delete("a/c")
        client.files.remove_folder("a")
        assert client.files.list() == []
