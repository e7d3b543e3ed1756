"""Documents come in by a lane, questions go out as documents, answers and questions with what was found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from vector_contract import cosine

from rrext.errors import RrextError
from rrext.nodes.base.lanes import new_question
from rrext.nodes.embeddings.embedder import hashed
from rrext.nodes.vectors.edge.node import QdrantEdgeNode
from rrext.testing import call_tool, run_node

pytestmark = pytest.mark.usefixtures("forked_children")

Found = dict[str, list[Any]]


def document(text: str, object_id: str, chunk_id: int = 0, **metadata: Any) -> dict[str, Any]:
    metadata = {"objectId": object_id, "chunkId": chunk_id, **metadata}
    return {"type": "Document", "page_content": text, "metadata": metadata}


class Store:
    """A node with a folder, used again and again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config = {"path": "store", "min_free_bytes": 0}

    def send(self, *writes: list[dict[str, Any]]) -> None:
        assert run_node(QdrantEdgeNode, "documents", *writes, config=self.config, root=self.root) == {}

    def ask(self, text: str, kind: str = "question", expect_json: bool = False, **filter: Any) -> Found:
        question = new_question(text, type=kind, expectJson=expect_json)
        question["filter"].update(filter)
        return self.put(question)

    def put(self, question: dict[str, Any]) -> Found:
        return run_node(QdrantEdgeNode, "questions", question, config=self.config, root=self.root)

    def tool(self, name: str, **input: Any) -> Any:
        return call_tool(QdrantEdgeNode, name, input, config=self.config, root=self.root)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def objects(found: Found) -> list[str]:
    return [one["metadata"]["objectId"] for one in found["documents"][0]]


@pytest.mark.promise("vector:filter:metadata")
def test_a_question_is_narrowed_by_metadata_as_a_search_is(store: Store) -> None:
    store.send(
        [document("red fish", name, 0, parent=f"/{name}", year=year) for name, year in zip("abc", range(3), strict=True)]
    )
    assert sorted(objects(store.ask("fish", metadata={"year": {"gte": 1}}))) == ["b", "c"]
    assert objects(store.ask("fish", metadata={"year": [1, 2]}, prefix="/c")) == ["c"]
    assert objects(store.ask("fish", "keyword", metadata={"year": 0})) == ["a"]
    with pytest.raises(RrextError, match="names the objects to read"):
        store.ask("fish", "get", objectIds=["a"], metadata={"year": 0})


def test_documents_are_stored_with_their_metadata_and_found_by_a_question(store: Store) -> None:
    store.send([document("red apples", "a", 0, parent="/fruit", page=4)], [document("blue whales", "b")])
    found = store.ask("apples?", limit=1)
    hit = {
        "type": "Document",
        "page_content": "red apples",
        "score": pytest.approx((1 + cosine(hashed("apples?"), hashed("red apples"))) / 2, abs=1e-4),
        "metadata": {"objectId": "a", "chunkId": 0, "nodeId": "vectordb_tool", "parent": "/fruit", "page": 4},
    }
    assert found["documents"] == [[hit]]
    assert found["answers"] == [{"answer": "red apples", "expectJson": False}]
    assert found["questions"][0]["documents"] == [hit]
    assert found["questions"][0]["questions"][0]["text"] == "apples?"
    assert store.ask("apples?", expect_json=True, limit=1)["answers"] == [{"answer": [hit], "expectJson": True}]


def test_an_object_that_is_sent_again_loses_the_chunks_that_it_has_no_more(store: Store) -> None:
    store.send([document(f"part {n}", "a", n) for n in range(4)] + [document("other", "b")])
    store.send([document("new part 0", "a", 0)], [document("new part 1", "a", 1)])
    assert [chunk["content"] for chunk in store.tool("get", object_id="a")["chunks"]] == ["new part 0", "new part 1"]
    assert store.tool("stats")["count"] == 3


def test_an_object_that_fails_on_its_way_loses_nothing(store: Store) -> None:
    store.send([document(f"part {n}", "a", n) for n in range(4)])
    with pytest.raises(RrextError, match="page_content"):
        store.send([document("new part 0", "a", 0)], [document(" ", "a", 1)])
    assert store.tool("get", object_id="a")["total"] == 4


def test_a_document_that_is_deleted_takes_its_object_with_it(store: Store) -> None:
    store.send([document("one", "a", 0), document("two", "a", 1), document("three", "b")])
    store.send([document("", "a", isDeleted=True)])
    assert store.tool("list")["counts"] == {"/": 1}


def test_documents_that_bring_their_vectors_are_stored_with_them(store: Store) -> None:
    vector = hashed("something else", 16)
    store.send([{**document("text", "a"), "embedding": vector, "embedding_model": "hashing-16"}])
    stats = store.tool("stats")
    assert (stats["model"], stats["vector_size"]) == ("hashing-16", 16)
    question = new_question("something else", type="semantic")
    question["questions"][0].update(embedding=vector, embedding_model="hashing-16")
    assert store.put(question)["documents"][0][0]["score"] == pytest.approx(1, abs=1e-5)


def test_the_type_of_a_question_says_how_it_is_searched(store: Store) -> None:
    store.send([document("green apples", "a", 0), document("greenish apple", "a", 1), document("whale", "b", 0)])
    assert len(store.ask("green", "keyword")["documents"][0]) == 1
    assert len(store.ask("green", "semantic")["documents"][0]) == 3
    assert len(store.ask("green", "prompt")["documents"][0]) == 3
    read = store.ask("", "get", objectIds=["b", "a"], offset=1, limit=1)["documents"][0]
    assert [(one["page_content"], one["score"]) for one in read] == [("green apples", None)]
    assert objects(store.ask("", "get", objectIds=["b", "a", "nobody"])) == ["b", "a", "a"]


def test_a_question_keeps_to_its_filter(store: Store) -> None:
    texts = ("same words", "same words twice", "same words in a longer text", "words")
    store.send([document(text, name, parent=f"/{name}", nodeId=f"n{name}") for name, text in zip("abcd", texts, strict=True)])
    assert objects(store.ask("same words", objectIds=["b"])) == ["b"]
    assert objects(store.ask("same words", parent="/c")) == ["c"]
    assert objects(store.ask("same words", nodeId="nd")) == ["d"]
    pages = [objects(store.ask("same words", "semantic", offset=offset, limit=3)) for offset in (0, 3)]
    assert [len(page) for page in pages] == [3, 1]
    assert pages[0] + pages[1] == objects(store.ask("same words", "semantic"))


def test_nothing_stored_is_an_empty_answer(store: Store) -> None:
    assert store.ask("anything")["answers"] == [{"answer": "", "expectJson": False}]


@pytest.mark.parametrize(
    ("text", "filter", "path"),
    [
        ("", {}, "/questions"),
        ("x", {"limit": 0}, "/filter/limit"),
        ("x", {"limit": 1001}, "/filter/limit"),
        ("x", {"offset": -1}, "/filter/offset"),
        ("x", {"objectIds": []}, "/filter/objectIds"),
        ("x", {"permissions": ["me"]}, "/filter/permissions"),
        ("x", {"isTable": False}, "/filter/isTable"),
    ],
)
def test_a_question_that_cannot_be_kept_to_fails(store: Store, text: str, filter: dict[str, Any], path: str) -> None:
    store.send([document("words", "a")])
    with pytest.raises(RrextError, match=path):
        store.ask(text, **filter)


def test_a_document_without_an_object_is_refused(store: Store) -> None:
    with pytest.raises(RrextError, match="/documents/0/metadata/objectId"):
        store.send([{"page_content": "text", "metadata": {}}])
