"""The memory of a task with all that its tools started is bounded, and nothing of it outlives the task."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from task_server import begun, ended, gone, lives, pipeline, processes, task_server

from rrext.cli.options import byte_size
from rrext.tasks.families import Families

MIB = 1 << 20
LIMIT = 256


@pytest.mark.promise("tasks:memory-bounded")
@pytest.mark.usefixtures("place")
async def test_a_task_that_takes_too_much_memory_is_ended_wherever_it_takes_it() -> None:
    async with task_server("--task-memory", f"{LIMIT}M") as server:
        for where, mib in (("here", 400), ("children", 100), ("session", 400), ("orphan", 400)):
            async with server.task() as (face, token), server.line() as line:
                waits = await begun(line, "nap", token)
                error = await face.tool_failure("grow", {"where": where, "mib": mib}, token=token)
                assert error.code == "task_lost"
                assert error.data["limit"] == "task_memory"
                assert error.data["maximum"] == LIMIT * MIB
                assert error.data["used"] > LIMIT * MIB
                assert error.data["ran"] == ["nap", "grow"]
                assert "and --task-memory is 256 MiB; it ran nap, grow" in error.message
                answer = await line.answer(waits)
                assert answer.error is not None
                assert answer.error.data == error.data
                assert "--task-memory is 256 MiB" in (await ended(face, token))["exitMessage"]
                assert await face.tool("add", {"a": 1, "b": 2}, token="face") == {"sum": 3}


@pytest.mark.promise("tasks:memory-bounded")
@pytest.mark.usefixtures("place")
async def test_a_pipeline_may_bound_its_own_memory_and_no_more_than_the_operator_permits() -> None:
    async with task_server("--task-memory", "300M") as server, server.connect() as face:
        for asked, limit, name in (("128 MiB", 128, "resources.memory"), ("4 GiB", 300, "task_memory")):
            body = await face.request("execute", {"pipeline": {**pipeline(), "resources": {"memory": asked}}})
            error = await face.tool_failure("grow", {"where": "here", "mib": 400}, token=body["token"])
            assert (error.code, error.data["limit"], error.data["maximum"]) == ("task_lost", name, limit * MIB)
    async with task_server() as server, server.connect() as face:  # which has no limit of its own
        body = await face.request("execute", {"pipeline": {**pipeline(), "resources": {"memory": "128 MiB"}}})
        error = await face.tool_failure("grow", {"where": "children", "mib": 100}, token=body["token"])
        assert "and resources.memory of its pipeline is 128 MiB" in error.message


@pytest.mark.promise("tasks:memory-bounded")
def test_memory_that_processes_share_counts_once() -> None:
    code = (
        "import os, signal\n"
        f"kept = bytearray(b'x') * ({MIB} * 100)\n"
        "children = [os.fork() for _ in range(3)]\n"
        "print(flush=True)\n"
        "signal.pause()"
    )
    parent = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert parent.stdout is not None
    try:
        for _ in range(8):
            parent.stdout.readline()
        families, workers = Families(), {1: (parent.pid, 0)}
        assert len(families.read(workers)) == 8
        assert families.over(workers, {1: 300 * MIB}) == []  # the pages of the eight are 800 MiB
        (excess,) = families.over(workers, {1: 50 * MIB})
        assert 100 * MIB < excess.used < 300 * MIB
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()
        parent.stdout.close()


@pytest.mark.promise("tasks:no-orphan")
@pytest.mark.parametrize("end", ["terminate", "kill", "server", "killed server", "killed stuck server"])
@pytest.mark.usefixtures("place")
async def test_processes_in_sessions_of_their_own_end_with_the_task(end: str) -> None:
    async with task_server() as server, server.task() as (face, token), server.line() as line:
        child = await face.tool("daemon", token=token)
        assert lives(child)
        if end == "terminate":
            await face.request("terminate", {"token": token})
        elif end == "kill":
            os.kill(await face.tool("pid", token=token), signal.SIGKILL)
        elif end == "killed server":
            os.kill(server.pid, signal.SIGKILL)
        elif end == "killed stuck server":
            await begun(line, "block", token)
            os.kill(server.pid, signal.SIGKILL)
        else:
            server.process.signal_group(signal.SIGTERM)
        await gone(child)


def marked(mark: bytes) -> set[int]:
    """The living processes with the mark of a worker."""
    found = set()
    for pid, _, state in processes():
        with suppress(OSError):
            if state != "Z" and mark in Path(f"/proc/{pid}/limits").read_bytes():
                found.add(pid)
    return found


@pytest.mark.promise("tasks:no-orphan")
@pytest.mark.usefixtures("place")
async def test_a_bomb_of_processes_ends_with_its_task() -> None:
    async with task_server() as server, server.task() as (face, token):
        pid = await face.tool("pid", token=token)
        mark = str(resource.prlimit(pid, resource.RLIMIT_RTTIME)[1]).encode()
        await face.tool("bomb", {"most": 32}, token=token)
        with anyio.fail_after(30):
            while len(marked(mark)) < 20:
                await anyio.sleep(0.01)
        await face.request("terminate", {"token": token})
        with anyio.fail_after(30):
            while marked(mark):
                await anyio.sleep(0.02)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("1G",), "is for processes of tasks: it needs --isolation process"),
        (("10M", "--isolation", "process"), "must be at least 64M"),
        (("much", "--isolation", "process"), "expected a size such as 512M or 2G, not 'much'"),
    ],
)
def test_a_limit_of_memory_that_cannot_be_kept_is_refused(options: tuple[str, ...], told: str) -> None:
    command = [sys.executable, "-m", "rrext", "serve", "--task-memory", *options]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 2
    assert told in done.stderr


@pytest.mark.parametrize(("text", "size"), [("5", 5), ("2K", 2048), ("512m", 512 * MIB), ("1GiB", 1024 * MIB)])
def test_sizes_have_units(text: str, size: int) -> None:
    assert byte_size(text) == size
