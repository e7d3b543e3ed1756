"""The embedded store keeps to what every vector store keeps to, and orders the hits of a hybrid search alike each time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from edge_process import edge_store
from vector_contract import SIZE, NewStore, StoreContract, call, chunk, found, put

from rrext.nodes.embeddings.hashing import hashed
from rrext.nodes.vectors.edge import requests
from rrext.nodes.vectors.store import Search

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
        older.setattr(requests, "words_of", str.casefold)
        put(store, chunk("old", 0, "a na\u00efve idea"))
    put(store, chunk("new", 0, "a naive one"))
    assert found(store, "na\u00efve", "keyword") == ["new", "old"]
    assert set(found(store, "Na\u00efve idea", "hybrid")) == {"new", "old"}
    store.close()
