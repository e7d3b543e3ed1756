"""`rrext send --sync`: the stores hold what the folders hold, whatever happened before."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from commands import EXAMPLES, NODES, Done, InProcess, call, component, pipeline, spawned

from rrext.sync.folder_sync import FolderSync, SyncStores
from rrext.sync.state import SentFile, SyncState, SyncStateError
from rrext.sync.upload_files import UploadFile, find_files
from rrext.testing import open_pipeline

COUNTS = dict.fromkeys(("new", "changed", "unchanged", "deleted", "failed", "skipped", "notDeleted"), 0)


@pytest.fixture
def tmp_path(memory_path: Path) -> Path:
    """Stores are in memory."""
    return memory_path


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder of six files."""
    for number in range(5):
        path = tmp_path / "docs" / str(number % 2) / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of number {number}")
    (tmp_path / "docs" / "long.md").write_text("A sentence of some words. " * 300)
    return tmp_path / "docs"


def store_pipeline(folder: Path, path: str = "store", size: int = 1000, provider: str = "split") -> str:
    return pipeline(
        folder,
        component("w", "webhook"),
        component("split", provider, "text:w", size=size),
        component("store", "store_qdrant_edge", "documents:split", path=path, min_free_bytes=0),
    )


@pytest.fixture
def store(tmp_path: Path) -> str:
    (tmp_path / "pipes").mkdir()
    return store_pipeline(tmp_path / "pipes")


def sync(store: str, *paths: object) -> Done:
    """In a process of its own, which starts another one for the store."""
    return call("send", "--sync", store, *map(str, paths))


def counts(done: Done) -> dict[str, int]:
    """What the summary says, without what is 0."""
    return {word: count for word, count in done.lines[-1]["summary"].items() if count and word != "chunks"}


def content(store: str) -> dict[str, list[str]]:
    """Parent → the texts of its chunks, of all that is in the store."""
    return anyio.run(_content, store)


async def _content(store: str) -> dict[str, list[str]]:
    async with open_pipeline(store) as client:
        listing = await client.tool(tool="list", input={"limit": 10_000})
        stats = await client.tool(tool="stats")
        found = {}
        for parent, object_id in listing["paths"].items():
            answer = await client.tool(tool="get", input={"object_id": object_id, "limit": 1000})
            found[parent] = [chunk["content"] for chunk in answer["chunks"]]
    assert sum(map(len, found.values())) == stats["count"]
    return found


def fresh(tmp_path: Path, docs: Path) -> dict[str, list[str]]:
    """What a store has that knows nothing but what is in the folder now."""
    (tmp_path / "fresh").mkdir()
    path = store_pipeline(tmp_path / "fresh")
    assert call("send", path, str(docs)).code == 0
    return content(path)


@pytest.mark.promise("sync:store:as-folder")
def test_new_files_are_sent_changed_ones_replaced_and_gone_ones_deleted(docs: Path, store: str, tmp_path: Path) -> None:
    done = sync(store, docs)
    assert (done.code, counts(done)) == (0, {"new": 6})
    assert {line["sync"] for line in done.lines[:-1]} == {"new"}
    assert done.lines[-1]["summary"]["chunks"] == sum(line["result"]["stored"]["store"] for line in done.lines[:-1])
    (docs / "0" / "0.txt").write_text("another text")
    (docs / "long.md").write_text("short now")
    (docs / "1" / "1.txt").unlink()
    (docs / "more.txt").write_text("one more")
    done = sync(store, docs)
    assert counts(done) == {"new": 1, "changed": 2, "unchanged": 3, "deleted": 1}
    assert {line["path"]: line["sync"] for line in done.lines[:-1]} == {
        str(docs / "0" / "0.txt"): "changed",
        str(docs / "long.md"): "changed",
        str(docs / "more.txt"): "new",
        str(docs / "1" / "1.txt"): "deleted",
    }
    assert "1 new, 2 changed, 3 unchanged, 1 deleted, 0 failed; 3 chunks stored" in done.err
    assert content(store) == fresh(tmp_path, docs)


