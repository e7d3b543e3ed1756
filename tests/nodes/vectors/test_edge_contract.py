"""The embedded store keeps to what every vector store keeps to, and orders the hits of a hybrid search alike each time."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, get_args

import pytest
from edge_process import edge_store
from qdrant_edge import SnowballLanguage
from vector_contract import OWNERS, SIZE, SPACE, NewStore, StoreContract, call, chunk, found, put

from rrext.errors import ToolError
from rrext.nodes.embeddings.embedder import hashed
from rrext.nodes.vectors.edge import open_shard
from rrext.nodes.vectors.edge.node import Language
from rrext.nodes.vectors.store import Chunk, Scope, Search

pytestmark = pytest.mark.usefixtures("forked_children")


class TestEdgeContract(StoreContract):
    """`new_store` comes from conftest.py."""


def test_a_shorter_hybrid_search_finds_the_first_hits_of_a_longer_one(new_store: NewStore) -> None:
    store, dice = new_store(), random.Random(5)
    texts = [" ".join(dice.choices(("red", "green", "blue", "grey"), k=dice.randrange(1, 4))) for _ in range(30)]
    put(store, *(chunk(f"o{n}", 0, text) for n, text in enumerate([*texts, *["the same"] * 20])))  # all of them are candidates
    for text in ("red", "grey green", "the same", "same blue", "sam", "?!"):
        everything = store.search(Search("hybrid", 50, text, hashed(text, SIZE)), call())
        assert len(everything) == 50
        for top_k in range(1, 50):
            assert store.search(Search("hybrid", top_k, text, hashed(text, SIZE)), call()) == everything[:top_k], (text, top_k)


def test_what_an_older_version_stored_with_accents_is_found_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = edge_store(tmp_path / "store")
    with monkeypatch.context() as older:
        older.setattr(open_shard, "words_of", str.casefold)
        put(store, chunk("old", 0, "a na\u00efve idea"))
    put(store, chunk("new", 0, "a naive one"))
    assert found(store, "na\u00efve", "keyword") == ["new", "old"]
    assert set(found(store, "Na\u00efve idea", "hybrid")) == {"new", "old"}
    store.close()


def test_a_store_of_a_language_finds_other_forms_of_a_word_and_keeps_its_language(tmp_path: Path) -> None:
    store = edge_store(tmp_path / "store", language="english")
    texts = {"a": "He was running, and the engines stopped", "b": "a run", "c": "the machines"}
    put(store, *(chunk(name, 0, text) for name, text in texts.items()))
    store.close()
    store = edge_store(tmp_path / "store")
    assert found(store, "stopping ENGINE runs", "keyword")[0] == "a"
    assert found(store, "engine", "keyword") == ["a"]
    scores = {hit.chunk.object_id: hit.score for hit in store.search(Search("hybrid", 3, "stops runs", [0.0] * SIZE), call())}
    assert scores["a"] == pytest.approx(0.5)
    assert 0 < scores["b"] < 0.5
    with pytest.raises(ToolError) as failure:
        put(store, chunk("d"))
    assert failure.value.code == "language_mismatch"
    store.delete(Scope(prefix="/"), call())
    put(store, chunk("d", 0, "engines"))
    assert found(store, "engine", "keyword") == []
    store.close()


def test_the_languages_are_those_of_the_engine() -> None:
    known = {name.lower() for name in vars(SnowballLanguage) if name.istitle()}
    assert {*get_args(Language)} == {"simple", *known}


@pytest.mark.promise("vector:owner:apart")
def test_a_search_finds_nothing_of_an_owner_who_stores_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rrext.nodes.vectors.edge import store as module

    store, ada, searched = edge_store(tmp_path / "store"), OWNERS[1], module.found
    put(store, chunk("mine"))

    def stores_meanwhile(*given: Any) -> Any:
        monkeypatch.setattr(module, "found", searched)
        other = Chunk("other", 0, "some words", "node", "/", {}, ada)
        store.upsert([other], [hashed("some words", SIZE)], SPACE, call(), owner=ada)
        return searched(*given)

    for mode in ("dense", "keyword", "hybrid"):
        monkeypatch.setattr(module, "found", stores_meanwhile)
        assert found(store, "some words", mode) == ["mine"]
        store.delete(Scope(prefix="/", owner=ada), call())
        store.close()
        store = edge_store(tmp_path / "store")
    store.close()
