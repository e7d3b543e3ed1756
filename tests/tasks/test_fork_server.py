"""The process that forks workers: it may die or be stopped at any time, and workers have nothing of it or of each other."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from task_server import TaskServer, begun, gone, lives, others, pipeline, processes, stopped, workers

from rrext.limits import DEFAULTS
from rrext.tasks import fork_server
from rrext.tasks.fork_server import WorkerStarter
from rrext.tasks.settings import WorkerSettings
from rrext.tasks.worker_process import WorkerProcess, process_lost

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone"),
    pytest.mark.promise("tasks:forked"),
    pytest.mark.usefixtures("of_this_machine"),
]

SIGNALS = ("SigBlk", "SigIgn", "SigCgt", "NoNewPrivs", "Umask", "Nice")


def parents() -> dict[int, int]:
    """Living process → its parent."""
    return {pid: parent for pid, parent, state in processes() if state != "Z"}


def forks_for(pid: int) -> int:
    """The fork server of an rrext server."""
    (found,) = [
        child
        for child, parent in parents().items()
        if parent == pid and b"fork_server" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    return found


def links(pid: int) -> set[str]:
    """The pipes and sockets of a process."""
    found = {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()}
    return {link for link in found if link.startswith(("pipe:", "socket:"))}


async def test_the_fork_server_has_one_thread_and_ends_with_the_server(server: TaskServer) -> None:
    async with server.task() as (face, token):
        pid, forks = await face.tool("pid", token=token), forks_for(server.pid)
        assert parents()[pid] == forks
        assert forks not in workers(server.pid)
        assert len(os.listdir(f"/proc/{forks}/task")) == 1
        await stopped(pid)
        os.kill(server.pid, signal.SIGKILL)
        await gone(forks, pid)


async def test_a_worker_shares_no_pipe_and_no_random_numbers_with_another_one(server: TaskServer) -> None:
    async with server.task() as (face, one), server.task() as (_, other):
        pids = [await face.tool("pid", token=token) for token in (one, other)]
        forks = forks_for(server.pid)
        first, second, third = (links(pid) for pid in (*pids, forks))
        assert first
        assert first.isdisjoint(second)
        assert third.isdisjoint(first | second)
        assert await face.tool("draw", token=one) != await face.tool("draw", token=other)


async def test_calls_go_on_when_the_fork_server_dies_and_the_next_start_makes_another(server: TaskServer) -> None:
    async with server.task() as (face, token), server.line() as line:
        pid, forks = await face.tool("pid", token=token), forks_for(server.pid)
        pending = await begun(line, "nap", token)
        os.kill(forks, signal.SIGKILL)
        await gone(forks)
        for _ in range(2):  # one has started ahead
            again = (await face.request("execute", {"pipeline": pipeline()}))["token"]
            assert lives(await face.tool("pid", token=again))
        assert forks_for(server.pid) != forks
        assert await face.tool("pid", token=token) == pid
        error = await face.tool_failure("die", {"how": "exit", "say": "my last words"}, token=token)
        assert error.code == "task_lost"
        assert error.data.get("exitCode") in (7, None)  # the system may have forgotten it before the server looks
        assert "my last words" in error.message
        assert (await line.answer(pending)).error.code == "task_lost"  # type: ignore[union-attr]


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_start_succeeds_during_which_the_fork_server_is_stopped_or_killed(server: TaskServer, is_killed: bool) -> None:
    async with server.task() as (face, token):
        own, forks = await face.tool("pid", token=token), forks_for(server.pid)
        await others(server, own)
        await stopped(forks)
        started: list[int] = []

        async def execute() -> None:
            body = await face.request("execute", {"pipeline": pipeline()})
            started.append(await face.tool("pid", token=body["token"]))

        async with anyio.create_task_group() as starts:
            for _ in range(4):
                starts.start_soon(execute)
            with anyio.fail_after(30):
                while not started:  # in the one that has started ahead
                    await anyio.sleep(0.005)
            if is_killed:
                os.kill(forks, signal.SIGKILL)
        assert len({own, *started}) == 5
        assert (forks_for(server.pid) != forks) is is_killed


async def test_the_end_of_a_process_is_told_while_the_fork_server_is_stopped(server: TaskServer) -> None:
    async with server.task() as (face, token):
        own, forks = await face.tool("pid", token=token), forks_for(server.pid)
        await others(server, own)
        await stopped(forks)
        error = await face.tool_failure("die", {"how": "abort"}, token=token)
        assert error.data["exitCode"] == -signal.SIGABRT


@pytest.fixture
def starters(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[WorkerStarter, WorkerStarter]]:
    """A starter that forks and a starter of fresh interpreters, in a process that ignores a signal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    forking, executing = WorkerStarter(), WorkerStarter()
    try:
        yield forking, executing
    finally:
        signal.signal(signal.SIGHUP, before)
        forking.close()


