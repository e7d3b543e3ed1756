"""Threads that sync code runs on: reused, bounded by nobody but their callers, and clean between two jobs."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextvars import ContextVar
from pathlib import Path

import pytest
from engine_world import world

from rrext.engine.calls.run import CallRun
from rrext.errors import Unavailable
from rrext.limits import HEAPS, MAX_PARSE_FAILURES
from rrext.nodes.base.node import Node
from rrext.threads import FEW_HEAPS, NoThread, OwnThread, Workers, imported
from rrext.tools.decorator import tool_function

who: ContextVar[str] = ContextVar("who", default="nobody")


def done_by(run, job) -> None:
    """Return when `run` has run `job`."""
    done = threading.Event()
    run(lambda: (job(), done.set()))
    assert done.wait(10)


def parked(workers: Workers, count: int) -> None:
    while len(workers.parked) < count:
        threading.Event().wait(0.001)


HEAPS_OF_THREADS = """
import ctypes, os, sys, threading
from rrext.threads import FEW_HEAPS, prepare_for_many

prepare_for_many()
assert not FEW_HEAPS.keys() & os.environ.keys(), "its children would be told too"
all_there = threading.Barrier(8)
threads = [threading.Thread(target=lambda: (bytes(100_000), all_there.wait())) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
library = ctypes.CDLL(None)
library.fdopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(library.fdopen(1, b"w"))
library.malloc_info(0, out)
library.fflush(out)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="asks glibc")
@pytest.mark.parametrize("told", [{}, FEW_HEAPS], ids=["told by a call", "told at its start"])
def test_the_threads_of_a_server_share_few_heaps(told: dict[str, str]) -> None:
    env = {**os.environ, **told}
    done = subprocess.run([sys.executable, "-c", HEAPS_OF_THREADS], env=env, capture_output=True, text=True, check=True)
    assert 1 <= done.stdout.count("<heap nr=") <= HEAPS


def test_a_thread_that_is_free_is_used_again() -> None:
    workers, seen = Workers(), []
    for _ in range(5):
        done_by(workers.run, lambda: seen.append(threading.get_ident()))
        parked(workers, 1)
    assert len(set(seen)) == 1


def test_jobs_that_wait_for_each_other_all_run_at_once() -> None:
    workers, barrier, passed = Workers(), threading.Barrier(21), []
    for _ in range(20):
        workers.run(lambda: passed.append(barrier.wait(10)))
    barrier.wait(10)
    parked(workers, 20)
    assert len(passed) == 20


