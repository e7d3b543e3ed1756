"""`store_pgvector` as pipelines use it: through the engine, by any of its names, with its server up or down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from free_ports import free_port
from pg_stores import until
from postgres_server import Database

from rrext import Client
from rrext.errors import Cancelled, InvalidArguments, ToolError, Unavailable
from rrext.nodes import ALIASES, BUILTIN
from rrext.nodes.vectors.postgres.node import PgVectorNode
from rrext.testing import open_node

pytestmark = pytest.mark.anyio

DOCUMENTS = [
    {"content": "Trains leave at noon", "object_id": "plan", "metadata": {"parent": "/travel", "chunkId": 0, "page": 1}},
    {"content": "Boats leave at dusk", "object_id": "plan", "metadata": {"parent": "/travel", "chunkId": 1, "nodeId": "n"}},
    {"content": "Bread needs salt", "object_id": "recipe", "metadata": {"parent": "/kitchen/bread"}},
]


@pytest.fixture
async def client(postgres_database: Database) -> AsyncIterator[Client]:
    async with open_node(PgVectorNode, postgres_database.settings) as client:
        yield client


async def test_what_is_stored_is_found_listed_read_counted_and_deleted(client: Client) -> None:
    stored = await client.vectors.upsert(DOCUMENTS)
    assert stored == {"success": True, "count": 3, "skipped": 0, "removed": 0, "model": "hashing-384"}
    for mode in ("dense", "keyword", "hybrid"):
        answer = await client.vectors.search("when do boats leave?", top_k=1, mode=mode)
        assert [hit["content"] for hit in answer["results"]] == ["Boats leave at dusk"], mode
    narrowed = await client.vectors.search("leave", filter={"prefix": "/kitchen"}, mode="hybrid")
    assert [hit["metadata"]["objectId"] for hit in narrowed["results"]] == ["recipe"]
    strict = await client.vectors.search("bread needs salt", mode="dense", score_threshold=0.99)
    assert [hit["metadata"]["objectId"] for hit in strict["results"]] == ["recipe"]
    page = await client.vectors.get("plan", offset=1)
    assert page["total"] == 2
    assert page["chunks"][0]["metadata"] == {"objectId": "plan", "nodeId": "n", "parent": "/travel", "chunkId": 1}
    for tool in ("list", "objdir"):
        listed = await client.tool(tool=tool)
        assert listed["counts"] == {"/kitchen/bread": 1, "/travel": 2}
    stats = await client.vectors.stats()
    assert (stats["count"], stats["model"], stats["vector_size"]) == (3, "hashing-384", 384)
    assert stats["disk_bytes"] > 8192
    assert stats["details"]["table"] == "public.rrext_chunks"
    replaced = await client.tool(tool="upsert", input={"documents": DOCUMENTS[:1], "replace": True})
    assert replaced["removed"] == 1
    gone = await client.vectors.delete(["plan", "nobody"])
    assert (gone["deleted_count"], gone["missing"]) == (1, ["nobody"])


async def test_what_the_server_cannot_keep_is_refused_with_its_place(client: Client) -> None:
    wrong: dict[str, tuple[dict[str, Any], str]] = {
        "NUL in a text": ({"content": "a\0b"}, "/input/documents/0/content"),
        "NUL in an id": ({"object_id": "a\0b"}, "/input/documents/0/object_id"),
        "NUL in metadata": ({"metadata": {"x": ["a\0b"]}}, "/input/documents/0/metadata"),
        "a vector beyond floats": ({"embedding": [1e39]}, "/input/documents/0/embedding"),
    }
    for case, (change, path) in wrong.items():
        with pytest.raises(InvalidArguments) as failure:
            await client.tool(tool="upsert", input={"documents": [{"content": "words", "object_id": "a"} | change]})
        assert failure.value.data["errors"][0]["path"].startswith(path), case
    with pytest.raises(InvalidArguments, match="/input/object_id"):
        await client.vectors.get("a\0b")
    assert (await client.vectors.stats())["count"] == 0


async def test_the_same_table_is_another_store_for_another_model(client: Client, postgres_database: Database) -> None:
    await client.vectors.upsert(DOCUMENTS)
    other = {"content": "x", "object_id": "x", "embedding": [1.0, 0.0], "embedding_model": "tiny"}
    with pytest.raises(ToolError) as failure:
        await client.vectors.upsert([other])
    assert failure.value.code == "embedding_model_mismatch"
    async with open_node(PgVectorNode, {**postgres_database.settings, "table": "tiny"}) as second:
        await second.vectors.upsert([other])
        assert (await second.vectors.stats())["model"] == "tiny"


async def test_a_call_that_is_cancelled_ends_in_the_server(client: Client, postgres_database: Database) -> None:
    await client.vectors.upsert(DOCUMENTS)
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rrext' AND wait_event_type = 'Lock'"
    with postgres_database.connect() as connection:
        connection.execute("BEGIN")
        connection.execute("LOCK TABLE rrext_chunks")
        call = asyncio.ensure_future(client.vectors.stats())
        await asyncio.to_thread(until, lambda: postgres_database.run(waiting) == [(1,)], "the statement waits")
        call.cancel()
        with pytest.raises((asyncio.CancelledError, Cancelled)):
            await call
        await asyncio.to_thread(until, lambda: postgres_database.run(waiting) == [(0,)], "the statement is over")
    assert (await client.vectors.stats())["count"] == 3


async def test_its_tools_are_listed_though_its_server_is_down() -> None:
    async with open_node(PgVectorNode, {"host": "127.0.0.1", "port": free_port(), "password": "hunter2"}) as client:
        assert {"search", "upsert", "delete", "list", "get", "stats"} <= {tool["name"] for tool in await client.tools()}
        with pytest.raises(Unavailable) as failure:
            await client.vectors.stats()
        assert "hunter2" not in f"{failure.value} {failure.value.data}"


async def test_its_connections_are_closed_with_its_pipeline(postgres_database: Database) -> None:
    async with open_node(PgVectorNode, postgres_database.settings) as client:
        await client.vectors.upsert(DOCUMENTS)
    mine = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rrext'"
    await asyncio.to_thread(until, lambda: postgres_database.run(mine) == [(0,)], "the connections are closed")


async def test_older_names_mean_this_node() -> None:
    assert {ALIASES[name] for name in ("postgres", "store_postgres", "pgvector")} == {PgVectorNode.provider}
    assert BUILTIN[PgVectorNode.provider].endswith(":PgVectorNode")
