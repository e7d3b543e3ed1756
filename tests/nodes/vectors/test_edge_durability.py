"""What an embedded store answered is there after its process was killed; one process has a folder; damage is refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

import msgspec
import pytest
from edge_calls import Call, wait_until
from edge_process import edge_store, process_store, writer
from vector_contract import SPACE, call, chunk, everything, found, in_threads, paths, put

from rrext.errors import Cancelled, ToolError
from rrext.nodes.vectors.edge.folder import FORMAT, Manifest, StoreFolder
from rrext.nodes.vectors.store import Match, Scope, Search, VectorSpace, VectorStore, owner_of

DAMAGES: dict[str, Callable[[Path], object]] = {
    "a segment is gone": lambda data: shutil.rmtree(next((data / "shard" / "segments").iterdir())),
    "all segments are gone": lambda data: shutil.rmtree(data / "shard" / "segments"),
    "the shard is gone": lambda data: shutil.rmtree(data / "shard"),
    "the manifest is gone": lambda data: (data / "store.json").unlink(),
    "the manifest is no JSON": lambda data: (data / "store.json").write_text('{"format": 1'),
    "the version of a segment is gone": lambda data: one_file(data, "version.info").unlink(),
    "the names of points are gone": lambda data: one_file(data, "mutable_id_tracker.mappings").unlink(),
    "the names of points are cut": lambda data: os.truncate(one_file(data, "mutable_id_tracker.mappings"), 30),
    "the versions of points are cut": lambda data: os.truncate(one_file(data, "mutable_id_tracker.versions"), 9),
    "the vectors are cut": lambda data: os.truncate(one_file(data, "vectors/chunk_0.mmap"), 5000),
    "the vectors are overwritten": lambda data: overwrite(one_file(data, "vectors/chunk_0.mmap")),
    "the count of vectors is gone": lambda data: one_file(data, "vectors/status.dat").unlink(),
    "the deleted marks are overwritten": lambda data: overwrite(one_file(data, "deleted/flags_a.dat")),
    "the texts are overwritten": lambda data: overwrite(one_file(data, "payload_storage/page_0.dat")),
    "the word index is overwritten": lambda data: overwrite(one_file(data, "*words-text/page_0.dat")),
    "the engine's settings are no JSON": lambda data: one_file(data, "edge_config.json").write_text("{"),
    "the log is overwritten": lambda data: overwrite(one_file(data, "wal/open-*")),
}

BLOCK = 4096


def one_file(data: Path, name: str) -> Path:
    return next(data.rglob(name))


def overwrite(path: Path) -> None:
    with open(path, "r+b") as file:
        file.write(b"\xa5" * 4096)


@contextmanager
def forked() -> Iterator[None]:
    """A child that has all open files of this process, and does nothing."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    try:
        yield
    finally:
        os.close(write)
        os.waitpid(child, 0)


def digests(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): digest(path) if path.is_file() else -1
        for path in folder.rglob("*")
        if path.name != "lock"
    }


