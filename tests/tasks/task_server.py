"""A server with tasks in processes of their own, and what the system says of these."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias
from uuid import uuid4

import anyio
from face import Face, Line, Way
from houses import ServerHouse, unix_server

from rrext.errors import RrextError
from rrext.transports.process import ChildProcess

Kind: TypeAlias = Literal["process", "hosts"]
WHERE: list[Kind] = ["process"]
"""Where the processes of tasks run now: on this machine, or on a host of a cluster."""

HERE = Path(__file__).resolve().parent
NODES = HERE / "dying_nodes.py"


def pipeline(project: str | None = None) -> dict[str, Any]:
    """A pipeline whose tools die."""
    return {
        "project_id": project or str(uuid4()),
        "source": "webhook_1",
        "components": [
            {"id": "webhook_1", "provider": "webhook", "config": {}},
            {"id": "dying_1", "provider": "dying", "config": {}, "input": [{"lane": "text", "from": "webhook_1"}]},
            {
                "id": "out_1",
                "provider": "response_text",
                "config": {"laneName": "text"},
                "input": [{"lane": "text", "from": "dying_1"}],
            },
        ],
    }


class TaskServer(ServerHouse):
    """A server, with its process."""

    def __init__(self, kind: Kind, address: str, process: ChildProcess) -> None:
        super().__init__(Way(kind), address)
        self.process = process

    @asynccontextmanager
    async def task(self, **more: Any) -> AsyncIterator[tuple[Face, str]]:
        """A connection, and the token of a pipeline of its own."""
        async with self.connect() as face:
            body = await face.request("execute", {"pipeline": pipeline(), **more})
            yield face, body["token"]

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self.process._popen.pid


async def begun(line: Line, tool: str, token: str, **input: Any) -> Any:
    """The id of a call that has reported."""
    number = await line.call(tool, input, token=token, progress=True)
    await line.message(number, 0)
    return number


def processes() -> Iterator[tuple[int, int, str]]:
    """Number, parent and state of each process."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError):
                fields = (Path("/proc") / name / "stat").read_text().rpartition(")")[2].split()
                yield int(name), int(fields[1]), fields[0]


def descendants(pid: int) -> set[int]:
    """All living processes below one."""
    parents = {number: parent for number, parent, state in processes() if state != "Z"}
    found = {pid}
    while more := {number for number, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def workers(pid: int) -> set[int]:
    """The processes of tasks, and the warm one, of a server."""
    found = set()
    for number in descendants(pid):
        with suppress(OSError):  # it has ended meanwhile
            if b"worker_main" in Path(f"/proc/{number}/cmdline").read_bytes():
                found.add(number)
    return found


async def others(server: TaskServer, own: int) -> set[int]:
    """The processes of the server's file and the warm one, with their watchdogs; `own` is another task's."""
    with anyio.fail_after(30):
        while len(found := workers(server.pid) - {own} - descendants(own)) < 4:
            await anyio.sleep(0.02)
    return found


async def stopped(*pids: int) -> None:
    """Stop processes."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    with anyio.fail_after(30):
        while any(state != "T" for pid, _, state in processes() if pid in pids):  # it takes effect when they run next
            await anyio.sleep(0.02)


def lives(pid: int) -> bool:
    """Whether a process runs."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def gone(*pids: int) -> None:
    """Return when none of these processes lives."""
    with anyio.fail_after(30):
        while any(map(lives, pids)):
            await anyio.sleep(0.02)


async def ended(face: Face, token: str) -> dict[str, Any]:
    """The status of a task that has ended."""
    with anyio.fail_after(30):
        while True:
            status = await face.request("rrext_get_task_status", {"token": token})
            if status["completed"]:
                return status
            await anyio.sleep(0.02)


async def failure(face: Face, command: str, arguments: dict[str, Any]) -> RrextError:
    """The error of a request."""
    try:
        await face.request(command, arguments)
    except RrextError as error:
        return error
    raise AssertionError(f"{command} did not fail")


@asynccontextmanager
async def task_server(*args: str, kind: Kind | None = None, **flags: Any) -> AsyncIterator[TaskServer]:
    """A started server."""
    kind = kind or WHERE[0]
    async with unix_server(None, "--nodes", str(NODES), *args, kind=kind, **flags) as (address, process):
        server = TaskServer(kind, address, process)
        below = descendants(server.pid)
        yield server
        below |= descendants(server.pid)
        process.signal_group(signal.SIGTERM)
    await gone(*below)
