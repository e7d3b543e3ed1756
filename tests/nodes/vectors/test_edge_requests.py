"""A request of an embedded store is done as a whole or not at all, however its process or its server ends."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import hypothesis
import msgspec
import pytest
from edge_calls import children_of, wait_until
from edge_process import edge_store, writer
from edge_steps import ADA, NEW, OLD, OTHER, put_version
from vector_contract import SPACE, call, chunk, everything, found, paths

from rrext.nodes.vectors.edge.folder import StoreFolder
from rrext.nodes.vectors.edge.messages import Journal, StoreChange, pieces_of
from rrext.nodes.vectors.store import NOBODYS, Chunk, Scope, Search

pytestmark = pytest.mark.timeout(240)  # dozens of processes, one after the other

TESTS = Path(__file__).parent
IS_THOROUGH = hypothesis.settings().max_examples > 50
STATES: dict[str, tuple[list[Chunk], list[Chunk], int]] = {
    "replace": (OLD, NEW, 1 if IS_THOROUGH else 3),
    "delete": (OLD, [], 1),
    "first": ([], NEW, 3 if IS_THOROUGH else 9),
    "other model": ([], NEW, 17 if IS_THOROUGH else 25),
}
"""Content before the request, content after it, and the steps at which the test kills: a new store has hundreds of files."""


def killed_at_steps(folder: Path, request_name: str, stride: int) -> int:
    """How many folders there are now, in each of which a process was killed at another step; in the last one it was not."""
    done = subprocess.run(
        [sys.executable, "edge_steps.py", str(folder), request_name, str(stride)],
        cwd=TESTS, env={"PYTHONPATH": f"{TESTS}:{TESTS.parents[1]}"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(done.stdout)


@pytest.mark.parametrize("request_name", STATES)
@pytest.mark.promise("vector:request:whole")
def test_a_request_that_is_killed_at_any_step_is_done_or_was_never_begun(request_name: str, tmp_path: Path) -> None:
    before, after, stride = STATES[request_name]
    steps = killed_at_steps(tmp_path, request_name, stride)
    assert steps > 5
    seen = []
    for step in range(steps):
        store = edge_store(tmp_path / str(step))
        kept = everything(store, "a")
        assert kept in (before, after), f"{len(kept)} chunks at step {step}"
        seen.append(kept == after)
        assert store.stats(call()).chunks == len(kept) == sum(count for _, count in paths(store).values())
        assert len(set(found(store, "old new", "keyword", top_k=1000))) == bool(kept)
        space = OTHER if request_name == "other model" else SPACE
        assert store.space(call()) == (space if kept else None)
        put_version(store, [chunk("a", 1, "last")], space)
        assert [one.content for one in everything(store, "a")] == ["last"]
        store.close()
    assert sorted(seen) == seen, "once it is done, it stays done"
    assert (seen[0], seen[-1]) == (False, True)


@pytest.mark.promise("vector:owner:partition")
def test_owners_who_were_together_are_brought_apart_also_if_that_is_killed_at_any_step(tmp_path: Path) -> None:
    hers = [msgspec.structs.replace(one, owner=ADA) for one in OLD]
    steps = killed_at_steps(tmp_path, "apart", 3 if IS_THOROUGH else 13)
    assert steps > 5
    for step in range(steps):
        store = edge_store(tmp_path / str(step))
        for owner, chunks in ((ADA, hers), (NOBODYS, OLD)) if step % 2 else ((NOBODYS, OLD), (ADA, hers)):
            assert store.get("a", 0, 1000, call(), owner).chunks == chunks, step
            assert store.stats(call(), owner).chunks == store.stats(call(), owner).objects * len(OLD) == len(OLD)
            hits = store.search(Search("keyword", 100, "old", None, Scope(owner=owner, metadata=())), call())
            assert {hit.chunk.owner for hit in hits} == {owner}
        store.close()
        shards = [StoreFolder(str(tmp_path / str(step)), ""), StoreFolder(str(tmp_path / str(step) / "owners" / ADA), "")]
        assert [shard.manifest().chunks for shard in shards] == [len(OLD)] * 2


@pytest.mark.parametrize("victim", ["server", "engine"])
@pytest.mark.promise("vector:request:whole")
def test_a_killed_server_or_engine_leaves_each_version_of_an_object_whole(victim: str, tmp_path: Path) -> None:
    dice = random.Random(victim)
    for _ in range(4):
        answered = -1
        with writer(tmp_path / "store", "process_store", "version_on") as (process, lines):
            for _ in range(dice.randrange(1, 8)):
                answered = int(lines.readline())
            killed = process.pid if victim == "server" else children_of(process.pid)[0]
            for _ in range(dice.randrange(20_000)):
                pass  # some moment of the next request
            os.kill(killed, signal.SIGKILL)
            before = answered
            for line in lines:
                answered = int(line) if line.endswith("\n") else answered
                if answered > before + 2:  # it was between two requests: there is another engine now
                    process.kill()
        store = edge_store(tmp_path / "store")
        kept = everything(store, "a")
        version = int(kept[0].content.split()[1])
        assert version in (answered, answered + 1)
        assert len(kept) == 150 - version % 3 * 40
        assert {one.content.split()[1] for one in kept} == {str(version)}
        assert everything(store, "kept") == [chunk("kept")]
        store.close()


def test_a_journal_that_is_cut_anywhere_was_never_begun(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    assert journal.read() is None
    chunks = [chunk("a", n, "wörds \0") for n in range(70)]
    change = StoreChange(list(pieces_of(chunks, [[0.5, n] for n in range(70)])), [])
    journal.write(change)
    assert journal.read() == change
    whole = (tmp_path / "journal").read_bytes()
    for length in [*range(60), len(whole) // 2, len(whole) - 1]:
        (tmp_path / "journal").write_bytes(whole[:length])
        assert journal.read() is None
    for place in (0, 9, 25, len(whole) - 1):
        (tmp_path / "journal").write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert journal.read() is None
    journal.clear()
    journal.clear()
    wait_until(lambda: not (tmp_path / "journal").exists())
