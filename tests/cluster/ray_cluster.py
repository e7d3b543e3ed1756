"""A cluster of Ray with two nodes on this machine, each a tree of processes that a test may kill."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from task_server import processes

TRIES = 3
"""On a busy machine a node gives up, because its agent has not started within 15 seconds."""

RAY = (sys.executable, "-m", "ray.scripts.scripts")
"""The command `ray`, of this environment."""

RAY_PORTS = range(10002, 20000)
"""Ports that Ray gives to its workers."""


PAGE = Path(__file__).resolve().parents[2] / "rrext" / "tasks" / "CLUSTER.md"


def commands(begin: str) -> list[list[str]]:
    """The commands of the page about clusters that begin so."""
    return [shlex.split(line) for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(begin)]


def variables() -> dict[str, str]:
    """The variables that the page sets, with a new token."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("export ")]
    done = subprocess.run(["sh", "-c", "\n".join([*lines, "env"])], capture_output=True, text=True, check=True)
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if line.startswith("RAY_"))


class RayNode:
    """A node: `ray start --block`, with all that it has started."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        self.name = name
        self._block = subprocess.Popen(
            [*RAY, "start", *command, "--block"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
        )

    def wait(self) -> bool:
        """Wait until it runs; whether it does."""
        assert self._block.stdout is not None
        return any(b"Ray runtime started" in line for line in self._block.stdout)

    def pid(self, program: str) -> int:
        """The process of a program of this node, such as `raylet` or `gcs_server`."""
        return next(pid for pid in self.pids() if _program(pid) == program)

    def pids(self) -> list[int]:
        """All its processes."""
        found, parents = {self._block.pid}, {pid: parent for pid, parent, state in processes() if state != "Z"}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return sorted(found)

    def end(self) -> None:
        """End all its processes. None is named by its number once it may have ended: another one may have that by then."""
        if self._block.returncode is not None:
            return
        with ExitStack() as opened:
            handles: list[int] = []
            for pid in self.pids():
                with suppress(ProcessLookupError):
                    handles.append(os.pidfd_open(pid))
                    opened.callback(os.close, handles[-1])
            self._block.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._block.wait(10)
            for handle in handles:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            self._block.wait()
        assert self._block.stdout is not None
        self._block.stdout.close()


class RayCluster:
    """The address of a cluster, the variables of its clients, the folder of its logs, and its nodes."""

    def __init__(self, port: int, folder: Path) -> None:
        self.head = f"127.0.0.1:{port}"
        self.folder = folder
        self.variables = variables()
        self.nodes: dict[str, RayNode] = {}
        self._port = port

    def start(self, name: str) -> bool:
        """Start a node; the first one is the head. Whether it runs."""
        head, other = commands("ray start")
        given = [*(other if self.nodes else head)[2:], "--node-ip-address", "127.0.0.1", "--num-cpus", "2"]
        given[given.index("--node-name") + 1] = name
        if self.nodes:
            given[given.index("HEAD:6379")] = self.head
        else:
            given[given.index("6379")] = str(self._port)
            given += ["--temp-dir", str(self.folder)]
        environment = {**os.environ, **self.variables, "PYTHONUNBUFFERED": "1"}
        node = self.nodes[name] = RayNode(name, given, environment)
        return node.wait()

    def drain(self, node: RayNode) -> None:
        """Let a node be drained: it would end in ten minutes."""
        raylet = Path(f"/proc/{node.pid('raylet')}/cmdline").read_text()
        number = raylet.partition("--node_id=")[2].partition("\0")[0]
        given = ["--address", self.head, "--node-id", number, "--deadline-remaining-seconds", "600"]
        given += ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "a test"]
        subprocess.run([*RAY, "drain-node", *given], env={**os.environ, **self.variables}, cwd="/", check=True)

    def end(self) -> None:
        """End all nodes, the head last."""
        for node in reversed(list(self.nodes.values())):
            node.end()


@contextmanager
def ray_cluster() -> Iterator[RayCluster]:
    """A cluster with the nodes `sun`, its head, and `moon`."""
    with _started("sun", "moon") as cluster:
        yield cluster


@contextmanager
def ray_head(**variables: str) -> Iterator[str]:
    """The address of a cluster of one node, with variables other than those on the page."""
    with _started("mars", **variables) as cluster:
        yield cluster.head


@contextmanager
def _started(*names: str, **variables: str) -> Iterator[RayCluster]:
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))  # a socket's path has few characters
    cluster = RayCluster(_free_port(), folder)
    try:
        for attempt in range(TRIES):
            cluster = RayCluster(_free_port(), folder / str(attempt))
            cluster.variables.update(variables)
            if all(map(cluster.start, names)):
                break
            cluster.end()
        else:
            raise AssertionError(f"no cluster in {TRIES} tries")
        yield cluster
    finally:
        cluster.end()
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    while True:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port: int = listener.getsockname()[1]
        if port not in RAY_PORTS:
            return port


def _program(pid: int) -> str:
    try:
        return os.path.basename(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode())
    except OSError:
        return ""
