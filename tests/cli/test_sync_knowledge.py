"""`rrext send --sync` into a catalog and a vector store at once: after kills both hold what a fresh sync gives them."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from commands import Done, call, component, pipeline, spawned


@pytest.fixture
def tmp_path(memory_path: Path) -> Path:
    """Stores are in memory."""
    return memory_path


DOCUMENTS = """
select object, source.name, folder.path, document.name, document.path, modified, characters, digest, signature
from document join folder on folder.number = document.folder join source on source.number = folder.source
"""


def library(folder: Path) -> str:
    """A pipeline whose files go to a catalog, and through `split` to a vector store."""
    folder.mkdir()
    known = component("k", "knowledge", "text:parse", "table:parse", path="catalog")
    store = component("store", "store_qdrant_edge", "documents:split", path="store", min_free_bytes=0, shared="space")
    store["control"] = [{"classType": "store", "from": "k"}]
    return pipeline(
        folder,
        component("w", "webhook"),
        component("parse", "parse", "tags:w"),
        component("split", "split", "text:parse", "table:parse"),
        known,
        store,
    )


def counts(done: Done) -> dict[str, int]:
    return {word: count for word, count in done.lines[-1]["summary"].items() if count and word != "chunks"}


def held(path: str) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
    """The documents of the catalog, and the objects of the store; both have the same."""
    documents = _documents(Path(path).parent)
    listed = json.loads(call("tool", path, "list", "limit=1000", "--node", "store").out)["objects"]
    chunks = {each["objectId"]: (each["parent"], each["chunks"]) for each in listed}
    asked = json.dumps({"object_ids": [*chunks]})
    catalog, store = (
        json.loads(call("tool", path, "versions", "--node", node, "--input", asked).out)["versions"] for node in ("k", "store")
    )
    assert {name: each["signature"] for name, each in catalog.items()} == {
        name: each["signature"] for name, each in store.items()
    }
    assert {each[0] for each in documents} == set(chunks)
    return documents, chunks


def _documents(folder: Path) -> list[tuple[Any, ...]]:
    (catalog,) = folder.glob("catalog/*/catalog.sqlite")
    with closing(sqlite3.connect(catalog)) as rows:
        return sorted(rows.execute(DOCUMENTS))


def kill_after(lines: int, path: str, docs: Path) -> None:
    with spawned("send", "--sync", path, str(docs)) as process:
        assert process.stdout is not None
        for _ in range(lines):
            process.stdout.readline()  # or the end, if there is less to do
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_a_moved_file_keeps_its_document_and_one_from_another_folder_gets_its_source(tmp_path: Path) -> None:
    path = library(tmp_path / "a")
    for name in ("docs", "more"):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / f"{name}.md").write_text(f"Words of {name}. ")
    folders = [str(tmp_path / name) for name in ("docs", "more")]
    assert counts(call("send", "--sync", path, *folders)) == {"new": 2}
    before = ids(path)
    (tmp_path / "docs" / "docs.md").rename(tmp_path / "docs" / "sub" / "other.md")
    (tmp_path / "more" / "more.md").rename(tmp_path / "docs" / "more.md")
    done = call("send", "--sync", "--max-delete", "1", path, *folders)
    assert counts(done) == {"moved": 1, "new": 1, "deleted": 1}
    assert set(ids(path)) == {"docs/sub/other.md", "docs/more.md"}
    assert ids(path)["docs/sub/other.md"] == before["docs/docs.md"]
    assert {each[1] for each in held(path)[0]} == {"docs"}


def ids(path: str) -> dict[str, str]:
    """Path → id of each document of the catalog."""
    (catalog,) = Path(path).parent.glob("catalog/*/catalog.sqlite")
    with closing(sqlite3.connect(catalog)) as rows:
        return dict(rows.execute("select path, id from document"))


@pytest.mark.promise("sync:kill:goes-on")
@pytest.mark.parametrize("seed", [1, 2])
def test_after_kills_catalog_and_vectors_are_those_of_a_fresh_sync(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    docs, path = tmp_path / "docs", library(tmp_path / "a")
    (docs / "sub").mkdir(parents=True)
    for number in range(24):
        (docs / f"{number}.md").write_text(f"# Title {number}\n\n" + f"Version one of {number}. " * 100)
    kill_after(chance.randrange(1, 20), path, docs)
    for number in range(24):
        file = docs / f"{number}.md"
        if number % 4 == 0:
            file.write_text(f"Version two of {number}. " * chance.randrange(1, 300))
        elif number % 4 == 1:
            file.rename(docs / "sub" / f"{number}.md")
        elif number % 8 == 2:
            file.unlink()
    for _ in range(2):
        kill_after(chance.randrange(1, 12), path, docs)
    done = call("send", "--sync", path, str(docs))
    assert done.code == 0, done
    assert counts(call("send", "--sync", path, str(docs))) == {"unchanged": 21}
    fresh = library(tmp_path / "b")
    assert call("send", "--sync", fresh, str(docs)).code == 0
    (mine, chunks), (expected, expected_chunks) = held(path), held(fresh)
    assert (set(mine) ^ set(expected), set(chunks.items()) ^ set(expected_chunks.items())) == (set(), set())
