"""The tools of a vector store node, through the engine: what is answered, and what is refused and where."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from vector_contract import cosine

from rrext import Client
from rrext.errors import InvalidArguments, RrextError, ToolError
from rrext.nodes.embeddings.embedder import hashed
from rrext.nodes.embeddings.node import HashingNode
from rrext.nodes.vectors.edge.node import QdrantEdgeNode
from rrext.testing import open_node, open_pipeline

pytestmark = pytest.mark.usefixtures("forked_children")

CONFIG = {"path": "store", "min_free_bytes": 0}
SPACE = {"spaceId": "s"}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with open_node(QdrantEdgeNode, CONFIG, root=tmp_path) as client:
        yield client


def doc(content: str, object_id: str, **metadata: Any) -> dict[str, Any]:
    return {"content": content, "object_id": object_id, "metadata": metadata}


async def refused(client: Client, tool: str, input: Any) -> str:
    """The JSON pointer of what is wrong with an input."""
    with pytest.raises(InvalidArguments) as failure:
        await client.tool(tool=tool, input=input)
    return failure.value.data["errors"][0]["path"]


async def test_what_is_stored_is_found_listed_read_counted_and_deleted(client: Client) -> None:
    documents = [
        doc("Trains leave at noon", "plan", parent="/travel", chunkId=0, page=1),
        doc("Boats leave at dusk", "plan", parent="/travel", chunkId=1, nodeId="n"),
        doc("Bread needs salt", "recipe", parent="/kitchen/bread"),
    ]
    stored = await client.vectors.upsert(documents)
    assert stored == {"success": True, "count": 3, "skipped": 0, "removed": 0, "model": "hashing-384"}
    answer = await client.vectors.search("when do boats leave?", top_k=1)
    assert answer["total"] == 1
    assert answer["results"][0] == {
        "content": "Boats leave at dusk",
        "score": pytest.approx((cosine(hashed("when do boats leave?"), hashed("Boats leave at dusk")) + 2 / 4) / 2, abs=1e-4),
        "metadata": {"objectId": "plan", "nodeId": "n", "parent": "/travel", "chunkId": 1},
    }
    page = await client.vectors.get("plan", limit=1)
    metadata = {"objectId": "plan", "nodeId": "vectordb_tool", "parent": "/travel", "chunkId": 0, "page": 1}
    chunk = {"content": "Trains leave at noon", "chunkId": 0, "metadata": metadata}
    assert page == {"success": True, "chunks": [chunk], "total": 2, "cursor": page["cursor"]}
    rest = await client.vectors.get("plan", limit=1, cursor=page["cursor"])
    assert [each["chunkId"] for each in rest["chunks"]] == [1]
    assert rest["cursor"] is None
    listing = {
        "success": True,
        "objects": [
            {"parent": "/kitchen/bread", "objectId": "recipe", "chunks": 1},
            {"parent": "/travel", "objectId": "plan", "chunks": 2},
        ],
        "paths": {"/kitchen/bread": "recipe", "/travel": "plan"},
        "counts": {"/kitchen/bread": 1, "/travel": 2},
        "total": 2,
        "cursor": None,
    }
    assert await client.vectors.list() == await client.tool(tool="objdir") == listing
    first = await client.vectors.list(limit=1)
    second = await client.vectors.list(limit=1, cursor=first["cursor"])
    assert ([*first["objects"], *second["objects"]], second["cursor"]) == (listing["objects"], None)
    assert (await client.vectors.list(parent="/kitchen/"))["paths"] == {"/kitchen/bread": "recipe"}
    stats = await client.vectors.stats()
    assert [stats[key] for key in ("count", "objects", "parents", "model", "vector_size")] == [3, 2, 2, "hashing-384", 384]
    deleted = await client.vectors.delete(["plan", "nobody"])
    assert deleted == {"success": True, "deleted_count": 2, "objects": 1, "missing": ["nobody"]}
    assert (await client.vectors.delete(prefix="/"))["deleted_count"] == 1
    assert (await client.vectors.stats())["count"] == 0


async def test_each_mode_of_search_and_a_threshold(client: Client) -> None:
    await client.vectors.upsert([doc("red green", "a"), doc("blue yellow", "b"), doc("greenish reddish", "c")])
    words = await client.vectors.search("green", mode="keyword")
    assert [hit["metadata"]["objectId"] for hit in words["results"]] == ["a"]
    dense = await client.vectors.search("red green", mode="dense")
    assert dense["results"][0]["score"] == pytest.approx(1, abs=1e-5)
    assert dense["total"] == 3
    close = await client.vectors.search("red green", mode="dense", score_threshold=0.9)
    assert close["total"] == 1
    both = await client.vectors.search("red green", score_threshold=0.6)
    assert [(hit["metadata"]["objectId"], hit["score"]) for hit in both["results"]] == [("a", 1.0)]
    for mode in ("dense", None):
        by_vector = await client.vectors.search(mode=mode, embedding=hashed("blue yellow"), top_k=1)
        assert by_vector["mode"] == "dense"
        assert by_vector["results"][0]["metadata"]["objectId"] == "b"
    own_vector = await client.vectors.search("green", embedding=hashed("blue yellow"))
    assert own_vector["mode"] == "hybrid"
    assert {hit["metadata"]["objectId"] for hit in own_vector["results"][:2]} == {"a", "b"}


@pytest.mark.promise("vector:filter:metadata")
async def test_a_search_is_narrowed_by_metadata_and_paths(client: Client) -> None:
    await client.vectors.upsert(
        [
            doc("red fish", "a", parent="/x", kind="letter", year=2024, tags=["old", 7]),
            doc("red fish", "b", parent="/x/y", kind="note", year=2025, tags=["new"]),
            doc("red fish", "c", parent="/z", kind="note", year=2026.5, done=True),
        ]
    )

    async def narrowed(**filter: Any) -> str:
        found = await client.vectors.search("fish", filter=filter)
        return "".join(sorted(hit["metadata"]["objectId"] for hit in found["results"]))

    assert await narrowed(metadata={"kind": "note"}) == "bc"
    assert await narrowed(metadata={"kind": ["note", "letter"], "year": {"gt": 2024, "lte": 2026}}) == "b"
    assert await narrowed(metadata={"tags": ["new", 7], "done": None}) == "ab"
    assert await narrowed(metadata={"done": True}, parent=["/z", "/x"]) == "c"
    assert await narrowed(prefix=["/x/y", "/z"], objectId=[f"o{n}" for n in range(99_999)] + ["b"]) == "b"
    assert await narrowed(metadata={}) == "abc"


async def test_replace_removes_the_chunks_that_a_document_has_no_more(client: Client) -> None:
    await client.vectors.upsert([doc(f"part {n}", "a", chunkId=n) for n in range(5)])
    again = {"documents": [doc(f"new part {n}", "a", chunkId=n) for n in range(2)]}
    assert (await client.tool(tool="upsert", input=again))["removed"] == 0
    assert (await client.vectors.get("a"))["total"] == 5
    assert (await client.tool(tool="upsert", input={**again, "replace": True}))["removed"] == 3
    assert [chunk["content"] for chunk in (await client.vectors.get("a"))["chunks"]] == ["new part 0", "new part 1"]


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"object_id": "a"}, "content"),
        ({"content": "", "object_id": "a"}, "content"),
        ({"content": " \n", "object_id": "a"}, "content"),
        ({"content": "a\0b", "object_id": "a"}, "content"),
        ({"content": "x" * 200_001, "object_id": "a"}, "content"),
        ({"content": 5, "object_id": "a"}, "content"),
        ({"content": "x"}, "object_id"),
        ({"content": "x", "object_id": ""}, "object_id"),
        ({"content": "x", "object_id": "é" * 1001}, "object_id"),
        ({"content": "x", "object_id": "a", "objectId": "a"}, "objectId"),
        ({"content": "x", "object_id": "a", "metadata": []}, "metadata"),
        ({"content": "x", "object_id": "a", "metadata": {"chunkId": -1}}, "metadata/chunkId"),
        ({"content": "x", "object_id": "a", "metadata": {"chunkId": True}}, "metadata/chunkId"),
        ({"content": "x", "object_id": "a", "metadata": {"chunkId": 1.5}}, "metadata/chunkId"),
        ({"content": "x", "object_id": "a", "metadata": {"objectId": "b"}}, "metadata/objectId"),
        ({"content": "x", "object_id": "a", "metadata": {"parent": ""}}, "metadata/parent"),
        ({"content": "x", "object_id": "a", "metadata": {"nodeId": 7}}, "metadata/nodeId"),
        ({"content": "x", "object_id": "a", "metadata": {"note": "nul \0"}}, "metadata"),
        ({"content": "x", "object_id": "a", "embedding": []}, "embedding"),
        ({"content": "x", "object_id": "a", "embedding": [1e39]}, "embedding"),
        ({"content": "x", "object_id": "a", "embedding": ["1"]}, "embedding/0"),
        ({"content": "first again", "object_id": "first"}, "metadata/chunkId"),
    ],
)
async def test_one_wrong_document_stores_none_and_is_named(client: Client, document: dict[str, Any], path: str) -> None:
    documents = [doc("fine", "first"), doc("fine", "second"), document]
    assert await refused(client, "upsert", {"documents": documents}) == f"/input/documents/2/{path}"
    assert (await client.vectors.stats())["count"] == 0


@pytest.mark.parametrize(
    ("tool", "input", "path"),
    [
        ("search", {}, "/input/query"),
        ("search", {"query": " "}, "/input/query"),
        ("search", {"query": "x", "top_k": 0}, "/input/top_k"),
        ("search", {"query": "x", "top_k": 101}, "/input/top_k"),
        ("search", {"query": "x", "top_k": "5"}, "/input/top_k"),
        ("search", {"query": "x", "mode": "fuzzy"}, "/input/mode"),
        ("search", {"query": "x", "filter": {"objectID": "a"}}, "/input/filter/objectID"),
        ("search", {"query": "x", "filter": {"objectId": []}}, "/input/filter/objectId"),
        ("search", {"query": "x", "filter": {"objectId": ["a", ""]}}, "/input/filter/objectId/1"),
        ("search", {"query": "x", "filter": {"objectId": ["a"] * 100_001}}, "/input/filter/objectId"),
        ("search", {"query": "x", "filter": {"parent": 5}}, "/input/filter/parent"),
        ("search", {"query": "x", "filter": "a"}, "/input/filter"),
        ("search", {"query": "x", "filter": {"prefix": ["/a", ""]}}, "/input/filter/prefix/1"),
        ("search", {"query": "x", "filter": {"parent": ["/"] * 101}}, "/input/filter/parent"),
        *(
            ("search", {"query": "x", "filter": {"metadata": metadata}}, f"/input/filter/metadata{path}")
            for metadata, path in (
                ("a", ""),
                ({str(n): n for n in range(33)}, ""),
                ({"objectId": "a"}, "/objectId"),
                ({"k": []}, "/k"),
                ({"k": ["a"] * 1001}, "/k"),
                ({"k": ["a", None]}, "/k/1"),
                ({"k": ["a", {"b": 1}]}, "/k/1"),
                ({"k": "nul \0"}, "/k"),
                ({"k": {}}, "/k"),
                ({"k": {"gte": 1, "ge": 2}}, "/k"),
                ({"k": {"gte": "a"}}, "/k/gte"),
                ({"k": {"lt": True}}, "/k/lt"),
                ({"k": {"lt": 10**400}}, "/k/lt"),
            )
        ),
        ("search", {"query": "x", "embedding": []}, "/input/embedding"),
        ("search", {"embedding": [1.0], "mode": "hybrid"}, "/input/query"),
        ("search", {"embedding": [1.0], "mode": "keyword"}, "/input/query"),
        ("upsert", {"documents": []}, "/input/documents"),
        ("upsert", {}, "/input/documents"),
        ("delete", {}, "/input"),
        ("delete", {"everything": False}, "/input"),
        ("delete", {"everything": True, "parent": "/"}, "/input/everything"),
        ("delete", {"object_ids": []}, "/input/object_ids"),
        ("delete", {"object_ids": ["a"], "prefix": "/"}, "/input/prefix"),
        ("delete", {"prefix": ""}, "/input/prefix"),
        ("delete", {"parent": ""}, "/input/parent"),
        ("list", {"offset": -1}, "/input/offset"),
        ("list", {"limit": 0}, "/input/limit"),
        ("list", {"limit": 10_001}, "/input/limit"),
        ("list", {"offset": 1.5}, "/input/offset"),
        *(("list", {"cursor": cursor}, "/input/cursor") for cursor in ("", "x", "ü", "MA==", "WyJhIiwgImJcdTAwMDAiXQ==")),
        *(
            ("get", {"object_id": "a", "cursor": cursor}, "/input/cursor")
            for cursor in ("", "LTE=", "WyIvIiwgImEiXQ==", "MWUzMA==")
        ),
        ("get", {}, "/input/object_id"),
        ("get", {"object_id": "a", "limit": 1001}, "/input/limit"),
    ],
)
async def test_input_that_does_not_fit_is_refused_where_it_is_wrong(
    client: Client, tool: str, input: dict[str, Any], path: str
) -> None:
    assert await refused(client, tool, input) == path


async def test_vectors_of_another_model_are_refused_with_both_names_and_words_still_work(client: Client) -> None:
    own = [{**doc("red apples", "a"), "embedding": [1.0, 0.0], "embedding_model": "mine"}]
    assert (await client.vectors.upsert(own))["model"] == "mine"
    for tool, input in {
        "search": {"query": "apples"},
        "upsert": {"documents": [doc("embedded here", "b")]},
    }.items():
        with pytest.raises(RrextError, match='"hashing-384".*"mine"') as failure:
            await client.tool(tool=tool, input=input)
        assert failure.value.code == "embedding_model_mismatch"
        assert "empty store" in (failure.value.hint or "")
    assert (await client.vectors.search("apples", mode="keyword"))["total"] == 1
    assert (await client.vectors.search(mode="dense", embedding=[0.5, 0.5]))["results"][0]["score"] == pytest.approx(
        0.7071, abs=1e-3
    )
    with pytest.raises(ToolError, match="3 numbers"):
        await client.vectors.search(mode="dense", embedding=[1.0, 0.0, 0.0])
    assert (await client.vectors.stats())["count"] == 1


async def test_documents_of_two_models_are_refused_as_a_whole(client: Client) -> None:
    documents = [
        {**doc("one", "a"), "embedding": [1.0, 0.0], "embedding_model": "mine"},
        {**doc("two", "b"), "embedding": [1.0, 0.0], "embedding_model": "yours"},
    ]
    for pair in (documents, [documents[0], doc("embedded here", "c")]):
        with pytest.raises(RrextError) as failure:
            await client.vectors.upsert(pair)
        assert failure.value.code == "embedding_model_mismatch"
    assert (await client.vectors.stats())["count"] == 0


async def test_a_bound_embedding_node_embeds(tmp_path: Path) -> None:
    control = [{"classType": "tool", "from": "tools"}]
    components = [
        {"id": "tools", "provider": "tools", "config": {}},
        {"id": "store", "provider": "store_embedded", "config": {**CONFIG, "path": str(tmp_path / "s")}, "control": control},
        {
            "id": "embedder",
            "provider": HashingNode.provider,
            "config": {"size": 64},
            "control": [{"classType": "embedding", "from": "store"}],
        },
    ]
    async with open_pipeline({"components": components}) as client:
        await client.vectors.upsert([doc("red apples", "a"), doc("blue sky", "b")], node_id="store")
        stats = await client.vectors.stats(node_id="store")
        assert (stats["model"], stats["vector_size"]) == ("hashing-64", 64)
        found = await client.vectors.search("apples", node_id="store")
        assert found["results"][0]["metadata"]["objectId"] == "a"


async def test_the_folder_is_free_when_the_pipeline_has_ended(tmp_path: Path) -> None:
    for turn in range(2):
        async with open_node(QdrantEdgeNode, CONFIG, root=tmp_path) as client:
            await client.vectors.upsert([doc("words", f"o{turn}")])
            assert (await client.vectors.stats())["count"] == turn + 1


async def test_a_confined_store_stays_below_its_root(tmp_path: Path) -> None:
    async with open_node(QdrantEdgeNode, {**CONFIG, "path": "../outside"}, root=tmp_path / "inside") as client:
        with pytest.raises(RrextError, match="leads out of the root"):
            await client.vectors.stats()
    assert not (tmp_path / "outside").exists()


@pytest.mark.promise("vector:owner:apart")
async def test_users_and_spaces_have_contents_of_their_own_unless_a_store_is_shared(tmp_path: Path) -> None:
    contexts = [{}, {"userId": "ada"}, {"userId": "ada", "spaceId": "s"}, {"userId": "bob"}]
    for shared in (False, True):
        async with open_node(QdrantEdgeNode, {**CONFIG, "shared": shared}, root=tmp_path) as client:
            for n, context in enumerate(contexts[:3] if not shared else ()):
                await client.tool(tool="upsert", input={"documents": [doc(f"text {n}", "a")]}, context=context)
            found = [await client.tool(tool="get", input={"object_id": "a"}, context=context) for context in contexts]
        texts = [[chunk["content"] for chunk in page["chunks"]] for page in found]
        assert texts == ([["text 0"]] * 4 if shared else [["text 0"], ["text 1"], ["text 2"], []])


@pytest.mark.promise("vector:space:shared")
async def test_a_store_that_spaces_share_has_one_content_for_all_users_of_a_space_and_deletes_all_of_a_caller(
    tmp_path: Path,
) -> None:
    ada, bob, alone = ({"userId": user, **space} for user, space in (("ada", SPACE), ("bob", SPACE), ("bob", {})))

    async with open_node(QdrantEdgeNode, {**CONFIG, "shared": "space"}, root=tmp_path) as client:

        async def texts(*contexts: dict[str, Any]) -> list[list[str]]:
            pages = [await client.tool(tool="get", input={"object_id": "a"}, context=context) for context in contexts]
            return [[chunk["content"] for chunk in page["chunks"]] for page in pages]

        for text, context in (("nobody's", {}), ("the space's", ada), ("Bob's", alone)):
            await client.tool(tool="upsert", input={"documents": [doc(text, "a")]}, context=context)
        assert await texts({}, ada, bob, alone) == [["nobody's"], ["the space's"], ["the space's"], ["Bob's"]]
        deleted = await client.tool(tool="delete", input={"everything": True}, context=bob)
        assert (deleted["deleted_count"], deleted["objects"], deleted["missing"]) == (1, 1, [])
        assert await texts({}, ada, bob, alone) == [["nobody's"], [], [], ["Bob's"]]


async def test_a_client_deletes_everything_by_name(client: Client) -> None:
    await client.vectors.upsert([doc("one", "a"), doc("two", "b", parent="/x")])
    assert (await client.vectors.delete(everything=True))["objects"] == 2
    assert (await client.vectors.stats())["count"] == 0