@pytest.mark.parametrize("way", [(), ("--sync",)])
def test_chunks_know_their_source_and_the_time_of_the_file(
    way: tuple[str, ...], docs: Path, tmp_path: Path, run: InProcess
) -> None:
    path = parsed_pipeline(tmp_path)
    os.utime(docs / "long.md", (1_000_000_000, 1_000_000_000.5))
    assert run("send", *way, path, docs).code == 0
    assert metadata(run, path, docs / "long.md") == {"docs", 1_000_000_000.5}
    assert run("send", *way, path, "--root-name", "library", docs / "long.md").code == 0
    assert metadata(run, path, "library/long.md") == {"library", 1_000_000_000.5}


def metadata(run: InProcess, store: str, parent: object) -> set[Any]:
    """What the chunks of a file say of its source and its time."""
    (found,) = json.loads(run("tool", store, "list", f"parent={parent}").out)["objects"]
    chunks = json.loads(run("tool", store, "get", f"object_id={found['objectId']}").out)["chunks"]
    return {value for chunk in chunks for value in (chunk["metadata"]["source"], chunk["metadata"]["modified"])}


def test_a_second_sync_sends_nothing_from_wherever_it_is_called(docs: Path, store: str, run: InProcess) -> None:
    run("send", "--sync", store, docs)
    (docs.parent / "way").symlink_to("docs", target_is_directory=True)
    for path, cwd in ((docs, None), ("docs", docs.parent), (".", docs), ("../way", docs)):
        done = run("send", "--sync", store, path, cwd=cwd)
        assert (done.code, counts(done), len(done.lines)) == (0, {"unchanged": 6}, 1)
        assert " 0 B sent" in done.err