def seen(pid: int) -> dict[str, Any]:
    """What the system tells of a process, but for its number and its memory."""
    told: dict[str, Any] = {name: Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ", "limits", "comm")}
    told["cwd"] = os.readlink(f"/proc/{pid}/cwd")
    told["standard"] = [os.readlink(f"/proc/{pid}/fd/{number}").partition(":")[0] for number in range(3)]
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    told.update({name: status[name] for name in SIGNALS if name in status})
    told["leads"] = (os.getsid(pid) == pid, os.getpgid(pid) == pid)
    told["cgroup"] = Path(f"/proc/{pid}/cgroup").read_text()
    return told


async def test_a_forked_worker_is_to_the_system_what_a_fresh_interpreter_is(
    starters: tuple[WorkerStarter, WorkerStarter], monkeypatch: pytest.MonkeyPatch
) -> None:
    forking, executing = starters
    started = [forking.start()]
    monkeypatch.setattr(fork_server, "_tells_ends", lambda pid: False)
    started.append(executing.start())
    (forked, *_), (fresh, *_) = started
    assert parents()[forked.pid] == forking.parent != os.getpid() == parents()[fresh.pid] == executing.parent
    with anyio.fail_after(30):
        while seen(forked.pid) != seen(fresh.pid):  # until both wait for their settings
            await anyio.sleep(0.01)
    for _, *streams in started:
        for stream in streams:
            os.close(stream)
    assert fresh.wait() == 0
    with anyio.fail_after(30):
        while parents().get(forked.pid):
            await anyio.sleep(0.01)
    assert forked.wait() == 0


class Ends:
    """What hears of a process."""

    def __init__(self) -> None:
        self.ended = anyio.Event()

    def readable(self) -> None:
        """Nothing."""

    def wrote_stderr(self, text: bytes) -> None:
        """Nothing."""

    def note_excess(self, excess: Any) -> None:
        """Nothing."""

    def exited(self) -> None:
        """Remember it."""
        self.ended.set()


@pytest.mark.parametrize("has_descriptors", [True, False])
async def test_a_worker_that_the_system_has_forgotten_gets_no_signal_and_has_no_exit_code(
    starters: tuple[WorkerStarter, WorkerStarter], monkeypatch: pytest.MonkeyPatch, has_descriptors: bool
) -> None:
    starter, _ = starters
    if not has_descriptors:
        starter.start()
        monkeypatch.setattr(os, "pidfd_open", lambda pid: os.open("/nowhere", os.O_RDONLY))
    worker = WorkerProcess(WorkerSettings(number=1, limits=DEFAULTS), starter)
    sent = list[tuple[int, int]]()
    monkeypatch.setattr(os, "killpg", lambda *given: sent.append(given))
    worker.signal_group(signal.SIGCONT)
    assert sent == [(worker.pid, signal.SIGCONT)]
    starter.close()  # from now on the system itself takes the exit code
    os.kill(worker.pid, signal.SIGKILL)
    with anyio.fail_after(30):
        while worker.pid in {pid for pid, _, _ in processes()}:
            await anyio.sleep(0.005)
    worker.signal_group(signal.SIGKILL)  # another process may have its number by now
    ends, loop = Ends(), asyncio.get_running_loop()
    worker.sink(loop)
    worker.watch(loop, ends)
    with anyio.fail_after(30):
        await ends.ended.wait()
    assert len(sent) == 1
    assert worker.exit_code is None
    assert process_lost("p", worker.how, worker.exit_code, None).data == {}
    worker.stop_reading()
    worker.close()
