"""The embedded store's process: nobody else waits for it, its end is an error and no loss, and it ends with its server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from edge_process import process_store, writer
from vector_contract import SIZE, SPACE, call, chunk, everything, found, in_threads, put

from rrext.errors import Cancelled, RrextError, ToolError, ToolTimeout, Unavailable
from rrext.nodes.embeddings.hashing import HashingEmbedder, hashed
from rrext.nodes.vectors.edge.remote import ProcessStore
from rrext.nodes.vectors.embedded import store_drafts
from rrext.nodes.vectors.incoming import drafts_of
from rrext.nodes.vectors.store import Search
from rrext.testing import open_pipeline
from rrext.tools.context import CancelToken, ToolContext

WORDS = Search("keyword", 100, "words")


class WatchedToken(CancelToken):
    """Tells when a call begins to listen to it, which is just before it asks the process."""

    __slots__ = ("heard",)

    def __init__(self) -> None:
        super().__init__()
        self.heard = threading.Event()

    def on_cancel(self, listener: Callable[[], object]) -> None:
        super().on_cancel(listener)
        self.heard.set()


class Call(threading.Thread):
    """A call in a thread of its own. `begun()` returns when it is about to ask, `outcome()` is what it returned or raised."""

    def __init__(self, work: Callable[[ToolContext], object]) -> None:
        super().__init__(daemon=True)
        self.token = WatchedToken()
        self._work = work
        self._outcome: object = None
        self.start()

    def run(self) -> None:
        try:
            self._outcome = self._work(call(self.token))
        except RrextError as error:
            self._outcome = error

    def begun(self) -> Call:
        assert self.token.heard.wait(30)
        return self

    def outcome(self) -> object:
        self.join(30)
        assert not self.is_alive()
        return self._outcome


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ProcessStore]:
    """A store with one chunk, its process running."""
    store = process_store(tmp_path / "store")
    put(store, chunk("a"))
    yield store
    store.close()


def process_of(store: ProcessStore) -> int:
    assert store.process_id is not None
    return store.process_id


@contextmanager
def stopped(process: int) -> Iterator[None]:
    """The process does nothing at all meanwhile, as one whose engine is busy for ever."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        if is_running(process):
            os.kill(process, signal.SIGCONT)


