"""A cluster of Ray with two nodes on this machine, each a tree of processes that a test may kill."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import venv
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from free_ports import free_port
from task_server import processes

TRIES = 3
"""On a busy machine a node gives up, because its agent has not started within 15 seconds."""

RAY = ("-m", "ray.scripts.scripts")
"""The command `ray`, of an environment."""

FACES = Path(__file__).resolve().parents[1] / "faces"


PAGE = Path(__file__).resolve().parents[2] / "rrext" / "tasks" / "CLUSTER.md"


def commands(begin: str) -> list[list[str]]:
    """The commands of the page about clusters that begin so."""
    return [shlex.split(line) for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(begin)]


def variables() -> dict[str, str]:
    """The variables that the page sets, with a new token."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("export ")]
    done = subprocess.run(["sh", "-c", "\n".join([*lines, "env"])], capture_output=True, text=True, check=True)
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if line.startswith("RAY_"))


def python_of_nodes(folder: Path) -> Path:
    """The Python of nodes: an environment with all of this one, and what the nodes of the faces import, which has to be
    installed there. They share a folder for their gates."""
    made, gates = folder / "python", folder / "gates"
    venv.create(made)
    gates.mkdir()
    install = Path(sysconfig.get_path("purelib", "venv", {"base": str(made)})) / "tests.pth"
    here = f"import os, site; site.addsitedir({sysconfig.get_path('purelib')!r}); os.environ['FACE_STATE'] = {str(gates)!r}"
    install.write_text(f"{here}\n{FACES}\n")
    return made / "bin" / "python"


class RayNode:
    """A node: `ray start --block`, with all that it has started."""

    def __init__(self, ray: list[str | Path], command: list[str], environment: dict[str, str]) -> None:
        self._block = subprocess.Popen(
            [*ray, "start", *command, "--block"],
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

    def kill(self) -> None:
        """Kill all its processes, as a machine that loses its power. None is named by its number once it may have ended:
        another one may have that by then."""
        if self._block.returncode is not None:
            return
        handles: dict[int, int] = {}
        with ExitStack() as opened:
            while more := set(self.pids()) - handles.keys():
                for pid in more:
                    with suppress(ProcessLookupError):
                        handles[pid] = os.pidfd_open(pid)
                        opened.callback(os.close, handles[pid])
                        signal.pidfd_send_signal(handles[pid], signal.SIGSTOP)  # it starts no further ones
            for handle in handles.values():
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
        self._block.wait()
        assert self._block.stdout is not None
        self._block.stdout.close()


class Redis:
    """What keeps the tables of a head when that is gone. All that comes is in a file of the cluster's folder, as it came."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.address = f"127.0.0.1:{(port := free_port())}"
        command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
        command += ["--save", "", "--appendonly", "yes", "--appendfsync", "no"]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert any(b"Ready to accept connections" in line for line in self._process.stdout)

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def end(self) -> None:
        """End it, and forget all."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Network(NamedTuple):
    """Where a node is: its address, and the command that enters its network."""

    address: str = "127.0.0.1"
    enter: tuple[str, ...] = ()


HERE = Network()


class RayCluster:
    """The address of a cluster, the variables of its clients, the folder of its logs, and its nodes."""

    def __init__(self, port: int, folder: Path, redis: Redis, networks: Mapping[str, Network]) -> None:
        self.head = f"{next(iter(networks.values())).address}:{port}"
        self.folder = folder
        self.variables = variables()
        self.python = python_of_nodes(folder)
        self.redis = redis
        self.nodes: dict[str, RayNode] = {}
        self._port = port
        self._networks = networks

    def start(self, name: str) -> bool:
        """Start a node, perhaps once more; the first one is the head. Whether it runs."""
        is_head = name == next(iter(self.nodes), name)
        head, other = commands("ray start")
        network = self._networks[name]
        given = [*(head if is_head else other)[2:], "--node-ip-address", network.address, "--num-cpus", "2"]
        given[given.index("--node-name") + 1] = name
        environment = {**os.environ, **self.variables, "PYTHONUNBUFFERED": "1"}
        if is_head:
            given[given.index("6379")] = str(self._port)
            given += ["--temp-dir", str(self.folder)]
            (self.folder / "ray_current_cluster").unlink(missing_ok=True)  # else the other node counts as a head that runs
            if self.redis.is_up:
                environment["RAY_REDIS_ADDRESS"] = self.redis.address
        else:
            given[given.index("HEAD:6379")] = self.head
        node = self.nodes[name] = RayNode([*network.enter, self.python, *RAY], given, environment)
        return node.wait()

    def drain(self, node: RayNode) -> None:
        """Let a node be drained: it would end in ten minutes."""
        raylet = Path(f"/proc/{node.pid('raylet')}/cmdline").read_text()
        number = raylet.partition("--node_id=")[2].partition("\0")[0]
        given = ["--address", self.head, "--node-id", number, "--deadline-remaining-seconds", "600"]
        given += ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "a test"]
        subprocess.run([self.python, *RAY, "drain-node", *given], env={**os.environ, **self.variables}, cwd="/", check=True)

    def end(self) -> None:
        """End all of it."""
        for node in self.nodes.values():
            node.kill()
        self.redis.end()


@contextmanager
def ray_cluster(sun: Network = HERE, moon: Network = HERE) -> Iterator[RayCluster]:
    """A cluster with the nodes `sun`, its head, and `moon`."""
    with _started({"sun": sun, "moon": moon}) as cluster:
        yield cluster


@contextmanager
def ray_head(**variables: str) -> Iterator[str]:
    """The address of a cluster of one node, with variables other than those on the page."""
    with _started({"mars": HERE}, **variables) as cluster:
        yield cluster.head


@contextmanager
def _started(networks: Mapping[str, Network], **variables: str) -> Iterator[RayCluster]:
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))  # a socket's path has few characters
    cluster = None
    try:
        for attempt in range(TRIES):
            (own := folder / str(attempt)).mkdir()
            cluster = RayCluster(free_port(), own, Redis(own / "redis"), networks)
            cluster.variables.update(variables)
            if all(map(cluster.start, networks)):
                break
            cluster.end()
        else:
            raise AssertionError(f"no cluster in {TRIES} tries")
        yield cluster
    finally:
        if cluster is not None:
            cluster.end()
        shutil.rmtree(folder, ignore_errors=True)


def _program(pid: int) -> str:
    try:
        return os.path.basename(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode())
    except OSError:
        return ""