def test_only_a_change_of_the_content_is_one(docs: Path, store: str, run: InProcess) -> None:
    run("send", "--sync", store, docs)
    for path in docs.rglob("*.txt"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    assert counts(run("send", "--sync", store, docs)) == {"unchanged": 6}
    path = docs / "0" / "0.txt"
    path.write_text(path.read_text().replace("0", "9"))  # of the same size, and of the same time
    os.utime(path, (1_000_000_000, 1_000_000_000))
    assert counts(run("send", "--sync", store, docs)) == {"changed": 1, "unchanged": 5}


def test_a_file_that_has_no_text_any_more_is_found_no_more(docs: Path, store: str, run: InProcess) -> None:
    run("send", "--sync", store, docs)
    (docs / "long.md").write_text("")
    done = run("send", "--sync", store, docs)
    assert counts(done) == {"changed": 1, "unchanged": 5}
    assert json.loads(run("tool", store, "stats").out)["objects"] == 5
    assert counts(run("send", "--sync", store, docs)) == {"unchanged": 6}
    (docs / "0" / "0.txt").write_text("")
    assert run("send", store, docs / "0" / "0.txt").value["result"]["stored"] == {"store": 0}
    assert json.loads(run("tool", store, "stats").out)["objects"] == 4


def test_a_file_that_no_node_takes_leaves_its_former_chunks(docs: Path, store: str, run: InProcess) -> None:
    path = docs / "Makefile"
    path.write_text("all: some words")
    assert run("send", store, path, "--mime", "text/plain").value["result"]["stored"] == {"store": 1}
    done = run("send", store, path)
    assert (done.code, "stored" in done.value["result"], "nothing is done with it" in done.err) == (0, False, True)
    done = run("send", "--sync", store, path)
    assert (done.code, counts(done), done.lines[0]["error"]["code"]) == (1, {"failed": 1}, "not_taken")
    assert content(store) == {str(path): ["all: some words"]}


def parsed_pipeline(folder: Path) -> str:
    return pipeline(
        folder,
        component("w", "webhook"),
        component("parse", "parse", "tags:w"),
        component("split", "split", "text:parse"),
        component("store", "store_qdrant_edge", "documents:split", path="store", min_free_bytes=0),
    )


@pytest.mark.promise("sync:store:as-folder")
def test_a_document_that_became_empty_or_a_picture_is_found_no_more_and_is_no_failure(
    docs: Path, tmp_path: Path, run: InProcess
) -> None:
    path = parsed_pipeline(tmp_path)
    (docs / "0" / "0").write_text("text without an extension")
    (docs / "1" / "page.html").write_text("<p>a page</p>")
    assert counts(run("send", "--sync", path, docs)) == {"new": 8}
    (docs / "long.md").write_bytes(b"\xef\xbb\xbf")
    (docs / "1" / "page.html").write_text("<p></p>")
    (docs / "0" / "0").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    (docs / "0" / "0.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    for expected in ({"changed": 1, "unchanged": 5, "skipped": 3}, {"unchanged": 6, "skipped": 3}):
        done = run("send", "--sync", path, docs)
        assert (done.code, counts(done)) == (0, expected), done
    assert {line["path"]: line["skipped"] for line in done.lines if "skipped" in line} == {
        str(docs / "0" / "0"): "Files of this kind cannot be read",
        str(docs / "0" / "0.png"): "Files of type image/png cannot be read",
        str(docs / "1" / "page.html"): "There is no text in it",
    }
    assert json.loads(run("tool", path, "stats").out)["objects"] == 5
    done = run("send", path, docs / "0" / "0.png")
    assert (done.code, done.value["error"]["code"]) == (1, "document_unsupported")


@pytest.mark.promise("sync:store:as-folder")
def test_what_became_no_file_is_found_no_more_and_is_no_failure(docs: Path, store: str, run: InProcess) -> None:
    run("send", "--sync", store, docs)
    for name in ("long.md", "0/0.txt", "1/1.txt"):
        (docs / name).unlink()
    os.mkfifo(docs / "long.md")
    (docs / "0" / "0.txt").symlink_to("nowhere")
    (docs / "1" / "1.txt").symlink_to("3.txt")
    done = run("send", "--sync", store, docs)
    assert (done.code, counts(done)) == (0, {"deleted": 3, "unchanged": 3, "skipped": 2})
    assert set(content(store)) == {str(docs / name) for name in ("0/2.txt", "0/4.txt", "1/3.txt")}


def test_what_patterns_leave_out_is_not_in_the_store(docs: Path, store: str, run: InProcess) -> None:
    assert counts(run("send", "--sync", store, docs)) == {"new": 6}
    (docs / ".rrextignore").write_text("# rules\n*.txt\n!1.txt\n")
    (docs / "1" / ".rrextignore").write_text("!/3.txt")
    assert counts(run("send", "--sync", store, docs)) == {"unchanged": 3, "deleted": 3}
    assert set(content(store)) == {str(docs / name) for name in ("long.md", "1/1.txt", "1/3.txt")}
    done = run("send", "--sync", store, "--exclude", "3.*", "--exclude", "*.md", docs)
    assert (done.code, counts(done), set(content(store))) == (0, {"unchanged": 1, "deleted": 2}, {str(docs / "1" / "1.txt")})
    (docs / ".rrextignore").write_text("1/")
    assert counts(run("send", "--sync", store, docs)) == {"new": 4, "deleted": 1}


def test_rules_that_cannot_be_read_send_and_delete_nothing(docs: Path, store: str, run: InProcess) -> None:
    run("send", "--sync", store, docs)
    done = run("send", "--sync", "--exclude", "!", store, docs)
    assert (done.code, done.out) == (2, b"")
    assert "exclude: '!' is no rule of gitignore [usage]" in done.err
    (docs / "0" / ".rrextignore").write_text("!")
    done = run("send", "--sync", store, docs)
    assert (done.code, counts(done)) == (1, {"unchanged": 3, "failed": 1})
    assert ".rrextignore: '!' is no rule of gitignore" in done.err
    (docs / "0" / ".rrextignore").unlink()
    os.mkfifo(docs / "0" / ".rrextignore")
    assert counts(run("send", "--sync", store, docs)) == {"unchanged": 6}


@pytest.mark.promise("sync:unchanged:is-stored")
def test_what_the_store_does_not_have_is_never_unchanged(docs: Path, store: str, tmp_path: Path, run: InProcess) -> None:
    run("send", "--sync", store, docs)
    expected = content(store)
    run("tool", store, "delete", "--input", json.dumps({"parent": str(docs / "long.md")}))
    assert counts(run("send", "--sync", store, docs)) == {"new": 1, "unchanged": 5}
    shutil.rmtree(tmp_path / "pipes" / "store")
    assert counts(run("send", "--sync", store, docs)) == {"new": 6}
    assert content(store) == expected
    store_pipeline(tmp_path / "pipes", path="other")
    assert counts(run("send", "--sync", store, docs)) == {"new": 6}
    store_pipeline(tmp_path / "pipes")
    assert counts(run("send", "--sync", store, docs)) == {"unchanged": 6}


@pytest.mark.promise("sync:unchanged:is-stored")
def test_a_version_that_somebody_else_stored_is_not_taken_for_the_file(docs: Path, store: str, run: InProcess) -> None:
    path = docs / "0" / "0.txt"
    run("send", "--sync", store, docs)
    expected, was = content(store), docs.parent / "was"
    path.rename(was)
    path.write_text("text of another")
    assert run("send", store, path).code == 0
    was.rename(path)
    assert counts(run("send", "--sync", store, docs)) == {"changed": 1, "unchanged": 5}
    assert content(store) == expected


def test_with_other_settings_files_are_sent_again(docs: Path, store: str, tmp_path: Path, run: InProcess) -> None:
    run("send", "--sync", store, docs)
    store_pipeline(tmp_path / "pipes", size=100)
    assert counts(run("send", "--sync", store, docs)) == {"changed": 6}
    assert counts(run("send", "--sync", store, docs)) == {"unchanged": 6}
    assert counts(run("send", "--sync", store, docs, "--mime", "text/plain")) == {"changed": 6}


@pytest.mark.promise("sync:store:as-folder")
def test_a_moved_file_keeps_its_chunks_and_is_not_sent(docs: Path, store: str, tmp_path: Path, run: InProcess) -> None:
    for number in range(20):
        (docs / f"more {number}.txt").write_text(f"more {number}")
    (docs / "twin.txt").write_text("more 0")
    assert counts(run("send", "--sync", store, docs)) == {"new": 27}
    (docs / "sub").mkdir()
    for path in docs.glob("more*"):
        path.rename(docs / "sub" / path.name)
    (docs / "long.md").rename(docs / "longer.MD")
    (docs / "twin.txt").unlink()
    shutil.copyfile(docs / "sub" / "more 1.txt", docs / "copy.txt")
    (docs / "0" / "0.txt").rename(docs / "0" / "0.md")  # the extension says how a file is read
    done = run("send", "--sync", store, docs)
    assert (done.code, counts(done)) == (0, {"moved": 21, "new": 2, "unchanged": 4, "deleted": 2})
    assert {line["sync"] for line in done.lines[:-1] if "longer" in line["path"]} == {"moved"}
    assert "6 B sent" not in done.err
    assert counts(run("send", "--sync", store, docs)) == {"unchanged": 27}
    assert content(store) == fresh(tmp_path, docs)


def test_a_file_that_moves_to_another_source_is_sent_as_its_chunks_name_their_source(
    store: str, tmp_path: Path, run: InProcess
) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{folder}.txt").write_text(f"in the {folder}")
    both = (tmp_path / "first", tmp_path / "second")
    assert counts(run("send", "--sync", store, *both)) == {"new": 2}
    (tmp_path / "first" / "first.txt").rename(tmp_path / "second" / "moved.txt")
    (tmp_path / "second" / "second.txt").rename(tmp_path / "second" / "again.txt")
    assert counts(run("send", "--sync", store, "--max-delete", "1", *both)) == {"new": 1, "moved": 1, "deleted": 1}


def test_what_a_store_has_only_in_part_is_not_moved(docs: Path, store: str, tmp_path: Path, run: InProcess) -> None:
    run("send", "--sync", store, docs)
    former = json.loads(run("tool", store, "list", f"parent={docs / 'long.md'}").out)["objects"][0]["objectId"]
    upsert = {"documents": [{"object_id": former, "content": "somebody else's", "metadata": {"chunkId": 1}}]}
    run("tool", store, "upsert", json.dumps(upsert))
    (docs / "long.md").rename(docs / "longer.md")
    assert counts(run("send", "--sync", store, docs)) == {"new": 1, "unchanged": 5, "deleted": 1}
    former = json.loads(run("tool", store, "list", f"parent={docs / 'longer.md'}").out)["objects"][0]["objectId"]
    (docs / "longer.md").rename(docs / "long.md")
    (again,) = [source for source in find_files([str(docs)]) if source.name.endswith("long.md")]
    moved = str(uuid.uuid5(uuid.NAMESPACE_URL, again.about["url"]))
    run("tool", store, "move", f"object_id={former}", f"to={moved}")  # a sync that was killed behind its move
    assert counts(run("send", "--sync", store, docs)) == {"changed": 1, "unchanged": 5, "deleted": 1}
    assert content(store) == fresh(tmp_path, docs)


@pytest.mark.promise("object:one-per-source")
def test_a_folder_with_a_name_is_the_same_objects_wherever_it_stands(
    docs: Path, store: str, tmp_path: Path, run: InProcess
) -> None:
    moved = tmp_path / "elsewhere" / "papers"
    moved.parent.mkdir()
    assert counts(run("send", "--sync", store, "--root-name", "library", docs)) == {"new": 6}
    expected = content(store)
    assert set(expected) == {f"library/{path.relative_to(docs)}" for path in docs.rglob("*.*")}
    docs.rename(moved)
    assert counts(run("send", "--sync", store, "--root-name", "library", moved)) == {"unchanged": 6}
    assert run("send", store, "--root-name", "library", moved / "long.md").code == 0
    assert content(store) == expected
    (moved / "long.md").unlink()
    done = run("send", "--sync", store, "--root-name", "library", moved)
    assert (counts(done), done.lines[0]["path"]) == ({"unchanged": 5, "deleted": 1}, str(moved / "long.md"))
    for words in (("a/b", moved), ("library", moved, tmp_path), ("..", moved)):
        assert run("send", store, "--root-name", *words).code == 2


@pytest.mark.promise("vector:owner:apart")
def test_each_user_has_a_sync_of_the_folder(docs: Path, store: str, run: InProcess) -> None:
    for words in ((), ("--user", "ada"), ("--user", "ada", "--space", "s")):
        assert counts(run("send", "--sync", store, *words, docs)) == {"new": 6}
    (docs / "long.md").unlink()
    assert counts(run("send", "--sync", store, "--user", "ada", docs)) == {"unchanged": 5, "deleted": 1}
    found = [run("tool", store, "list", *words).value["total"] for words in ((), ("--user", "ada"), ("--user", "bob"))]
    assert found == [6, 5, 0]


def test_what_other_folders_sent_stays(docs: Path, store: str, tmp_path: Path, run: InProcess) -> None:
    beside = tmp_path / "docs-too"
    shutil.copytree(docs, beside)
    plain = tmp_path / "plain.txt"
    plain.write_text("sent without sync")
    assert run("send", store, plain).code == 0
    run("send", "--sync", store, docs)
    run("send", "--sync", store, beside)
    (docs / "long.md").unlink()
    assert counts(run("send", "--sync", store, docs)) == {"unchanged": 5, "deleted": 1}
    parents = set(content(store))
    assert parents == {str(source.path) for source in find_files([str(docs), str(beside), str(plain)])}


def test_of_a_folder_in_another_one_each_sync_knows(docs: Path, store: str, run: InProcess) -> None:
    run("send", "--sync", store, docs / "0")
    assert counts(run("send", "--sync", store, docs)) == {"new": 3, "unchanged": 3}
    (docs / "0" / "0.txt").unlink()
    assert counts(run("send", "--sync", store, docs / "0", docs)) == {"unchanged": 5, "skipped": 2, "deleted": 1}


@pytest.mark.promise("sync:delete:guarded")
def test_a_folder_that_is_empty_or_not_there_deletes_nothing(docs: Path, store: str, run: InProcess) -> None:
    run("send", "--sync", store, docs)
    expected, aside = content(store), docs.parent / "aside"
    docs.rename(aside)
    done = run("send", "--sync", store, docs)
    assert (done.code, counts(done)) == (1, {"failed": 1})
    docs.mkdir()
    done = run("send", "--sync", store, docs)
    assert (done.code, counts(done)) == (1, {"notDeleted": 6})
    assert "6 of the 6 files that were sent are not there any more: nothing is deleted" in done.err
    assert "--max-delete 6" in done.err
    assert content(store) == expected
    docs.rmdir()
    aside.rename(docs)
    assert counts(run("send", "--sync", store, docs)) == {"unchanged": 6}
    shutil.rmtree(docs)
    docs.mkdir()
    assert counts(run("send", "--sync", "--max-delete", "5", store, docs)) == {"notDeleted": 6}
    done = run("send", "--sync", "--max-delete", "6", store, docs)
    assert (done.code, counts(done), content(store)) == (0, {"deleted": 6}, {})


@pytest.mark.promise("sync:delete:guarded")
def test_more_than_half_of_many_files_are_not_deleted_unasked(docs: Path, store: str, run: InProcess) -> None:
    for number in range(30):
        (docs / f"more {number}.txt").write_text(f"more {number}")
    run("send", "--sync", store, docs)
    for path in docs.glob("more*"):
        path.unlink()
    assert counts(run("send", "--sync", store, docs)) == {"unchanged": 6, "notDeleted": 30}
    assert counts(run("send", "--sync", "--max-delete", "30", store, docs)) == {"unchanged": 6, "deleted": 30}


class Threads:
    """Stands in for a pipeline: what may block is simply done."""

    async def in_thread(self, work: Any) -> Any:
        return work()


@pytest.mark.promise("sync:delete:guarded")
async def test_what_is_in_a_folder_that_cannot_be_read_is_not_gone(tmp_path: Path) -> None:
    state = SyncState(str(tmp_path / "state"), "t")
    root = os.fsencode(tmp_path)
    for name in (b"a", b"shut", b"shut/b", b"shut-not/c", b"shut/d/e", b"d", b"e", b"f"):
        state.keep(root + b"/" + name, SentFile("id"))
    known = SyncStores(["store"], can_move=True, target="t", settings="", namespace=uuid.NAMESPACE_URL)
    find = FolderSync(Threads(), known, state)  # pyright: ignore[reportArgumentType]
    sources = [UploadFile(name, name, identity=str(tmp_path / name)) for name in ("d", "e", "f")]
    sources.append(UploadFile("shut", "shut", identity=str(tmp_path / "shut"), problem="Permission denied"))
    find._paths = [str(tmp_path)]  # pyright: ignore[reportPrivateUsage]
    (gone,) = [each async for each in find.gone(sources, None)]
    assert (set(gone.files), gone.known, gone.refused) == ({root + b"/a", root + b"/shut-not/c"}, 8, False)


def test_a_file_that_fails_is_tried_again(docs: Path, store: str, run: InProcess) -> None:
    (docs / "latin.txt").write_bytes("Grüße".encode("latin-1"))
    for expected in ({"new": 6, "failed": 1}, {"unchanged": 6, "failed": 1}):
        done = run("send", "--sync", store, docs)
        assert (done.code, counts(done)) == (1, expected)
    (docs / "latin.txt").write_text("Grüße")
    assert counts(run("send", "--sync", store, docs)) == {"new": 1, "unchanged": 6}


def test_a_file_that_changes_while_it_is_sent_is_sent_again(docs: Path, tmp_path: Path) -> None:
    path = store_pipeline(tmp_path, provider="meddler")
    (docs / "long.md").write_text("meddle")
    done = call("send", "--sync", path, str(docs), "--nodes", NODES, cwd=docs)
    assert counts(done) == {"new": 5, "failed": 1}
    assert "long.md: changed while it was sent: the next --sync sends it again [not_followed]" in done.err
    done = call("send", "--sync", path, str(docs), "--nodes", NODES, cwd=docs)
    assert counts(done) == {"changed": 1, "unchanged": 5}
    assert (
        json.loads(call("tool", path, "--nodes", NODES, "get", "--input", _id_of(done)).out)["chunks"][0]["content"]
        == "meddled"
    )


def _id_of(done: Done) -> str:
    return json.dumps({"object_id": done.lines[0]["result"]["objectId"]})


def test_odd_names_are_followed(tmp_path: Path, store: str, run: InProcess) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9")
    odd.mkdir()
    for name in (b"\xff.txt", b"a\nb.txt", "ü.txt".encode(), b"%.txt"):
        (odd / os.fsdecode(name)).write_text("x")
    assert counts(run("send", "--sync", store, tmp_path.joinpath(odd))) == {"new": 4}
    (odd / os.fsdecode(b"\xff.txt")).unlink()
    done = run("send", "--sync", store, odd)
    assert counts(done) == {"unchanged": 3, "deleted": 1}
    assert done.lines[0]["path"].endswith("caf\\xe9/\\xff.txt")


def test_what_a_sync_keeps_beside_the_pipeline_is_not_sent(tmp_path: Path, run: InProcess) -> None:
    path = store_pipeline(tmp_path, path=str(tmp_path.parent / f"{tmp_path.name}-store"))
    (tmp_path / f"{Path(path).name}.sync of monday.txt").write_text("text")
    for how in ("new", "unchanged"):
        done = run("send", "--sync", path, tmp_path)
        assert done.code == 0
        assert {**counts(done), "skipped": 0} == {how: 1, "skipped": 0}
        skipped = [line["skipped"] for line in done.lines if "skipped" in line]
        assert set(skipped) <= {
            "is where --sync keeps what it has sent",
            "no node takes application/octet-stream here (tags lane)",
        }


def test_a_pipe_is_nothing_that_can_be_followed(store: str) -> None:
    done = call("send", "--sync", store, "/dev/stdin", stdin=b"text")
    assert (done.code, counts(done)) == (1, {"failed": 1})
    assert "is no regular file" in done.err


def test_without_a_store_nothing_is_sent(docs: Path, run: InProcess) -> None:
    done = run("send", "--sync", str(EXAMPLES / "echo.pipe"), docs)
    assert (done.code, done.out) == (2, b"")
    assert "a sync needs a store that files go to and that has the tools versions and delete" in done.err
    assert not (EXAMPLES / "echo.pipe.sync").exists()


def test_a_store_that_cannot_be_reached_is_said_once(docs: Path, store: str, run: InProcess) -> None:
    folder = Path(store).parent / "store"
    folder.mkdir()
    (folder / "letter.txt").write_text("not a store")
    done = run("send", "--sync", store, docs)
    assert (done.code, done.out) == (1, b"")
    assert done.err.count("[not_a_store]") == 1


def test_max_delete_goes_with_sync_alone(docs: Path, store: str, run: InProcess) -> None:
    done = run("send", "--max-delete", "3", store, docs)
    assert (done.code, done.err) == (2, "rrext: --max-delete goes with --sync\n")
    assert run("send", "--sync", "--max-delete", "-1", store, docs).code == 2


# its state


def test_the_state_is_for_its_owner_alone(docs: Path, store: str, run: InProcess) -> None:
    Path(store + ".sync").touch(mode=0o644)
    run("send", "--sync", store, docs)
    assert [(path.name, oct(path.stat().st_mode & 0o777)) for path in Path(store).parent.glob("*.sync*")] == [
        ("p.pipe.sync", "0o600")
    ]


def test_two_syncs_of_one_pipeline_do_not_run_at_once(docs: Path, store: str, run: InProcess) -> None:
    with SyncStateHeld(store):
        done = run("send", "--sync", store, docs)
    assert (done.code, done.out) == (2, b"")
    assert "another --sync of this pipeline is running [sync_state]" in done.err
    assert counts(run("send", "--sync", store, docs)) == {"new": 6}


class SyncStateHeld:
    def __init__(self, store: str) -> None:
        self._state = SyncState(store + ".sync", "t")

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self._state.close()


@pytest.mark.parametrize("damage", ["cut", "overwritten", "text"])
def test_a_damaged_state_is_put_aside_and_nothing_is_deleted(docs: Path, store: str, damage: str, run: InProcess) -> None:
    for number in range(20):
        (docs / f"{number} {'x' * 200}.txt").write_text("x")
    run("send", "--sync", store, docs)
    expected, state = content(store), Path(store + ".sync")
    data = state.read_bytes()
    state.write_bytes(
        {"cut": data[: len(data) // 2], "overwritten": data[:4096] + os.urandom(len(data) - 4096), "text": b"hello"}[damage]
    )
    (docs / "long.md").unlink()
    done = run("send", "--sync", store, docs)
    assert "is damaged, and kept as" in done.err
    assert (done.code, counts(done)) == (0, {"changed": 25})
    assert content(store) == expected
    assert counts(run("send", "--sync", store, docs)) == {"unchanged": 25}


def test_a_state_of_another_program_or_of_a_newer_rrext_is_left_alone(docs: Path, store: str, run: InProcess) -> None:
    with closing(sqlite3.connect(store + ".sync")) as other:
        other.execute("create table mine (a)")
    done = run("send", "--sync", store, docs)
    assert (done.code, "is a database of something else" in done.err) == (2, True)
    os.unlink(store + ".sync")
    run("send", "--sync", store, docs)
    with closing(sqlite3.connect(store + ".sync")) as state:
        state.execute("pragma user_version = 99")
    done = run("send", "--sync", store, docs)
    assert (done.code, "was written by a newer rrext" in done.err) == (2, True)


def test_a_state_that_cannot_be_written_is_said(docs: Path, store: str, run: InProcess) -> None:
    os.mkdir(store + ".sync")
    done = run("send", "--sync", store, docs)
    assert (done.code, done.out) == (2, b"")
    assert ".sync: Is a directory [sync_state]" in done.err


def test_what_cannot_be_kept_is_a_failure(tmp_path: Path) -> None:
    state = SyncState(str(tmp_path / "state"), "t")
    state.close()
    with pytest.raises(SyncStateError):
        state.find(b"x")


# kills


@pytest.mark.promise("sync:kill:goes-on")
@pytest.mark.parametrize("lines", [7, 20])
def test_a_sync_that_is_killed_goes_on_where_it_was(lines: int, store: str, tmp_path: Path) -> None:
    docs = tmp_path / "many"
    docs.mkdir()
    for number in range(30):
        (docs / f"{number}.txt").write_text(f"Version one of {number}. " * 200)
    _kill_after(lines, store, docs)
    done = sync(store, docs)
    assert done.code == 0, done
    assert counts(done).get("unchanged", 0) + 8 >= lines
    for number in range(30):
        path = docs / f"{number}.txt"
        if number % 3:
            path.write_text(f"Version two of {number}. " * (100 if number % 2 else 300))
        elif number % 2:
            path.unlink()
    _kill_after(lines // 2, store, docs)
    assert sync(store, docs).code == 0
    done = sync(store, docs)
    assert counts(done) == {"unchanged": 25}
    assert content(store) == fresh(tmp_path, docs)


def _kill_after(lines: int, store: str, docs: Path) -> None:
    """Kill a sync by SIGKILL when it has told of so many files."""
    with spawned("send", "--sync", store, str(docs)) as process:
        assert process.stdout is not None
        for _ in range(lines):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_what_was_interrupted_by_ctrl_c_goes_on_too(store: str, tmp_path: Path) -> None:
    docs = tmp_path / "many"
    docs.mkdir()
    for number in range(60):
        (docs / f"{number}.txt").write_text(f"Text {number}. " * 200)
    with spawned("send", "--sync", store, str(docs)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["sync"] == "new"
        process.send_signal(signal.SIGINT)
        said = process.stderr.read().decode()
        assert process.wait() == 130
    assert "interrupted: 60 files" in said
    done = sync(store, docs)
    assert done.code == 0
    assert counts(done)["unchanged"] >= 1
    assert content(store) == fresh(tmp_path, docs)
