"""Nobody else waits for the embedded store's process, and it knows only what it has to."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from edge_calls import (
    WORDS,
    Call,
    WatchedToken,
    engine_that,
    process_of,
    stopped,
)
from edge_process import process_store
from vector_contract import SIZE, call, chunk, everything, found, in_threads, put

from rrext.errors import Cancelled, ToolTimeout, Unavailable
from rrext.nodes.embeddings.embedder import HashingEmbedder
from rrext.nodes.vectors.checked_input import drafts_of
from rrext.nodes.vectors.edge.messages import QDRANT_BATCH, Delete
from rrext.nodes.vectors.edge.node import ProcessStore
from rrext.nodes.vectors.node import store_drafts
from rrext.nodes.vectors.store import NOBODYS, Scope
from rrext.testing import open_pipeline
from rrext.tools.context import ToolContext


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
        "store = ProcessStore(lambda: (sys.argv[1], 'shown'), min_free=0, wait=0); put(store, chunk('a')); store.close()\n"
        "print('qdrant_edge' in sys.modules)"
    )
    tests = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store")],
        env={"PYTHONPATH": f"{tests}:{tests.parents[1]}"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_fifty_searches_are_answered_while_chunks_are_stored(running_store: ProcessStore) -> None:
    def work(n: int) -> None:
        if n == 0:
            for turn in range(15):
                put(running_store, *(chunk(f"o{turn}", k, f"word{turn} common") for k in range(QDRANT_BATCH)))
        else:
            assert found(running_store, "some words", "hybrid", top_k=1) == ["a"]
            assert [hit.chunk.object_id for hit in running_store.search(WORDS, call())] == ["a"]

    in_threads(work, 51)
    assert running_store.stats(call()).chunks == 15 * QDRANT_BATCH + 1


def test_a_call_that_nobody_waits_for_ends_though_the_process_hangs(running_store: ProcessStore) -> None:
    process = process_of(running_store)
    with stopped(process):
        cancelled = Call(lambda ctx: running_store.search(WORDS, ctx)).begun()
        cancelled.token.cancel()
        assert isinstance(cancelled.outcome(), Cancelled)
        with pytest.raises(ToolTimeout):
            running_store.get("a", 0, 10, ToolContext(deadline=time.monotonic() + 0.01))
    assert found(running_store, "words", "keyword") == ["a"]
    assert process_of(running_store) == process


def stands(process: int) -> bool:
    """Whether all threads of a process have stopped: it may work for a moment after the signal."""
    states = [path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{process}/task").glob("*/stat")]
    return set(states) == {"T"}


@pytest.mark.parametrize("pieces", [0, 2])
def test_an_upsert_that_is_cancelled_in_the_middle_stores_nothing(pieces: int, running_store: ProcessStore) -> None:
    process = process_of(running_store)
    token = WatchedToken()
    drafts = drafts_of([{"content": f"text {n}", "object_id": "a", "metadata": {"chunkId": n}} for n in range(600)], NOBODYS)

    def report(value: float, total: float | None, message: str | None) -> None:
        if value == (1 + pieces) * QDRANT_BATCH:
            os.kill(process, signal.SIGSTOP)  # the next piece is sent, and not answered
            while not stands(process):
                pass
            token.heard.clear()
            reached.set()

    reached = threading.Event()
    ctx = ToolContext(token=token, report=report)
    upsert = Call(lambda _: store_drafts(running_store, HashingEmbedder(SIZE), drafts, ctx, owner=NOBODYS, replace=True))
    try:
        assert reached.wait(30)
        assert token.heard.wait(30)
        token.cancel()
    finally:
        os.kill(process, signal.SIGCONT)
    assert isinstance(upsert.outcome(), Cancelled)
    assert [one.content for one in everything(running_store, "a")] == ["some words"]


def test_signals_for_the_whole_group_are_the_servers_business(running_store: ProcessStore) -> None:
    process = process_of(running_store)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(process, number)
    assert len(everything(running_store, "a")) == 1
    assert process_of(running_store) == process


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


def test_the_process_hears_of_a_cancelled_write_and_says_what_became_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
import msgspec
while (received := receive(read)) is not None:
    message = msgspec.msgpack.decode(received[1], type=Message)
    if isinstance(message, Cancel):
        write.write(frame(received[0], Done(msgspec.json.encode(message.reason))))
        write.flush()
"""
    engine = engine_that(code, monkeypatch)
    write = Call(lambda ctx: engine.ask(Delete(Scope(object_ids=("a",))), ctx)).begun()
    write.token.cancel("disconnected")
    assert write.outcome() == b'"disconnected"'
    late = ToolContext(deadline=time.monotonic() + 0.01)
    assert engine.ask(Delete(Scope(object_ids=("a",))), late) == b'"timeout"'
    engine.close(30)
    assert engine.is_over


def test_the_engines_words_go_to_the_standard_error_and_not_between_the_answers(tmp_path: Path) -> None:
    code = "import os, sys; from rrext.nodes.child.worker import private_streams; a, b = private_streams();"
    code += "print('words', flush=True); os.write(1, b'of C'); b.write(a.read()); b.flush(); assert not sys.stdin.read()"
    done = subprocess.run([sys.executable, "-c", code], input=b"frames", capture_output=True, timeout=50, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"frames", b"words\nof C")
