"""`knowledge` in a pipeline: what is sent is found, read, replaced and deleted, by those who may."""

from __future__ import annotations

import asyncio
import glob
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from knowledge_world import PIPELINE, KnowledgePipeline, knowledge_pipeline, user

from rrext.errors import InvalidArguments, InvalidPipeline, RrextError
from rrext.nodes.knowledge.partition import Partition

pytest.importorskip("re2", reason="the extra `knowledge` is not installed")
pytest.importorskip("qdrant_edge", reason="the extra `vector` is not installed")
pytest.importorskip("kreuzberg", reason="the extra `docs` is not installed")

pytestmark = pytest.mark.anyio

FOX = "The quick brown fox jumps over the lazy dog.\n"
WHALE = (
    "# Whales\n\nThe whale swims in the deep blue sea.\n\n"
    + "It eats krill all day long. " * 60
    + "\n\nIts song carries far.\n"
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def filled(pipeline: KnowledgePipeline, caller: Any, *names: str) -> None:
    for name in names:
        await pipeline.send(name, f"{name} tells of whales and foxes.\n{WHALE}", caller=caller)


async def test_who_has_nothing_gets_no_catalog_by_asking(tmp_path: Path) -> None:
    async with knowledge_pipeline(tmp_path) as pipeline:
        assert (await pipeline.tool("versions", object_ids=["a"]))["versions"] == {}
        gone = await pipeline.tool("delete", object_ids=["a"])
        assert (gone["deleted_count"], gone["missing"]) == (0, ["a"])
        assert (await pipeline.tool("move", object_id="a", to="b"))["count"] == 0
        assert (await pipeline.tool("grep_documents", pattern="abc"))["total"]["documents"] == 0
    assert not glob.glob(f"{tmp_path}/**/catalog.sqlite", recursive=True)


async def test_an_index_is_merged_when_nothing_is_written_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rrext.nodes.knowledge.node.QUIET", 0.0)
    merged = asyncio.Event()
    loop = asyncio.get_running_loop()
    merge = Partition.merge

    def noted(partition: Partition, until: float | None) -> None:
        merge(partition, until)
        loop.call_soon_threadsafe(merged.set)

    monkeypatch.setattr(Partition, "merge", noted)
    async with knowledge_pipeline(tmp_path) as pipeline:
        for n in range(20):
            await pipeline.send(f"docs/{n}.txt", FOX)
        await asyncio.wait_for(merged.wait(), 30)


async def test_what_is_sent_is_found_as_ranges_of_its_text(tmp_path: Path) -> None:
    async with knowledge_pipeline(tmp_path) as pipeline:
        closed = await pipeline.send("docs/fox.txt", FOX)
        assert closed["stored"] == {"store_1": 1, "knowledge_1": 1}
        assert closed["metadata"]["source"] == "docs"
        await pipeline.send("docs/sea/whale.md", WHALE.encode(), "text/markdown")
        for mode in ("hybrid", "keyword", "dense"):
            found = await pipeline.tool("search_documents", query="song of the whale", mode=mode, limit=3)
            best = found["results"][0]
            assert mode == "dense" or best["path"] == "docs/sea/whale.md"
            read = await pipeline.tool(
                "read_document", documents=[best["document"]], start=best["start"], count=best["end"] - best["start"]
            )
            assert read["documents"][0]["text"] == best["text"]
        only = await pipeline.tool("search_documents", query="whale fox", filter={"folder": "docs/sea"})
        assert {hit["path"] for hit in only["results"]} == {"docs/sea/whale.md"}
        (fox,) = (await pipeline.tool("find_by_name", pattern="fox*"))["documents"]
        uri = f"rrext-document:{fox['id']}#char=1,2"
        only = await pipeline.tool("search_documents", query="whale fox", documents=[uri])
        hits = (await pipeline.tool("grep_documents", pattern="o", documents=[uri]))["hits"]
        assert {hit["document"] for hit in hits} == {fox["id"]}
        assert {hit["document"] for hit in only["results"]} == {fox["id"]}
        similar = await pipeline.tool("find_similar", document=fox["id"])
        assert [one["path"] for one in similar["documents"]] == ["docs/sea/whale.md"]
        none = await pipeline.tool("search_documents", query="whale", filter={"sources": ["other"]})
        assert none == {"results": [], "mode": "hybrid", "left_out": 0}


async def test_an_object_that_is_sent_again_is_the_same_document(tmp_path: Path) -> None:
    async with knowledge_pipeline(tmp_path) as pipeline:
        first = await pipeline.send("docs/a.txt", FOX, signature="1")
        (before,) = (await pipeline.tool("find_by_name", pattern="*"))["documents"]
        await pipeline.send("docs/a.txt", WHALE, signature="2")
        (after,) = (await pipeline.tool("find_by_name", pattern="*"))["documents"]
        assert before["id"] == after["id"]
        assert after["characters"] == len(WHALE)
        object_id = first["objectId"]
        versions = await pipeline.tool("versions", object_ids=[object_id, "none"])
        assert versions["versions"] == {object_id: {"chunks": 1, "signature": "2"}}
        moved = await pipeline.tool("move", object_id=object_id, to="other", parent="new/deep/b.txt")
        assert moved == {"success": True, "count": 1}
        info = await pipeline.tool("document_info", document=before["id"])
        assert (info["path"], info["source"], info["folder"]) == ("new/deep/b.txt", "new", "deep")
        gone = await pipeline.tool("delete", object_ids=["other", "none"])
        assert gone == {"success": True, "deleted_count": 1, "objects": 1, "missing": ["none"]}
        assert (await pipeline.tool("find_by_name", pattern="*"))["documents"] == []
        found = await pipeline.tool("search_documents", query="whale")
        assert found["results"] == [], "a passage whose document is gone is no hit"
        assert found["left_out"] > 0


async def test_sheets_and_tables_are_ranges_of_the_text(tmp_path: Path) -> None:
    async with knowledge_pipeline(tmp_path) as pipeline:
        await pipeline.send("docs/prices.csv", b"item,price\nfish,3\nkrill,1\n", "text/csv")
        (document,) = (await pipeline.tool("find_by_name", pattern="*.csv"))["documents"]
        info = await pipeline.tool("document_info", document=document["id"])
        (sheet,) = info["sheets"]
        read = await pipeline.tool(
            "read_document", documents=[document["id"]], start=sheet["start"], count=sheet["end"] - sheet["start"]
        )
        assert sheet["name"] == "prices"
        assert read["documents"][0]["text"].startswith("| item | price |")


NAVIGATION = {"list_sources", "list_folder_contents", "folder_tree"}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "versions": {"object_ids": ["x"]},
    "delete": {"object_ids": ["x"]},
    "move": {"object_id": "x", "to": "y"},
    "list_folder_contents": {"path": "docs"},
    "folder_tree": {"path": "docs"},
    "search_documents": {"query": "whale"},
    "find_by_name": {"pattern": "*"},
    "grep_documents": {"pattern": "whale"},
    "find_similar": {"document": "x"},
    "document_info": {"document": "x"},
    "read_document": {"documents": ["x"]},
    "analyze_document": {"document": "x", "question": "Why?"},
    "query_documents": {"sql": "SELECT 1"},
    "web_search": {"query": "whale"},
    "fetch_web_page": {"url": "http://127.0.0.1/"},
}
"""Input that each tool takes."""


