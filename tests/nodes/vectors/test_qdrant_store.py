"""The store on Qdrant: changes that are cut off, collections of others, failures of the server, and its node."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from qdrant_client import models
from qdrant_stores import LocalServer, qdrant_store
from vector_contract import SIZE, SPACE, call, chunk, everything, found, put

from rrext.errors import RrextError, ToolError, Unavailable
from rrext.limits import DEFAULTS
from rrext.nodes.embeddings.embedder import hashed
from rrext.nodes.vectors.qdrant import store as qdrant
from rrext.nodes.vectors.qdrant.node import QdrantNode, address_of
from rrext.nodes.vectors.qdrant.store import QdrantStore
from rrext.nodes.vectors.store import Search
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline
from rrext.testing import open_pipeline


@pytest.fixture
def server() -> LocalServer:
    return LocalServer()


def replaced(store: QdrantStore, chunks: int = 6) -> int:
    new = [chunk("a", n, f"new words {n}") for n in range(chunks)]
    vectors = [hashed(one.content, SIZE) for one in new]
    return store.upsert(new, vectors, SPACE, call(), {"a": set(range(chunks))})


def contents(store: QdrantStore) -> set[str]:
    return {one.content.partition(" ")[0] for one in everything(store, "a")}


@pytest.mark.parametrize("operation", [8 * 1024 * 1024, 1500], ids=["in one request", "in steps"])
def test_a_change_that_is_cut_anywhere_is_whole_or_not_there_when_the_next_one_is_done(
    operation: int, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qdrant, "OPERATION", operation)
    monkeypatch.setattr(qdrant, "MOVED", 2)
    monkeypatch.setattr(qdrant, "ORPHANED", -60.0)
    outcomes: set[str] = set()
    for cut in range(1, 100):
        store = qdrant_store(server, f"cut{cut}")
        put(store, *(chunk("a", n, f"old words {n}") for n in range(9)))
        server.calls.clear()
        server.fails_at = cut
        try:
            replaced(store)
            break
        except Unavailable:
            server.fails_at = None
        again = qdrant_store(server, f"cut{cut}")
        put(again, chunk("b"))  # a change of the next process
        kept = contents(again)
        assert len(kept) == 1, (cut, kept)
        assert len(everything(again, "a")) == (9 if kept == {"old"} else 6)
        assert again.stats(call()).chunks == 1 + len(everything(again, "a"))
        outcomes |= kept
        points, _ = server.scroll(f"cut{cut}", limit=100)
        assert len(points) == again.stats(call()).chunks, "nothing is left beside the chunks"
    else:
        pytest.fail("it never came to its end")
    assert outcomes == {"old", "new"}


def test_the_change_of_a_process_that_lives_is_left_to_it(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qdrant, "OPERATION", 1500)
    store = qdrant_store(server)
    put(store, *(chunk("a", n, f"old words {n}") for n in range(9)))
    monkeypatch.setattr(QdrantStore, "_complete", lambda *_: None)
    monkeypatch.setattr(qdrant.os, "getpid", os.getppid)
    replaced(store)
    monkeypatch.undo()
    put(qdrant_store(server), chunk("b"))
    assert contents(store) == {"old"}
    monkeypatch.setattr(qdrant, "ABANDONED", -1.0)
    put(qdrant_store(server), chunk("b"))
    assert contents(store) == {"new"}


def test_chunks_longer_than_a_request_are_stored_one_by_one(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qdrant, "OPERATION", 10)
    store = qdrant_store(server)
    replaced(store, 3)
    assert len(everything(store, "a")) == 3


def test_a_collection_of_another_program_is_refused_and_left_as_it_is(server: LocalServer) -> None:
    server.create_collection("chunks", vectors_config=models.VectorParams(size=SIZE, distance=models.Distance.COSINE))
    server.upsert("chunks", points=[models.PointStruct(id=1, vector=[1.0] * SIZE, payload={"content": "x", "meta": {}})])
    store = qdrant_store(server)
    for act in (lambda: put(store, chunk("a")), lambda: store.space(call()), lambda: found(store, "x")):
        with pytest.raises(ToolError) as failure:
            act()
        assert failure.value.code == "store_foreign"
    assert server.count("chunks").count == 1


def test_hits_below_the_score_of_the_node_are_dropped_unless_they_have_words(server: LocalServer) -> None:
    store = qdrant_store(server, least=0.6)
    directions = {"near": [1.0, 0.1], "far": [0.1, 1.0], "worded": [0.0, 1.0]}
    chunks = [chunk(name, 0, "plums" if name == "worded" else "nothing") for name in directions]
    space = qdrant.VectorSpace("two", 2)
    store.upsert(chunks, list(directions.values()), space, call())
    dense = store.search(Search("dense", 9, "", [1.0, 0.0]), call())
    assert [hit.chunk.object_id for hit in dense] == ["near"]
    both = store.search(Search("hybrid", 9, "plums", [1.0, 0.0]), call())
    assert {hit.chunk.object_id for hit in both} == {"near", "worded"}


class Refusing(BaseHTTPRequestHandler):
    """Answers each request with a status and a message in Qdrant's form."""

    status = 500

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.dumps({"status": {"error": "of the server: it says why"}, "time": 0}).encode()
        self.send_response(self.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = answer

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def refusing() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def pipeline(port: int, **settings: Any) -> dict[str, Any]:
    config = {"profile": "local", "local": {"host": "127.0.0.1", "port": port, "collection": "c", **settings}}
    return {
        "components": [
            {"id": "in", "provider": "webhook", "config": {}},
            {"id": "store", "provider": "qdrant", "config": config, "control": [{"classType": "tool", "from": "in"}]},
        ]
    }


@pytest.mark.parametrize(
    ("status", "code", "word"),
    [
        (403, "unavailable", "key"),
        (401, "unavailable", "apikey"),
        (500, "unavailable", "failed"),
        (400, "store_failed", "refused"),
    ],
)
async def test_what_a_server_refuses_is_told_in_its_words_without_the_key(
    refusing: HTTPServer, monkeypatch: pytest.MonkeyPatch, status: int, code: str, word: str
) -> None:
    monkeypatch.setattr(Refusing, "status", status)
    async with open_pipeline(pipeline(refusing.server_port, apikey="s3cret-key-of-qdrant")) as client:
        with pytest.raises(RrextError) as failure:
            await client.tool(tool="search", input={"query": "x"})
    assert failure.value.code == code
    assert "it says why" in failure.value.message
    told = f"{failure.value.message} {failure.value.hint}"
    assert word in told
    assert "s3cret" not in told


async def test_a_server_that_is_down_is_unavailable_and_its_tools_are_listed() -> None:
    with HTTPServer(("127.0.0.1", 0), Refusing) as taken:
        port = taken.server_port
    async with open_pipeline(pipeline(port)) as client:
        assert "search" in {tool["name"] for tool in await client.tools()}
        with pytest.raises(Unavailable) as failure:
            await client.tool(tool="search", input={"query": "x"})
    assert f"127.0.0.1:{port}/c" in failure.value.message


def test_rocketrides_settings_load_without_a_word() -> None:
    given = pipeline(6333, score=0.7)
    assert load_pipeline(given, Catalog(), Environment(), limits=DEFAULTS).problems == ()
    cloud = {"profile": "cloud", "cloud": {"host": "x.eu.qdrant.io", "apikey": "${ROCKETRIDE_KEY}", "collection": "ROCKETRIDE"}}
    given["components"][1]["config"] = cloud
    loaded = load_pipeline(given, Catalog(), Environment({"ROCKETRIDE_KEY": "k"}, ()), limits=DEFAULTS)
    assert loaded.problems == ()


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({"host": "localhost", "mode": "local"}, "http://localhost:6333"),
        ({"host": "x.qdrant.io"}, "https://x.qdrant.io:6333"),
        ({"host": "http://x.qdrant.io/", "port": 80}, "http://x.qdrant.io:80"),
        ({"host": " https://10.0.0.1 ", "mode": "local"}, "https://10.0.0.1:6333"),
        ({"host": "::1", "mode": "local"}, "http://[::1]:6333"),
    ],
)
def test_a_host_is_reached_as_its_scheme_says_or_else_as_its_profile_does(settings: dict[str, Any], address: str) -> None:
    config = QdrantNode.Config()
    for name, value in settings.items():
        setattr(config, name, value)
    assert address_of(config) == address


@pytest.mark.parametrize("host", ["", "  ", "ftp://x", "x:6333", "x/y", "a b", "http://user:s3cret@x", "[x", "http://x?y"])
def test_what_is_no_host_alone_is_unavailable_and_no_password_is_told(host: str) -> None:
    config = QdrantNode.Config()
    config.host = host
    with pytest.raises(Unavailable) as failure:
        address_of(config)
    assert "s3cret" not in str(failure.value)
