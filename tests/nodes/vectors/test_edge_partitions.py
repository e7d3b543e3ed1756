"""Each owner has a partition of an embedded store: nothing of others is in its statistics, candidates, files and damages."""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import qdrant_edge as qe
from edge_process import edge_store
from edge_steps import ADA
from vector_contract import OWNERS, SIZE, SPACE, call, chunk, everything, found, put

from rrext.errors import ToolError
from rrext.nodes.embeddings.embedder import hashed
from rrext.nodes.vectors.edge import partitions
from rrext.nodes.vectors.edge import store as edge_module
from rrext.nodes.vectors.edge.store import EdgeStore
from rrext.nodes.vectors.store import Chunk, Hit, Match, Mode, Scope, Search, VectorSpace, owner_of

pytestmark = pytest.mark.usefixtures("forked_children")

MODES: tuple[Mode, ...] = ("dense", "keyword", "hybrid")


def of(owner: str, object_id: str, content: str = "some words", **extra: Any) -> Chunk:
    return Chunk(object_id, 0, content, "node", "/", extra, owner)


def partitions_of(store: Any) -> list[str]:
    """The owners whose partitions are open."""
    assert isinstance(store, EdgeStore)
    return [owner for owner, one in store._partitions._kept.items() if not one.turns.is_closed]


@pytest.mark.promise("vector:owner:partition")
def test_a_million_words_of_another_owner_change_no_score_no_order_and_no_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, dice = edge_store(tmp_path), random.Random(7)
    vocabulary = [f"word{n}" for n in range(200)]
    mine = [of(ADA, f"o{n}", " ".join(dice.choices(vocabulary, k=12)), n=n) for n in range(60)]
    put(store, *mine)
    compared: list[int] = []
    searched = edge_module.found

    def counting(shard: qe.EdgeShard, search: Search, language: str) -> list[Hit]:
        compared.append(shard.count(qe.CountRequest(exact=True)))
        return searched(shard, search, language)

    monkeypatch.setattr(edge_module, "found", counting)

    def outcome() -> tuple[list[list[Hit]], list[str]]:
        """What searches find, and which functions of Qdrant they call for it."""
        steps: list[str] = []

        def count(frame: Any, event: str, function: Any) -> None:
            if event == "c_call" and isinstance(getattr(function, "__self__", None), qe.EdgeShard):
                steps.append(function.__name__)

        scopes = (Scope(owner=ADA), Scope(owner=ADA, metadata=(Match("n", gte=20),)))
        searches = [
            Search(mode, 10, text, hashed(text, SIZE), scope)
            for mode in MODES
            for text in ("word1 word2", "word3", "word150 nothing")
            for scope in scopes
        ]
        for one in searches:  # numbers get their index, and words their forms
            store.search(one, call())
        sys.setprofile(count)
        try:
            return [store.search(one, call()) for one in searches], steps
        finally:
            sys.setprofile(None)

    before = outcome()
    assert len(before[1]) > 2 * len(before[0])
    texts = (" ".join(dice.choices(vocabulary, k=5000)) for _ in range(200))
    put(store, *(of(OWNERS[2], f"o{n}", text, n=n) for n, text in enumerate(texts)))
    assert outcome() == before
    assert set(compared) == {len(mine)}
    store.close()


@pytest.mark.promise("vector:owner:partition")
def test_an_owner_takes_vectors_of_a_model_of_its_own(tmp_path: Path) -> None:
    store, other = edge_store(tmp_path), VectorSpace("other", 5)
    put(store, chunk("a"))
    put(store, of(ADA, "a"), space=other)
    assert (store.space(call()), store.space(call(), ADA), store.space(call(), OWNERS[2])) == (SPACE, other, None)
    store.close()


@pytest.mark.promise("vector:owner:partition")
def test_partitions_that_were_not_used_for_long_are_closed_and_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "OPEN_PARTITIONS", 2)
    store, owners = edge_store(tmp_path, wait=0), [owner_of(f"user {n}", None) for n in range(5)]
    for turn in range(2):
        for owner in owners:
            put(store, of(owner, f"o{turn}", owner))
            assert len(partitions_of(store)) <= 2
    assert partitions_of(store) == owners[-2:]
    assert store.get("o0", 0, 9, call(), owner_of("nobody known", None)).chunks == []
    assert partitions_of(store) == owners[-2:]
    found(store, "words", scope=Scope(owner=owners[3]))
    found(store, "words", scope=Scope(owner=owners[0]))
    assert partitions_of(store) == [owners[3], owners[0]]
    assert [store.stats(call(), owner).chunks for owner in owners] == [2] * 5
    store.close()


@pytest.mark.promise("vector:owner:partition")
@pytest.mark.promise("vector:damage:left-alone")
def test_a_damaged_partition_is_that_of_its_owner_alone(tmp_path: Path) -> None:
    store = edge_store(tmp_path)
    put(store, chunk("a"), of(ADA, "a"), of(OWNERS[2], "a"))
    store.close()
    (tmp_path / "owners" / ADA / "data" / "store.json").unlink()
    store = edge_store(tmp_path)
    uses: tuple[Callable[[], object], ...] = (lambda: store.get("a", 0, 9, call(), ADA), lambda: put(store, of(ADA, "b")))
    for use in uses:
        with pytest.raises(ToolError) as failure:
            use()
        assert failure.value.code == "store_corrupt"
    assert len(everything(store, "a")) == store.stats(call(), OWNERS[2]).chunks == 1
    store.close()
    shutil.rmtree(tmp_path / "data")
    store = edge_store(tmp_path)
    assert (everything(store, "a"), store.stats(call(), OWNERS[2]).chunks) == ([], 1)
    put(store, chunk("b"))
    assert (len(everything(store, "b")), store.stats(call(), OWNERS[2]).chunks) == (1, 1)
    store.close()


@pytest.mark.promise("vector:damage:left-alone")
def test_no_partition_is_made_in_a_folder_with_something_else(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    store = edge_store(tmp_path)
    for use in (lambda: put(store, of(ADA, "a")), lambda: store.stats(call(), ADA)):
        with pytest.raises(ToolError) as failure:
            use()
        assert failure.value.code == "not_a_store"
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