def digest(path: Path) -> int:
    """Of the size and of the blocks that are not empty: a store is a few kilobytes in files of a hundred megabytes. Whether an
    empty block is on the disk is the system's business, which it decides when it likes."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        found, begin = size, 0
        while begin < size:
            try:
                begin = os.lseek(file.fileno(), begin, os.SEEK_DATA)
            except OSError:  # nothing more
                break
            end = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            for place in range(begin, end, BLOCK):
                if any(block := os.pread(file.fileno(), BLOCK, place)):
                    found = crc32(block, crc32(f"{found} {place}".encode()))
            begin = end
    return found


def filled(folder: Path) -> Path:
    store = edge_store(folder)
    put(store, *(chunk("a", n, f"word{n} common", parent=f"/{n % 3}") for n in range(20)))
    store.close()
    return folder / "data"


@pytest.mark.parametrize("kind", ["edge_store", "process_store"])
@pytest.mark.promise("vector:answered:is-kept")
def test_nothing_that_was_answered_is_lost_when_the_process_is_killed(kind: str, tmp_path: Path) -> None:
    answered = -1
    for _ in range(3):
        with writer(tmp_path / "store", kind) as (process, lines):
            for _ in range(40):
                answered = max(answered, int(lines.readline()))
            process.kill()
            answered = max([answered, *(int(line) for line in lines if line.endswith("\n"))])
        store = edge_store(tmp_path / "store")
        for number in range(answered + 1):
            assert [one.chunk_id for one in everything(store, str(number))] == [0, 1, 2]
        assert found(store, f"word{answered}", "keyword") == [str(answered)] * 3
        assert found(store, f"word{answered} common", "dense", top_k=1) == [str(answered)]
        stats = store.stats(call())
        assert stats.chunks == sum(count for _, count in paths(store).values()) == 3 * stats.objects
        assert answered + 1 <= stats.objects <= answered + 2
        store.close()


def test_what_was_deleted_stays_deleted_and_the_counts_hold_after_a_restart(tmp_path: Path) -> None:
    store = edge_store(tmp_path / "store")
    put(store, *(chunk(f"o{n}", 0, parent=f"/{n % 4}") for n in range(40)))
    store.list(None, 0, 10, call())
    store.delete(Scope(parent="/1"), call())
    before = paths(store)
    store.close()
    again = edge_store(tmp_path / "store")
    assert paths(again) == before == {"/0": ("o0", 10), "/2": ("o10", 10), "/3": ("o11", 10)}
    assert again.space(call()) == SPACE
    again.close()


@pytest.mark.promise("vector:folder:in-turns")
def test_two_processes_take_turns_with_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    store = edge_store(folder)
    with writer(folder) as (process, lines):
        first = int(lines.readline())
        for n in range(3):
            put(store, chunk("mine", n))
            assert len(everything(store, "mine", str(first))) == n + 4
            assert int(lines.readline()) > first
        process.kill()
        process.wait()
    put(store, chunk("mine"))
    assert len(everything(store, "mine", "0")) == 6
    store.close()


def test_a_process_that_keeps_the_folder_is_named_to_who_waits_in_vain(tmp_path: Path) -> None:
    folder = StoreFolder(str(tmp_path), "shown", owner=os.getppid())
    folder.acquire(0, lambda: None)
    store = edge_store(tmp_path, wait=0.05)
    with pytest.raises(ToolError, match="in use") as failure:
        put(store, chunk("mine"))
    assert failure.value.code == "store_in_use"
    assert f"process {os.getppid()}" in failure.value.message
    folder.release()
    put(store, chunk("mine"))
    store.close()


def test_a_call_that_waits_for_a_folder_ends_when_nobody_waits_for_it(tmp_path: Path) -> None:
    folder = StoreFolder(str(tmp_path), "shown")
    folder.acquire(0, lambda: None)
    store = edge_store(tmp_path, wait=600)
    waiting = Call(lambda ctx: store.upsert([chunk("a")], [[1.0]], VectorSpace("model", 1), ctx))
    wait_until(folder.is_wanted)
    waiting.token.cancel()
    assert isinstance(waiting.outcome(), Cancelled)
    folder.release()
    assert everything(store, "a") == []
    store.close()


@pytest.mark.parametrize("new", [edge_store, process_store])
def test_two_stores_of_one_server_take_turns_too(new: Callable[[Path], VectorStore], tmp_path: Path) -> None:
    first, second = new(tmp_path / "store"), new(tmp_path / "store")

    def work(n: int) -> None:
        store = (first, second)[n % 2]
        for turn in range(6):
            put(store, chunk(f"{n} {turn}"))
            assert len(everything(store, f"{n} {turn}")) == 1

    in_threads(work, 4)
    assert first.stats(call()).chunks == second.stats(call()).chunks == 24
    first.close()
    assert len(everything(second, "0 0", "1 0")) == 2
    second.close()


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.promise("vector:damage:left-alone")
def test_a_damaged_store_is_refused_and_left_as_it_is(damage: Callable[[Path], object], tmp_path: Path) -> None:
    data = filled(tmp_path / "store")
    damage(data)
    before = digests(tmp_path)
    store = edge_store(tmp_path / "store")
    for _ in range(2):
        with pytest.raises(ToolError) as failure:
            everything(store, "a")
        assert failure.value.code == "store_corrupt"
        with pytest.raises(ToolError, match="damaged"):
            put(store, chunk("b"))
    store.close()
    assert digests(tmp_path) == before


@pytest.mark.parametrize("lost", ["segments/*/mutable_id_tracker.mappings", "wal/*"])
def test_files_that_a_killed_process_left_are_missed_too(lost: str, tmp_path: Path) -> None:
    filled(tmp_path / "store")
    with writer(tmp_path / "store", "edge_store") as (process, lines):
        lines.readline()
        process.kill()
    for path in (tmp_path / "store" / "data" / "shard").glob(lost):
        path.unlink()
    store = edge_store(tmp_path / "store")
    with pytest.raises(ToolError, match="damaged"):
        everything(store, "a")
    store.close()


@pytest.mark.promise("vector:damage:left-alone")
def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    store = edge_store(tmp_path)
    for use in (lambda: everything(store, "a"), lambda: put(store, chunk("a"))):
        with pytest.raises(ToolError) as failure:
            use()
        assert failure.value.code == "not_a_store"
    store.close()
    assert os.listdir(tmp_path) == ["thesis.txt"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        store = edge_store(path)
        with pytest.raises(ToolError) as failure:
            put(store, chunk("a"))
        assert failure.value.code == "store_unusable"
        store.close()
    assert (tmp_path / "file").read_text() == "text"


def test_a_missing_folder_is_made_by_the_first_chunk_and_by_nothing_else(tmp_path: Path) -> None:
    store = edge_store(tmp_path / "new" / "store")
    assert found(store, "word") == []
    assert store.stats(call()).disk_bytes == 0
    assert not (tmp_path / "new").exists()
    put(store, chunk("a"))
    assert (store.stats(call()).disk_bytes or 0) > 10_000
    store.close()


def test_a_process_that_ended_while_it_made_the_store_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "new" / "shard").mkdir(parents=True)
    (tmp_path / "lock").write_text("1")
    store = edge_store(tmp_path)
    assert found(store, "word") == []
    put(store, chunk("a"))
    assert len(everything(store, "a")) == 1
    store.close()


def test_a_store_of_another_format_is_not_opened(tmp_path: Path) -> None:
    manifest = filled(tmp_path) / "store.json"
    manifest.write_text(manifest.read_text().replace(f'"format":{FORMAT}', f'"format":{FORMAT + 1}'))
    store = edge_store(tmp_path)
    with pytest.raises(ToolError) as failure:
        everything(store, "a")
    assert failure.value.code == "store_format"
    store.close()


def aged(folder: Path, format: int) -> None:
    """Make a closed store one of an earlier format, of which 2 has no owners."""
    import qdrant_edge as qe

    from rrext.nodes.vectors.points import FACTS, NUMBERS, OWNER

    store = StoreFolder(str(folder), "store")
    shard = qe.EdgeShard.load(store.shard)
    lacking = [FACTS, NUMBERS, *([OWNER] if format == 2 else [])]
    for field in lacking:
        shard.update(qe.UpdateOperation.delete_field_index(field))
    shard.update(
        qe.UpdateOperation.delete_payload([record.id for record in shard.scroll(qe.ScrollRequest(limit=1000))[0]], lacking)
    )
    shard.flush()
    shard.close()
    manifest = msgspec.json.decode((folder / "data" / "store.json").read_bytes(), type=Manifest)
    store.save(msgspec.structs.replace(manifest, format=format, files=store.files()))


@pytest.mark.parametrize("format", [2, 3])
@pytest.mark.promise("vector:owner:apart")
@pytest.mark.promise("vector:filter:metadata")
def test_what_a_store_without_owners_and_facts_holds_is_nobodys_and_can_be_filtered(tmp_path: Path, format: int) -> None:
    store = edge_store(tmp_path)
    put(store, *(chunk(name, n, parent=f"/{name}", tag=name, n=n) for name in "abc" for n in range(200)))
    expected = everything(store, "a")
    store.close()
    aged(tmp_path, format)
    store, ada = edge_store(tmp_path), owner_of("ada", None)
    assert everything(store, "a") == expected
    for metadata in ((Match("tag", ("b",)), Match("n", gte=150)), (Match("n", (150.0, 151.0)), Match("tag", ("b", "d")))):
        hits = store.search(Search("keyword", 100, "words", None, Scope(metadata=metadata)), call())
        assert {hit.chunk.object_id for hit in hits} == {"b"}
        assert sorted(hit.chunk.chunk_id for hit in hits) in (list(range(150, 200)), [150, 151])
    assert store.stats(call(), ada).chunks == store.list(None, 0, 10, call(), ada).total == 0
    put(store, chunk("a", 0, "new words"))
    assert store.stats(call()).chunks == 600
    assert found(store, "new words", "keyword", top_k=1) == ["a"]
    store.close()
    assert msgspec.json.decode((tmp_path / "data" / "store.json").read_bytes(), type=Manifest).format == FORMAT


def test_nothing_is_stored_on_a_disk_that_is_nearly_full(tmp_path: Path) -> None:
    store = edge_store(tmp_path / "store", min_free=2**60)
    with pytest.raises(ToolError) as failure:
        put(store, chunk("a"))
    assert failure.value.code == "store_full"
    assert found(store, "words") == []
    store.close()


def test_a_folder_that_cannot_be_made_says_so() -> None:
    store = edge_store("/proc/store")
    with pytest.raises(ToolError) as failure:
        put(store, chunk("a"))
    assert failure.value.code == "store_unusable"
    store.close()


def test_a_store_that_a_forked_process_still_holds_is_in_use_and_not_damaged(tmp_path: Path) -> None:
    store, again = edge_store(tmp_path), edge_store(tmp_path, wait=0)
    put(store, chunk("a"))
    with forked():
        store.close()
        with pytest.raises(ToolError) as failure:
            everything(again, "a")
        assert failure.value.code == "store_in_use"
    assert len(everything(again, "a")) == 1
    again.close()


def test_a_lock_that_was_released_belongs_to_nobody(tmp_path: Path) -> None:
    folder = StoreFolder(str(tmp_path), "shown")
    for _ in range(2):
        folder.acquire(0, lambda: None)
        folder.release()
    folder.release()
