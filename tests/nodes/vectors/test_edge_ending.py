"""The end of the embedded store's process is an error and no loss, and it ends with its server."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from edge_calls import (
    WORDS,
    Call,
    children_of,
    engine_that,
    is_running,
    process_of,
    put_one,
    stopped,
    wait_until,
)
from edge_process import edge_store, process_store, writer
from vector_contract import chunk, everything, found, put

from rrext.errors import ToolError, Unavailable
from rrext.nodes.files import turns
from rrext.nodes.files.turns import is_gone
from rrext.nodes.vectors.edge.messages import Delete
from rrext.nodes.vectors.edge.node import ProcessStore
from rrext.nodes.vectors.store import Scope


def test_calls_of_a_process_that_is_killed_fail_and_the_next_one_starts_another(running_store: ProcessStore) -> None:
    first = process_of(running_store)
    with stopped(first):
        calls = [
            Call(lambda ctx: running_store.search(WORDS, ctx)).begun(),
            Call(lambda ctx: put_one(running_store, "b", ctx)).begun(),
            Call(lambda ctx: running_store.list(None, 0, 10, ctx)).begun(),
        ]
        os.kill(first, signal.SIGKILL)
        for one in calls:
            error = one.outcome()
            assert isinstance(error, ToolError)
            assert error.code == "store_crashed"
            assert "SIGKILL" in error.message
            assert "Call again" in (error.hint or "")
    assert found(running_store, "words", "keyword")[0] == "a"
    assert process_of(running_store) != first
    put(running_store, chunk("c"))
    assert len(everything(running_store, "a", "c")) == 2


def test_a_process_that_is_killed_while_nobody_calls_is_not_missed(running_store: ProcessStore) -> None:
    for n in range(3):
        first = process_of(running_store)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: running_store.process_id is None)
        put(running_store, chunk(f"o{n}"))
        assert process_of(running_store) != first
    assert len(everything(running_store, "a", "o0", "o1", "o2")) == 4


def test_a_killed_server_leaves_no_process_and_a_folder_that_can_be_used_at_once(tmp_path: Path) -> None:
    with writer(tmp_path / "store") as (process, lines):
        answered = [int(lines.readline()) for _ in range(5)]
        children = children_of(process.pid)
        process.kill()
        process.wait()
        answered += [int(line) for line in lines if line.endswith("\n")]
        store = process_store(tmp_path / "store")
        assert len(everything(store, *map(str, answered))) == 3 * len(answered)
        store.close()
    assert len(children) == 1
    wait_until(lambda: not is_running(children[0]))


@pytest.fixture
def orphan(tmp_path: Path) -> Iterator[int]:
    """The process of a store whose server was killed; it hangs, and still has the folder."""
    with writer(tmp_path / "store") as (process, lines):
        lines.readline()
        orphan = children_of(process.pid)[0]
        with stopped(orphan):
            process.kill()
            process.wait()
            yield orphan
    wait_until(lambda: not is_running(orphan))


def test_a_folder_whose_server_was_killed_is_waited_for(orphan: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def go_on(owner: str) -> bool:
        os.kill(orphan, signal.SIGCONT)  # it had the folder when it was asked for
        return is_gone(owner)

    monkeypatch.setattr(turns, "is_gone", go_on)
    monkeypatch.setattr(turns, "LEAVING_TIMEOUT", 30.0)
    store = edge_store(tmp_path / "store", wait=0)
    assert len(everything(store, "0")) == 3
    store.close()


def test_a_folder_is_not_waited_for_without_end(orphan: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LEAVING_TIMEOUT", 0.05)
    store = edge_store(tmp_path / "store", wait=0)
    with pytest.raises(ToolError) as failure:
        everything(store, "0")
    assert failure.value.code == "store_in_use"
    store.close()


def test_closing_waits_for_what_was_begun_and_leaves_no_process(running_store: ProcessStore) -> None:
    process = process_of(running_store)
    with stopped(process):
        write = Call(lambda ctx: put_one(running_store, "b", ctx)).begun()
        closing = threading.Thread(target=running_store.close)
        closing.start()
        wait_until(lambda: running_store.process_id is None)
    closing.join(30)
    assert not is_running(process)
    outcome = write.outcome()
    assert outcome is None or isinstance(outcome, Unavailable)
    with pytest.raises(Unavailable):
        found(running_store, "words")


def test_closing_kills_a_process_that_does_not_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = process_store(tmp_path / "store", patience=0.05)
    put(store, chunk("a"))
    process = process_of(store)
    with stopped(process):
        search = Call(lambda ctx: store.search(WORDS, ctx)).begun()
        store.close()
        assert isinstance(search.outcome(), Unavailable)
    assert not is_running(process)
    assert "is killed" in caplog.text
    again = process_store(tmp_path / "store")
    assert len(everything(again, "a")) == 1
    again.close()


@pytest.mark.parametrize(
    "code", ["write.write(b'words' * 9)", "receive(read); write.write(frame(0, Stats(''))); write.flush(); read.read()"]
)
def test_a_process_that_answers_nonsense_is_ended(
    code: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = engine_that(code, monkeypatch)
    error = Call(lambda ctx: engine.ask(Delete(Scope(object_ids=("a",))), ctx)).outcome()
    assert isinstance(error, ToolError)
    assert error.code == "store_crashed"
    wait_until(lambda: engine.is_over)
    assert "ended" in caplog.text
    engine.close(30)