@pytest.mark.parametrize("space", [None, "team"])
async def test_a_call_lists_what_it_may_call(tmp_path: Path, space: str | None) -> None:
    async with knowledge_pipeline(tmp_path, team=["anna"]) as pipeline:
        caller = user("anna", space)
        await filled(pipeline, caller, "docs/a.txt")
        listed = set(await pipeline.tools(caller))
        assert (listed >= NAVIGATION) == (space is not None)
        assert not listed & {"web_search", "fetch_web_page"}
        for name in (*ARGUMENTS, "list_sources"):
            try:
                await pipeline.tool(name, caller=caller, **ARGUMENTS.get(name, {}))
                refused = False
            except RrextError as error:
                refused = error.code in ("tool_not_found", "unavailable") and "llm" not in str(error.hint)
            assert refused == (name not in listed), name
        offered = set(await pipeline.tools(caller, format="openai-strict"))
        assert not offered & {"versions", "delete", "move"}, "models fill no catalog"


@pytest.mark.promise("knowledge:scope")
async def test_members_of_a_space_share_its_documents_and_nobody_else_sees_them(tmp_path: Path) -> None:
    async with knowledge_pipeline(tmp_path, team=["anna", "ben"], other=["ben"]) as pipeline:
        await filled(pipeline, user("anna", "team"), "docs/team.txt")
        await filled(pipeline, user("ben", "other"), "docs/other.txt")
        await filled(pipeline, user("anna"), "docs/annas.txt")

        async def seen(caller: Any) -> list[list[str]]:
            named = (await pipeline.tool("find_by_name", pattern="*", caller=caller))["documents"]
            found = (await pipeline.tool("search_documents", query="whales and foxes", limit=50, caller=caller))["results"]
            return [sorted(one["path"] for one in named), sorted({hit["path"] for hit in found})]

        assert await seen(user("ben", "team")) == [["docs/team.txt"]] * 2
        assert await seen(user("anna")) == [["docs/annas.txt", "docs/team.txt"]] * 2
        assert await seen(user("ben")) == [["docs/other.txt", "docs/team.txt"]] * 2
        assert await seen(user("carl")) == [[], []]
        with pytest.raises(RrextError) as caught:
            await seen(user("carl", "team"))
        assert caught.value.code == "space_not_found"
        with pytest.raises(RrextError) as caught:
            await filled(pipeline, user("carl", "team"), "docs/x.txt")
        assert caught.value.code == "space_not_found"