def is_running(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def children_of(process: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = path.read_text().rpartition(")")[2].split()[1]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(parent) == process:
            found.append(int(path.parent.name))
    return found


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


async def test_a_store_that_hangs_holds_up_neither_the_server_nor_another_tool(tmp_path: Path) -> None:
    control = [{"classType": "tool", "from": "tools"}]
    components = [
        {"id": "tools", "provider": "tools", "config": {}},
        *(
            {"id": name, "provider": "store_embedded", "config": {"path": str(tmp_path / name), "min_free_bytes": 0}}
            | {"control": control}
            for name in ("one", "other")
        ),
    ]
    async with open_pipeline({"components": components}) as client:
        await client.vectors.upsert([{"content": "words", "object_id": "a"}], node_id="one")
        process = (await client.vectors.stats(node_id="one"))["details"]["process"]
        with stopped(process):
            calls = [asyncio.create_task(client.vectors.stats(node_id="one")) for _ in range(8)]
            for n in range(20):
                await client.ping()
                await client.vectors.upsert([{"content": "words", "object_id": f"o{n}"}], node_id="other")
            assert (await client.vectors.stats(node_id="other"))["count"] == 20
            assert not any(one.done() for one in calls)
        assert [stats["count"] for stats in await asyncio.gather(*calls)] == [1] * 8


def test_the_engine_is_not_in_the_process_of_the_server(tmp_path: Path) -> None:
    code = (
        "import sys; from edge_process import ProcessStore; from vector_contract import *\n"
        "store = ProcessStore(lambda: (sys.argv[1], 'shown'), min_free=0); put(store, chunk('a')); store.close()\n"
        "print('qdrant_edge' in sys.modules)"
    )
    tests = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store")],
        env={"PYTHONPATH": f"{tests}:{tests.parent}"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_fifty_searches_are_answered_while_chunks_are_stored(store: ProcessStore) -> None:
    def work(n: int) -> None:
        if n == 0:
            for turn in range(15):
                put(store, *(chunk(f"o{turn}", k, f"word{turn} common") for k in range(store.batch_size)))
        else:
            assert found(store, "some words", "hybrid", top_k=1) == ["a"]
            assert [hit.chunk.object_id for hit in store.search(WORDS, call())] == ["a"]

    in_threads(work, 51)
    assert store.stats(call()).chunks == 15 * store.batch_size + 1


def put_one(store: ProcessStore, name: str, ctx: ToolContext) -> None:
    store.upsert([chunk(name)], [hashed("some words", SIZE)], SPACE, ctx)


def test_calls_of_a_process_that_is_killed_fail_and_the_next_one_starts_another(store: ProcessStore) -> None:
    first = process_of(store)
    with stopped(first):
        calls = [
            Call(lambda ctx: store.search(WORDS, ctx)).begun(),
            Call(lambda ctx: put_one(store, "b", ctx)).begun(),
            Call(lambda ctx: store.list(None, 0, 10, ctx)).begun(),
        ]
        os.kill(first, signal.SIGKILL)
        for one in calls:
            error = one.outcome()
            assert isinstance(error, ToolError)
            assert error.code == "store_crashed"
            assert "SIGKILL" in error.message
            assert "Call again" in (error.hint or "")
    assert found(store, "words", "keyword")[0] == "a"
    assert process_of(store) != first
    put(store, chunk("c"))
    assert len(everything(store, "a", "c")) == 2


def test_a_process_that_is_killed_while_nobody_calls_is_not_missed(store: ProcessStore) -> None:
    for n in range(3):
        first = process_of(store)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: store.process_id is None)
        put(store, chunk(f"o{n}"))
        assert process_of(store) != first
    assert len(everything(store, "a", "o0", "o1", "o2")) == 4


def test_a_call_that_nobody_waits_for_ends_though_the_process_hangs(store: ProcessStore) -> None:
    process = process_of(store)
    with stopped(process):
        cancelled = Call(lambda ctx: store.search(WORDS, ctx)).begun()
        cancelled.token.cancel()
        assert isinstance(cancelled.outcome(), Cancelled)
        with pytest.raises(ToolTimeout):
            store.get("a", 0, 10, ToolContext(deadline=time.monotonic() + 0.01))
    assert found(store, "words", "keyword") == ["a"]
    assert process_of(store) == process


def test_an_upsert_that_is_cancelled_in_the_middle_tells_what_was_stored(store: ProcessStore) -> None:
    process = process_of(store)
    token = WatchedToken()
    drafts = drafts_of([{"content": f"text {n}", "object_id": f"o{n}"} for n in range(600)])

    def report(value: float, total: float | None, message: str | None) -> None:
        if value == 2 * store.batch_size:
            os.kill(process, signal.SIGSTOP)  # the third piece is sent, and not answered
            token.heard.clear()
            reached.set()

    reached = threading.Event()
    upsert = Call(lambda ctx: store_drafts(store, HashingEmbedder(SIZE), drafts, ToolContext(token=token, report=report)))
    try:
        assert reached.wait(30)
        assert token.heard.wait(30)
        token.cancel()
    finally:
        os.kill(process, signal.SIGCONT)
    error = upsert.outcome()
    assert isinstance(error, Cancelled)
    assert error.data["stored"] == store.stats(call()).chunks - 1
    assert error.data["stored"] in (2 * store.batch_size, 3 * store.batch_size)


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


def test_closing_waits_for_what_was_begun_and_leaves_no_process(store: ProcessStore) -> None:
    process = process_of(store)
    with stopped(process):
        write = Call(lambda ctx: put_one(store, "b", ctx)).begun()
        closing = threading.Thread(target=store.close)
        closing.start()
        wait_until(lambda: store.process_id is None)
    closing.join(30)
    assert not is_running(process)
    outcome = write.outcome()
    assert outcome is None or isinstance(outcome, Unavailable)
    with pytest.raises(Unavailable):
        found(store, "words")


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


def test_signals_for_the_whole_group_are_the_servers_business(store: ProcessStore) -> None:
    process = process_of(store)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(process, number)
    assert len(everything(store, "a")) == 1
    assert process_of(store) == process


def test_no_secret_of_the_environment_reaches_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "hush-hush")
    monkeypatch.setenv("ROCKETRIDE_TOKEN", "hush-hush")
    store = process_store(tmp_path)
    assert store.space(call()) is None
    seen = b"".join(Path(f"/proc/{process_of(store)}/{name}").read_bytes() for name in ("environ", "cmdline"))
    store.close()
    assert b"PYTHONPATH=" in seen
    assert b"hush-hush" not in seen


def test_a_process_that_cannot_be_started_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = process_store(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    with pytest.raises(Unavailable, match="cannot be started"):
        store.space(call())
    monkeypatch.undo()
    assert store.space(call()) is None
    store.close()


def test_the_engines_words_go_to_the_standard_error_and_not_between_the_answers(tmp_path: Path) -> None:
    code = "import os, sys; from rrext.nodes.vectors.edge.worker import private_streams; a, b = private_streams();"
    code += "print('words', flush=True); os.write(1, b'of C'); b.write(a.read()); b.flush(); assert not sys.stdin.read()"
    done = subprocess.run([sys.executable, "-c", code], input=b"frames", capture_output=True, timeout=50, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"frames", b"words\nof C")