@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt, StopIteration, GeneratorExit])
def test_a_job_that_raises_does_not_cost_its_thread(raised: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    workers, seen = Workers(), []

    def fail() -> None:
        seen.append(threading.get_ident())
        raise raised

    workers.run(fail)
    parked(workers, 1)
    done_by(workers.run, lambda: seen.append(threading.get_ident()))
    assert seen[0] == seen[1]
    assert "a job failed outside of its call" in caplog.text


@pytest.mark.parametrize("make", [Workers, lambda: OwnThread("test")], ids=["workers", "own thread"])
def test_what_one_job_puts_into_a_context_variable_the_next_does_not_see(make) -> None:
    threads, seen = make(), []

    def look_and_set() -> None:
        seen.append((threading.get_ident(), who.get()))
        who.set("me")

    for _ in range(3):
        done_by(threads.run, look_and_set)
        if isinstance(threads, Workers):
            parked(threads, 1)
    assert len({thread for thread, _ in seen}) == 1
    assert [name for _, name in seen] == ["nobody"] * 3


def test_a_call_on_the_reading_thread_has_an_empty_context_also_if_the_thread_has_variables() -> None:
    seen: list[str] = []

    class Look(CallRun):
        def run(self) -> None:
            seen.append(who.get())
            who.set("inside")

    token = who.set("outside")
    try:
        Look.run_here(object.__new__(Look))
        assert seen == ["nobody"]
        assert who.get() == "outside"
    finally:
        who.reset(token)


def test_a_parked_thread_keeps_nothing_of_its_last_job_alive() -> None:
    import weakref

    class Input:
        pass

    workers, given = Workers(), Input()
    gone = weakref.ref(given)
    done_by(workers.run, lambda given=given: given)
    parked(workers, 1)
    del given
    assert gone() is None


def test_without_more_threads_a_job_waits_for_one_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    workers, stay, ran = Workers(), threading.Event(), threading.Event()
    workers.run(lambda: stay.wait(10))

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    workers.run(ran.set)
    assert not ran.is_set()
    stay.set()
    assert ran.wait(10)


def test_a_thread_that_parked_meanwhile_takes_the_job_that_found_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    workers, stay, ran = Workers(), threading.Event(), threading.Event()
    workers.run(lambda: stay.wait(10))

    def refuse(self: threading.Thread) -> None:
        stay.set()  # between the look for a free thread and the attempt to start one
        parked(workers, 1)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    workers.run(ran.set)
    assert ran.wait(10)


def test_a_system_without_a_single_thread_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(NoThread):
        Workers().run(lambda: None)


# -- a thread of one's own


@pytest.mark.parametrize(("failures", "is_imported"), [(0, True), (MAX_PARSE_FAILURES, True), (MAX_PARSE_FAILURES + 1, False)])
def test_an_import_that_the_parser_fails_is_tried_again(
    failures: int, is_imported: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "parses_badly.py").write_text(
        "import sys\nsys.parse_failures -= 1\nif sys.parse_failures >= 0:\n    raise SystemError('depth mismatch')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "parse_failures", failures, raising=False)
    monkeypatch.delitem(sys.modules, "parses_badly", raising=False)
    if is_imported:
        assert imported("parses_badly") is sys.modules["parses_badly"]
    else:
        with pytest.raises(SystemError):
            imported("parses_badly")


def test_jobs_of_an_own_thread_run_in_order_on_one_thread() -> None:
    own, seen, done = OwnThread("test"), [], threading.Event()
    for number in range(50):
        own.run(lambda number=number: seen.append((threading.get_ident(), number, own.is_current)))
    own.run(done.set)
    assert done.wait(10)
    assert [number for _, number, _ in seen] == list(range(50))
    assert len({thread for thread, _, _ in seen}) == 1
    assert all(current for *_, current in seen)
    assert not own.is_current


def test_who_waits_on_an_own_thread_serves_inner_jobs_and_leaves_the_others() -> None:
    own, order, future = OwnThread("test"), [], Future()
    inside, done = threading.Event(), threading.Event()

    def outer() -> None:
        inside.set()
        own.serve_until(future)
        order.append("outer")

    own.run(outer)
    assert inside.wait(10)
    own.run(lambda: order.append("other"))
    own.run(done.set)
    done_by(own.run_inner, lambda: order.append("inner"))
    assert order == ["inner"]
    future.set_result(None)
    assert done.wait(10)
    assert order == ["inner", "outer", "other"]


def test_waits_inside_each_other_end_from_the_inside_out() -> None:
    own, order = OwnThread("test"), []
    first, second = Future(), Future()
    inner_waits, done = threading.Event(), threading.Event()

    def inner() -> None:
        inner_waits.set()
        own.serve_until(second)
        order.append("inner")

    def outer() -> None:
        own.run_inner(inner)
        own.serve_until(first)
        order.append("outer")
        done.set()

    own.run(outer)
    assert inner_waits.wait(10)
    first.set_result(None)  # the outer one could go on, but its stack is below
    second.set_result(None)
    assert done.wait(10)
    assert order == ["inner", "outer"]


def test_a_wait_for_what_is_done_does_not_wait() -> None:
    own, future = OwnThread("test"), Future()
    future.set_exception(ValueError())
    done_by(own.run, lambda: own.serve_until(future))


def test_an_own_thread_ends_after_the_jobs_it_has() -> None:
    own, seen = OwnThread("ends"), []
    gate = threading.Event()
    own.run(lambda: gate.wait(10))
    own.run(lambda: seen.append(1))
    own.stop()
    thread = next(thread for thread in threading.enumerate() if thread.name == "ends")
    gate.set()
    thread.join(10)
    assert not thread.is_alive()
    assert seen == [1]


def test_stopped_workers_leave_no_thread_behind_and_still_run_what_comes() -> None:
    before = set(threading.enumerate())
    workers, stay = Workers(), threading.Event()
    for _ in range(3):
        workers.run(lambda: stay.wait(10))
    mine = set(threading.enumerate()) - before
    done_by(workers.run, lambda: None)
    parked(workers, 1)
    workers.stop()
    done_by(workers.run, lambda: None)
    stay.set()
    for thread in mine | (set(threading.enumerate()) - before):
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.promise("call:no-thread:error")
async def test_a_call_for_which_there_is_no_thread_fails_and_gives_back_what_it_held(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tools(Node):
        provider = "some_tools"
        lanes = {"text": ()}

        @tool_function
        def quick(self) -> int:
            return 1

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async with world(Tools) as w:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            assert isinstance(await w.tool("quick").error(), Unavailable)
        assert w.is_at_rest
        assert await w.tool("quick").result() == 1