async def test_a_store_that_does_not_keep_spaces_apart_is_refused(tmp_path: Path) -> None:
    for shared in (False, True):
        pipeline = deepcopy(PIPELINE)
        pipeline["components"][3]["config"]["shared"] = shared
        with pytest.raises(InvalidPipeline, match='set its "shared" to "space"'):
            async with knowledge_pipeline(tmp_path, pipeline):
                pass


async def test_search_without_a_store_says_what_to_bind(tmp_path: Path) -> None:
    pipeline = deepcopy(PIPELINE)
    pipeline["components"][3]["control"] = []
    async with knowledge_pipeline(tmp_path, pipeline) as running:
        with pytest.raises(RrextError, match="No vector store is bound") as caught:
            await running.tool("search_documents", query="whale")
        assert caught.value.code == "unavailable"
        assert "grep_documents" in str(caught.value.hint)


async def test_an_empty_file_is_a_document_without_text(tmp_path: Path) -> None:
    async with knowledge_pipeline(tmp_path) as pipeline:
        await pipeline.send("docs/empty.txt", "")
        (document,) = (await pipeline.tool("find_by_name", pattern="*"))["documents"]
        assert document["characters"] == 0
        read = await pipeline.tool("read_document", documents=[document["id"]])
        assert (read["documents"][0]["text"], read["documents"][0]["next"]) == ("", None)


async def test_metadata_of_any_client_place_a_document_where_it_is_found(tmp_path: Path) -> None:
    async with knowledge_pipeline(tmp_path, s=["anna"]) as pipeline:
        anna = user("anna", "s")
        given = {"a/b": "a", "https://example.org/feed": "https:", " c ": "c", 7: "files", "": "files"}
        for number, (source, expected) in enumerate(given.items()):
            await pipeline.send(f"{number}.txt", FOX, caller=anna, metadata={"source": source, "modified": 10**400})
            (found,) = (await pipeline.tool("find_by_name", pattern=f"{number}.txt", caller=anna))["documents"]
            folder = found["path"].rpartition("/")[0]
            listed = await pipeline.tool("list_folder_contents", path=folder, caller=anna)
            assert found in listed["documents"]
            assert found["modified"] is None
            wanted = {"filter": {"sources": [expected], "folder": folder}, "query": "fox", "caller": anna}
            hits = (await pipeline.tool("search_documents", **wanted))["results"]
            assert found["id"] in [hit["document"] for hit in hits]


async def test_a_path_that_no_store_keeps_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    """Each folder of a path is kept with its whole path: 10,000 in one name would fill 400 MB."""
    async with knowledge_pipeline(tmp_path) as pipeline:
        for name, object_id in (("a/" * 1000 + "b", "1"), ("a", "b" * 2001), ("a\0b", "1")):
            with pytest.raises(InvalidArguments) as refused:
                await pipeline.send(name, FOX, objectId=object_id)
            assert refused.value.data["errors"][0]["path"] in ("/object/name", "/object/objectId")
        sent = await pipeline.send("a.txt", FOX)
        for to, parent in (("b" * 2001, "b"), ("b", "a/" * 1000 + "b")):
            with pytest.raises(InvalidArguments):
                await pipeline.tool("move", object_id=sent["objectId"], to=to, parent=parent)
        assert len((await pipeline.tool("find_by_name", pattern="**"))["documents"]) == 1
