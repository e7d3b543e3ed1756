"""Many tasks of many users: what a dashboard and the end of a connection cost, in the server and with a process for each."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from socket import SHUT_RDWR
from typing import Any

from bench_client import processor_seconds
from bench_hop import PLACES
from bench_sockets import WebServer
from bench_subject import Figures, Size, Subject, no_collector
from websockets.sync.client import ClientConnection, connect

USERS = 10
TASKS = {"process": 100, "none": 1000}
"""Isolation → tasks of all users; a process has 14 MiB."""
LEAVING = 100
"""Connections that end together."""
USED = 10
"""Tasks in which each of them has a pipe."""
LOOKS = 21
REST = 0.5
"""Seconds in which the ends of connections are over."""


def many_tasks(subject: Subject, size: Size) -> Figures:
    """Milliseconds of a dashboard, with a tenth of the tasks used before it, and of the server for the end of a connection."""
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys.toml"
        keys.write_text("".join(f'"{key_of(user)}" = "user-{user}"\n' for user in range(USERS)))
        keys.chmod(0o600)
        for isolation, place in PLACES.items():
            command = [*subject.command, "--keys", str(keys), "--isolation", isolation, "--ws", "127.0.0.1:0"]
            with WebServer(command, seconds=600) as server:
                found = looked(server, TASKS[isolation] // size.fewer, json.loads(Path(subject.command[-1]).read_text()))
            figures |= {f"{name}, in {place} ms": value for name, value in found.items()}
    return figures


def looked(server: WebServer, tasks: int, pipeline: dict[str, Any]) -> Figures:
    """The figures of one server."""
    with ExitStack() as stack:
        users = [stack.enter_context(Asking(server, user)) for user in range(USERS)]
        for number in range(tasks):
            users[number % USERS].ask("execute", pipeline=pipeline | {"project_id": f"p{number}"}, token=f"t{number}")
        found: list[float] = []
        with no_collector():
            for _ in range(LOOKS):
                for number in range(0, tasks, USERS + 1):
                    users[number % USERS].process("tool", number, tool="add", nodeId="bench_1", input={"a": 1, "b": 2})
                begun = time.perf_counter()
                users[0].ask("rrext_dashboard")
                found.append((time.perf_counter() - begun) * 1e3)
        with ExitStack() as leaving:
            for each in range(LEAVING):
                asking = leaving.enter_context(Asking(server, each % USERS))
                for number in range(each % USERS, min(tasks, USED * USERS), USERS):
                    asking.process("open", number, mimeType="text/plain")
            time.sleep(REST)
            before = processor_seconds(server.process.pid)
        time.sleep(REST)
        ended = (processor_seconds(server.process.pid) - before) / LEAVING * 1e3
    return {"dashboard": statistics.median(found), "end of a connection": ended}


def key_of(user: int) -> str:
    """The key of a user."""
    return f"key-of-user-{user}-0123456789"


class Asking:
    """A client of a user, which asks one thing after the other."""

    def __init__(self, server: WebServer, user: int) -> None:
        self._end: ClientConnection = connect(f"ws://127.0.0.1:{server.port}", compression=None, proxy=None, max_size=None)
        self.ask("auth", auth=key_of(user))

    def ask(self, command: str, **arguments: Any) -> None:
        """Wait for the answer to a request."""
        self._end.send(json.dumps({"type": "request", "seq": 1, "command": command, "arguments": arguments}))
        answer = json.loads(self._end.recv())
        if not answer["success"]:
            raise RuntimeError(answer["message"])

    def process(self, subcommand: str, task: int, **arguments: Any) -> None:
        """Wait for the answer to a request of a task."""
        self.ask("rrext_process", subcommand=subcommand, token=f"t{task}", **arguments)

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: object) -> None:
        self._end.socket.shutdown(SHUT_RDWR)
