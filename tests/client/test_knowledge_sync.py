"""`client.knowledge.sync`: the stores of a server are kept as a folder of the client's machine."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest
from real_servers import joined, spawned

from rrext import Client, InvalidArguments, RrextError, SyncedFile, UsageError
from rrext.blocking import Client as BlockingClient

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("forked_servers")]


def store_pipeline(folder: Path) -> dict[str, Any]:
    parts = [
        {"id": "w", "provider": "webhook", "config": {}},
        {"id": "split", "provider": "split", "config": {}, "input": [{"lane": "text", "from": "w"}]},
        {
            "id": "store",
            "provider": "store_qdrant_edge",
            "config": {"path": str(folder / "store"), "min_free_bytes": 0},
            "input": [{"lane": "documents", "from": "split"}],
        },
    ]
    return {"components": parts, "source": "w", "project_id": "p", "version": 1}


@pytest.fixture
def docs(memory_path: Path) -> Path:
    folder = memory_path / "docs"
    (folder / "sub").mkdir(parents=True)
    for name in ("a.txt", "b.md", "sub/c.txt"):
        (folder / name).write_text(f"text of {name}")
    return folder


@pytest.mark.promise("sync:store:as-folder")
async def test_a_folder_of_the_client_is_kept_in_the_stores_of_a_server(
    docs: Path, memory_path: Path, anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(memory_path / "state"))
    is_spawned = anyio_backend == "asyncio"
    told: list[SyncedFile] = []
    async with spawned(dialect="dap") if is_spawned else joined(dialect="jsonrpc") as client:
        token = (await client.use(pipeline=store_pipeline(memory_path)))["token"]

        async def sync(**options: Any) -> dict[str, int]:
            state = {} if is_spawned else {"state": memory_path / "my.sync"}
            result = await client.knowledge.sync("papers", docs, token=token, progress=told.append, **state, **options)
            assert result.ok == ("failed" not in result.counts and "not deleted" not in result.counts)
            assert len(result.files) == sum(count for how, count in result.counts.items() if how != "unchanged")
            return result.counts

        assert await sync() == {"new": 3}
        assert sorted(each.outcome for each in told) == ["new"] * 3
        assert all(each.result is not None and each.result["stored"] == {"store": 1} for each in told)
        listed = (await client.vectors.list(token=token))["objects"]
        assert {each["parent"] for each in listed} == {"papers/a.txt", "papers/b.md", "papers/sub/c.txt"}
        assert await sync(jobs=1) == {"unchanged": 3}
        (docs / "a.txt").write_text("another text")
        (docs / "b.md").rename(docs / "sub" / "b.md")
        (docs / "sub" / "c.txt").unlink()
        (docs / "bad.txt").write_bytes(b"\xff\xfe\xff")
        assert await sync() == {"changed": 1, "moved": 1, "deleted": 1, "failed": 1}
        (failed,) = [each for each in told if each.outcome == "failed"]
        assert isinstance(failed.error, RrextError)
        (docs / "bad.txt").unlink()
        shutil.rmtree(docs)
        await anyio.Path(docs).mkdir()
        assert (await sync())["not deleted"] == 3
        assert (await sync(max_delete=3))["deleted"] == 3
        assert (await client.vectors.stats(token=token))["count"] == 0


async def test_an_exception_of_the_callback_ends_the_sync(docs: Path, memory_path: Path) -> None:
    def stop(done: SyncedFile) -> None:
        raise KeyError(done.path)

    async with spawned(dialect="dap") as client:
        token = (await client.use(pipeline=store_pipeline(memory_path)))["token"]
        with pytest.raises(KeyError):
            await client.knowledge.sync("papers", docs, token=token, state=memory_path / "s", progress=stop, jobs=1)
        result = await client.knowledge.sync("papers", docs, token=token, state=memory_path / "s")
        assert result.counts["new"] + result.counts.get("unchanged", 0) + result.counts.get("changed", 0) == 3


async def test_what_cannot_be_synced_is_said(docs: Path, memory_path: Path) -> None:
    async with spawned(dialect="dap") as client:
        with pytest.raises(InvalidArguments, match="a sync needs a store"):
            await client.knowledge.sync("papers", docs, state=memory_path / "s")
        token = (await client.use(pipeline=store_pipeline(memory_path)))["token"]
        for name, place in (("", docs), ("a/b", docs), ("a/b", f"urls:{docs / 'a.txt'}")):
            with pytest.raises(UsageError):
                await client.knowledge.sync(name, place, token=token, state=memory_path / "s")


def test_it_blocks_too(docs: Path, memory_path: Path, anyio_backend: str) -> None:
    path = memory_path / "p.pipe"
    path.write_text(json.dumps(store_pipeline(memory_path)))
    told: list[str] = []
    with BlockingClient(Client.spawn(path), backend=anyio_backend) as client:
        result = client.knowledge.sync("papers", docs, state=memory_path / "s", progress=lambda done: told.append(done.outcome))
        assert (result.counts, told) == ({"new": 3}, ["new"] * 3)
