"""Tasks on a cluster of Ray with two nodes: placing, faults, drain, the end, and secrets."""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from api_server import Reply, api_host
from face import Face, Line
from houses import HERE as FACES
from houses import NODES as FACE_NODES
from houses import PIPELINE
from ray_cluster import RayCluster, commands, ray_cluster, ray_head
from task_server import NODES, TaskServer, begun, descendants, gone, pipeline, processes
from test_same_answers import answers_of_processes, different, expected_answers
from test_worker_death import (  # noqa: F401  # proofs of `--isolation process`, run here unchanged
    test_a_client_that_does_not_read_its_chunks_holds_up_no_other_call_of_the_task,
    test_a_killed_process_ends_its_pipes_and_its_task,
    test_a_pipeline_calls_another_in_its_process_and_gets_its_failures,
    test_a_pipeline_whose_process_died_can_be_executed_again,
    test_a_restarted_task_has_another_process_and_the_same_token,
    test_a_trace_of_the_crash_is_among_the_last_words,
    test_an_object_whose_process_dies_fails,
    test_each_task_has_a_process_and_its_own_numbers_of_pipes,
    test_every_pending_call_of_a_process_that_dies_fails_with_its_exit_and_last_words,
    test_the_cause_of_a_death_is_no_exception_that_was_handled_before,
    test_the_error_of_a_tool_passes_the_process_unchanged,
    test_the_trace_of_a_crash_among_many_threads_keeps_its_head_and_the_thread_that_crashed,
)
from test_worker_fates import (  # noqa: F401
    deep_reader,
    test_a_close_that_is_cancelled_before_it_reaches_the_worker_frees_the_pipe,
    test_a_tool_whose_other_pipeline_is_terminated_was_not_cancelled_itself,
    test_a_value_as_deep_as_one_end_of_the_hop_can_take_is_answered_and_so_is_the_next_call,
    test_a_write_that_is_cancelled_before_it_reaches_the_worker_leaves_a_gap_that_close_tells,
    test_whatever_reaches_a_worker_whose_task_is_terminated_hears_of_the_task_and_not_of_the_server,
)

from rrext import Client
from rrext.client.server_address import server_env
from rrext.cluster.knock import asks_for_token
from rrext.errors import TaskNotRegistered, Unavailable
from rrext.transports.process import ChildProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

HOST_END = 15
"""Seconds after the end of a server in which no host is left."""

IN_FLIGHT = 64
ROOMY = ("--threads", str(2 * IN_FLIGHT))
"""As many calls of one tool run beside an open pipe."""

PIDFD_GETFD = 438
"""The number of the system's call, which `os` does not have."""

PLANTED = f"planted-{uuid4().hex}"
"""Another one in each run: several may look through all processes of this machine at the same time."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with ray_cluster() as started:
        yield started
        assert not hosts(started)


@pytest.fixture(scope="module")
async def server(cluster: RayCluster) -> AsyncIterator[TaskServer]:
    """A server for all that need none of their own."""
    async with served(cluster, *ROOMY, str(PIPELINE)) as started:
        yield started


@asynccontextmanager
async def served(cluster: RayCluster, *args: str, **variables: str) -> AsyncIterator[TaskServer]:
    """A server of the cluster, whose end leaves no host."""
    variables |= {"PYTHONPATH": str(FACES)}  # what the files of nodes import is installed here too
    command = of_page(
        "rrext serve", cluster, *(word for file in (*FACE_NODES, NODES) for word in ("--nodes", str(file))), *args
    )
    command[command.index("127.0.0.1:5565")] = "127.0.0.1:0"
    if "--max-resources" in args:
        command.remove("--trust-clients")
    heard, said = anyio.Event(), bytearray()

    def hear(piece: bytes) -> None:
        said.extend(piece)
        if b"listening at" in said and b"\n" in said:
            heard.set()

    process = ChildProcess(command, env=server_env({**cluster.variables, **variables}), on_stderr=hear)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(process.drain_stderr)
        with anyio.move_on_after(60):
            await heard.wait()
        found = re.search(rb"listening at (\S+)", said)
        assert found is not None, said.decode()
        try:
            yield TaskServer("process", found[1].decode(), process)
        finally:
            with anyio.CancelScope(shield=True):
                own = hosts_of(cluster, process.pid)
                process.signal_group(signal.SIGTERM)
                await process.stop()
                process.close()
                with anyio.fail_after(HOST_END):
                    await gone(*own)
            tasks.cancel_scope.cancel()


def of_page(begin: str, cluster: RayCluster, *args: str) -> list[str]:
    """A command of the page, for this cluster."""
    (words,) = commands(begin)
    return [sys.executable, "-m", *(cluster.head if word == "HEAD:6379" else word for word in words), *args]


def hosts(cluster: RayCluster) -> set[int]:
    """The processes of hosts."""
    nodes = {pid for node in cluster.nodes.values() for pid in node.pids()}
    return {pid for pid in nodes if says(pid, "cmdline", "rrext.cluster.host")}


def hosts_of(cluster: RayCluster, server: int) -> set[int]:
    """The processes of those to which a server is connected."""
    ends = {*connections(server)}
    return {pid for pid in hosts(cluster) if any((remote, local) in ends for local, remote in connections(pid))}


def connections(pid: int) -> Iterator[tuple[str, str]]:
    """Both ends of each connection of a process."""
    own = set[str]()
    for path in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(OSError):  # it is closed by now
            own.add(os.readlink(path))
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, *_, inode = line.split()[:10]
        if f"socket:[{inode}]" in own:
            yield local, remote


def placer(server: TaskServer) -> int:
    """The process of the placer."""
    return next(pid for pid in descendants(server.pid) if says(pid, "cmdline", "rrext.cluster.placer"))


def says(pid: int, part: str, word: str) -> bool:
    """Whether a process has a word in its arguments or variables."""
    try:
        return word.encode() in Path(f"/proc/{pid}/{part}").read_bytes()
    except OSError:
        return False


async def answers(face: Face, token: str) -> bool:
    """Whether a tool of a pipeline answers."""
    return await face.tool("nested", {"inner": 3, "depth": 1}, token=token) == [3]


async def until(arrived: Callable[[], Any], seconds: float = 30) -> Any:
    with anyio.fail_after(seconds):
        while not (found := arrived()):
            await anyio.sleep(0.05)
    return found


@pytest.mark.promise("testing:pair-public")
async def test_every_request_of_the_table_of_faces_is_answered_alike(cluster: RayCluster, tmp_path: Path) -> None:
    async with served(cluster, str(PIPELINE), "--store", str(tmp_path)) as server, server.connect() as face:
        answers = await answers_of_processes(face)
    assert not different(answers, await expected_answers())


async def test_tasks_run_on_the_node_that_they_name_and_elsewhere_where_there_is_room(
    cluster: RayCluster, server: TaskServer
) -> None:
    def host(pid: int) -> int:
        return (hosts(cluster) & parents(pid)).pop()

    async with server.connect() as face:
        alone = set[int]()
        for name, node in cluster.nodes.items():
            given = {**pipeline(), "resources": {"node": name, "cpu": 1}}
            token = (await face.request("execute", {"pipeline": given, "token": f"on {name}"}))["token"]
            assert await answers(face, token)
            alone.add(host(worker := await face.tool("pid", token=token)))
            assert parents(worker) & set(node.pids())
        error = await face.failure("execute", {"pipeline": {**pipeline(), "resources": {"cpu": 3}}})
        assert error.code == "unavailable"
        assert "no node has cpu 3: free is " in error.message
        assert "sun (cpu 1, " in error.message
        error = await face.failure("execute", {"pipeline": {**pipeline(), "resources": {"node": "mars"}}})
        assert 'no node of the cluster has the name "mars"' in error.message
        many = [(await face.request("execute", {"pipeline": pipeline()}))["token"] for _ in range(3)]
        workers = {await face.tool("pid", token=token) for token in many}
        assert len(workers) == 3
        assert len(alone) == 2
        assert len({*map(host, workers)} - alone) < 3  # those without resources share hosts
        for token in (*many, *(f"on {name}" for name in cluster.nodes)):
            await face.request("terminate", {"token": token})


def parents(pid: int) -> set[int]:
    """The processes above one."""
    above, found = {number: parent for number, parent, _ in processes()}, set()
    while pid := above.get(pid, 0):
        found.add(pid)
    return found


async def test_a_client_of_a_network_gets_the_resources_that_the_operator_permits(cluster: RayCluster) -> None:
    async with served(cluster, "--max-resources", "cpu=1,memory=1G") as server, server.connect() as face:
        error = await face.failure("execute", {"pipeline": {**pipeline(), "resources": {"cpu": 2, "node": "sun"}}})
        assert error.code == "invalid_pipeline"
        assert [each["path"] for each in error.data["problems"]] == ["/resources/cpu", "/resources/node"]
        given = {**pipeline(), "resources": {"cpu": 1, "memory": "128 MiB"}}
        token = (await face.request("execute", {"pipeline": given}))["token"]
        error = await face.tool_failure("grow", {"where": "here", "mib": 400}, token=token)
        assert (error.code, error.data["limit"]) == ("task_lost", "resources.memory")


class Busy:
    """A task with calls in flight and an open pipe."""

    def __init__(self, face: Face, line: Line, token: str) -> None:
        self.face = face
        self.line = line
        self.token = token

    async def begin(self) -> None:
        """Let calls run, and open the pipe."""
        self.worker: int = await self.face.tool("pid", token=self.token)
        self.pipe = await self.face.open(mimeType="text/plain", token=self.token)
        await self.face.write(self.pipe, "half ")
        self.calls = [await begun(self.line, "nap", self.token) for _ in range(IN_FLIGHT)]

    async def ended(self, code: str) -> None:
        """Return when all calls are answered, each once, the pipe is gone, and so is the process."""
        errors = [(await self.line.answer(number)).error for number in self.calls]
        assert {error.code for error in errors if error is not None} == {code}
        assert code != "task_lost" or all(error is not None and error.data["sent"] for error in errors)
        for subcommand in ("write", "close"):
            error = await self.face.failure("rrext_process", {"subcommand": subcommand, "pipe_id": self.pipe})
            assert error.code == "pipe_not_open"
        await self.line.answer(await self.line.send("rrext_get_tasks"))  # whatever else was on its way is here
        assert [len(self.line.answers(number)) for number in self.calls] == [1] * IN_FLIGHT
        await gone(self.worker)

    async def goes_on(self) -> None:
        """Nothing has ended: the pipe is closed as usual."""
        assert await answers(self.face, self.token)
        await self.face.write(self.pipe, "and half")
        assert (await self.face.close(self.pipe))["text"][0].split() == ["HALF", "AND", "HALF"]
        assert not any(self.line.answers(number) for number in self.calls)


@asynccontextmanager
async def busy(server: TaskServer, token: str | None = None, **resources: Any) -> AsyncIterator[Busy]:
    """A busy task: that of a token, or one that asks for resources."""
    async with server.connect() as face, server.line() as line:
        if token is None:
            token = (await face.request("execute", {"pipeline": {**pipeline(), "resources": resources}}))["token"]
        made = Busy(face, line, token)
        await made.begin()
        yield made
        with suppress(TaskNotRegistered):  # it was lost
            await face.request("terminate", {"token": token})


def cut_connection(cluster: RayCluster, worker: int) -> None:
    """Cut the connections of a process, as both ends see it."""
    system = ctypes.CDLL(None, use_errno=True)
    handle = os.pidfd_open(worker)
    for name in os.listdir(f"/proc/{worker}/fd"):
        copy = system.syscall(PIDFD_GETFD, handle, int(name), 0)
        assert copy >= 0, os.strerror(ctypes.get_errno())
        if not stat.S_ISSOCK(os.fstat(copy).st_mode):
            os.close(copy)
            continue
        with socket.socket(fileno=copy) as end:
            if end.family == socket.AF_INET:
                end.shutdown(socket.SHUT_RDWR)
    os.close(handle)


FAULTS: dict[str, Callable[[RayCluster, int], None]] = {
    "process is killed": lambda cluster, worker: os.kill(worker, signal.SIGKILL),
    "host is killed": lambda cluster, worker: os.kill((hosts(cluster) & parents(worker)).pop(), signal.SIGKILL),
    "connection is cut": cut_connection,
}


@pytest.mark.promise("cluster:one-answer")
@pytest.mark.parametrize("fault", FAULTS)
async def test_each_call_has_one_answer_when_its(cluster: RayCluster, server: TaskServer, fault: str) -> None:
    async with busy(server) as task:
        FAULTS[fault](cluster, task.worker)
        await task.ended("task_lost")
        token = (await task.face.request("execute", {"pipeline": pipeline()}))["token"]
        assert await answers(task.face, token)


@pytest.mark.promise("cluster:one-answer")
async def test_each_call_of_a_stopped_process_has_one_answer_when_it_is_terminated(server: TaskServer) -> None:
    async with busy(server) as task:
        os.kill(task.worker, signal.SIGSTOP)
        assert "it was stopped" in (await task.face.failure("tools", {"token": task.token})).message
        assert not any(task.line.answers(number) for number in task.calls)
        await task.face.request("terminate", {"token": task.token})
        await task.ended("cancelled")


@pytest.mark.promise("cluster:one-answer")
async def test_a_placer_that_dies_is_started_again_and_calls_go_on_meanwhile(server: TaskServer) -> None:
    async with busy(server) as task:
        before = placer(server)
        os.kill(before, signal.SIGKILL)
        await task.goes_on()
        given = {**pipeline(), "resources": {"cpu": 1}}
        answer = await task.face.request("execute", {"pipeline": given})  # which waits for the new one
        assert await answers(task.face, answer["token"])
        assert placer(server) != before
        await task.face.request("terminate", {"token": answer["token"]})


PLANTED_NODE = f'''
import hashlib
from rrext import Node, tool_function

class Planted(Node):
    """{PLANTED}-5"""

    provider = "planted"
    class_types = ("tool",)

    class Config:
        values: list[str]

    @tool_function
    def hashes(self) -> list[str]:
        """The hashes of the values, which no answer may have."""
        return [hashlib.sha256(value.encode()).hexdigest() for value in self.config.values]
'''
PLANTED_CONNECTION = """
[shop]
provider = "http"
url = "URL"
headers = { authorization = "env:PLANTED_KEY" }
tools.look = { url = "/look" }
"""


@pytest.mark.promise("cluster:secrets")
async def test_nothing_planted_is_seen_in_a_process_or_a_file_of_ray(cluster: RayCluster, tmp_path: Path) -> None:
    planted = [f"{PLANTED}-{number}" for number in range(1, 6)]
    nodes, connections = tmp_path / "planted.py", tmp_path / "connections.toml"
    nodes.write_text(PLANTED_NODE)
    given = dict(zip(("PLANTED_NAME", "ROCKETRIDE_PLANTED", "PLANTED_KEY", "ROCKETRIDE_APIKEY"), planted, strict=False))
    values = ["${PLANTED_NAME}", "${ROCKETRIDE_PLANTED}", "${ROCKETRIDE_OWN}"]
    tool = {"classType": "tool", "from": "tools_1"}
    components = [
        {"id": "tools_1", "provider": "tools", "config": {"tools": [{"type": "http", "server": "shop"}]}},
        {"id": "planted_1", "provider": "planted", "config": {"values": values}, "control": [tool]},
    ]
    with api_host(lambda asked: Reply("seen")) as shop:
        connections.write_text(PLANTED_CONNECTION.replace("URL", shop.url))
        connections.chmod(0o600)
        args = ("--nodes", str(nodes), "--connections", str(connections), "--env", "PLANTED_NAME")
        async with (
            served(cluster, *args, **given) as server,
            Client.connect(server.address, key=given["ROCKETRIDE_APIKEY"]) as client,
        ):
            own = {"ROCKETRIDE_OWN": planted[4]}
            token = (await client.request("execute", {"pipeline": {"components": components}, "env": own}))["token"]
            assert await client.tool(tool="hashes", token=token) == [
                hashlib.sha256(value.encode()).hexdigest() for value in (planted[0], planted[1], planted[4])
            ]
            assert await client.tool(tool="shop__look", token=token) == "seen"
            assert shop.asked[0].headers["authorization"] == given["PLANTED_KEY"]
            pids = {pid for pid, _, _ in processes()} - {os.getpid()}
            assert not [pid for pid in pids if says(pid, "environ", PLANTED) or says(pid, "cmdline", PLANTED)]
            secret = cluster.variables["RAY_AUTH_TOKEN"]
            ours = descendants(server.pid) | {server.pid}
            for host in hosts(cluster):
                ours |= descendants(host) | {host}
            assert placer(server) in ours
            assert not [pid for pid in ours if says(pid, "environ", secret) or says(pid, "cmdline", secret)]
    files = [path for path in cluster.folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert {path.suffix for path in files} >= {".aof", ".log", ".out"}  # the tables of the head, and what Ray says
    assert not [path for path in files if PLANTED.encode() in path.read_bytes()]


@pytest.mark.promise("cluster:no-orphan")
async def test_a_server_that_is_killed_leaves_no_host_and_its_calls_end_once(cluster: RayCluster) -> None:
    begun, ends = list[float](), list[str]()

    async def wait(face: Face, token: str) -> None:
        error = await face.tool_failure("nap", token=token, progress=lambda progress, *_: begun.append(progress))
        ends.append(error.code)

    async with served(cluster, *ROOMY) as server, server.task() as (face, token), anyio.create_task_group() as calls:
        worker = await face.tool("pid", token=token)
        pipe = await face.open(mimeType="text/plain", token=token)
        for _ in range(IN_FLIGHT):
            calls.start_soon(wait, face, token)
        await until(lambda: len(begun) == IN_FLIGHT)
        left = hosts(cluster) & parents(worker)
        os.kill(server.pid, signal.SIGKILL)
        with anyio.fail_after(HOST_END):
            await gone(worker, *left)
        await until(lambda: len(ends) == IN_FLIGHT)
        assert {*ends, (await face.failure("rrext_process", {"subcommand": "close", "pipe_id": pipe})).code} == {
            "server_exited"
        }


DYING_PLACER = """
import sys
import msgspec
import ray
from rrext.cluster.certificates import new_identity
from rrext.cluster.placement import HostStart
from rrext.cluster.placer import Placer
certificate = new_identity("a server").certificate
placer = Placer(certificate)
placer.connect(sys.argv[1])
order = msgspec.json.encode(HostStart(certificate, "127.0.0.1", "a node", "a number"))
actor = placer._actor.options(name="left alone", lifetime="detached", num_cpus=1).remote(order)
ray.get(actor.__ray_ready__.remote(), timeout=60)
"""
"""A placer that ends when an actor is up, and has asked it nothing."""


@pytest.mark.promise("cluster:no-orphan")
async def test_an_actor_whose_placer_ends_before_it_asks_for_its_host_ends_too(cluster: RayCluster) -> None:
    def found() -> set[int]:
        nodes = {pid for node in cluster.nodes.values() for pid in node.pids()}
        return hosts(cluster) | {pid for pid in nodes if says(pid, "cmdline", "HostActor")}

    before = found()
    command = [sys.executable, "-P", "-c", DYING_PLACER, cluster.head]
    done = await anyio.run_process(command, env=server_env(cluster.variables), cwd="/", check=False)
    assert done.returncode == 0, done.stderr
    left = found() - before
    assert left
    await gone(*left)


async def test_the_check_tells_the_nodes_and_what_is_wrong(cluster: RayCluster) -> None:
    def check() -> subprocess.CompletedProcess[str]:
        command, variables = of_page("rrext cluster check", cluster, "--json"), server_env(cluster.variables)
        return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)

    done = await anyio.to_thread.run_sync(check)
    assert done.returncode == 0, done.stderr
    assert re.findall(r'"node":"(\w+)"', done.stdout) == ["moon", "sun"]
    assert done.stdout.count('"problem":""') == 2


@pytest.mark.promise("cluster:token")
async def test_a_cluster_that_asks_for_no_token_is_refused_though_the_server_has_one(cluster: RayCluster) -> None:
    with ray_head(RAY_AUTH_MODE="disabled") as head:
        assert await anyio.to_thread.run_sync(asks_for_token, cluster.head)
        assert not await anyio.to_thread.run_sync(asks_for_token, head)
        for begin in ("rrext serve", "rrext cluster check"):
            command = of_page(begin, cluster)
            command[command.index("--cluster") + 1] = head.replace("127.0.0.1", "0.0.0.0")
            done = await anyio.run_process(command, env=server_env(cluster.variables), check=False)
            assert (done.returncode, b"asks for no token" in done.stderr) == (2, True), done.stderr


async def test_a_path_is_refused_at_its_setting_unless_the_pipeline_names_the_node(server: TaskServer, tmp_path: Path) -> None:
    bound = {"control": [{"classType": "tool", "from": "webhook_1"}]}
    files = {"id": "files_1", "provider": "tool_filesystem", "config": {"root": str(tmp_path)}, **bound}
    given = {"components": [{"id": "webhook_1", "provider": "webhook", "config": {}}, files]}
    (tmp_path / "a.txt").write_text("a file")
    async with server.connect() as face:
        error = await face.failure("execute", {"pipeline": given})
        problems = [(each["code"], each["path"]) for each in error.data["problems"] if each["severity"] == "error"]
        assert problems == [("not_on_cluster", "/components/1/config/root")]
        token = (await face.request("execute", {"pipeline": {**given, "resources": {"node": "moon"}}}))["token"]
        assert (await face.tool("read_file", {"path": "a.txt"}, token=token))["content"] == "a file"


@pytest.mark.promise("cluster:drain")
async def test_a_node_that_is_drained_keeps_its_pipes_and_takes_none_of_the_operator_along(
    cluster: RayCluster, server: TaskServer, tmp_path: Path
) -> None:
    own, moon = tmp_path / "own.pipe", cluster.nodes["moon"]
    own.write_text(json.dumps({**pipeline(), "resources": {"cpu": 1}}))
    async with AsyncExitStack() as stack:
        other = await stack.enter_async_context(server.connect())
        full = {"pipeline": {**pipeline(), "resources": {"node": "sun", "cpu": 2}}, "token": "full"}
        await other.request("execute", full)  # so that the next pipeline goes to the other node
        owner = await stack.enter_async_context(served(cluster, "--drain", "60", *ROOMY, str(own)))
        leaving = await stack.enter_async_context(busy(owner, "own"))
        staying = await stack.enter_async_context(busy(owner, node="moon"))
        assert parents(leaving.worker) & set(moon.pids())
        await other.request("terminate", {"token": "full"})
        await anyio.to_thread.run_sync(cluster.drain, moon)
        with anyio.fail_after(60):
            while (second := await leaving.face.tool("pid", token="own")) == leaving.worker:
                await anyio.sleep(0.1)
        assert not parents(second) & set(moon.pids())
        await staying.goes_on()
        os.kill(moon.pid("raylet"), signal.SIGKILL)
        await staying.ended("task_lost")
        assert await answers(staying.face, "own")
        assert await answers(staying.face, (await staying.face.request("execute", {"pipeline": pipeline()}))["token"])


def processor_time(pid: int) -> float:
    """The seconds of a processor that a process has used."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


async def loads(face: Face, node: str) -> None:
    """Return when a pipeline is loaded on a node."""
    token = ""
    with anyio.fail_after(60):
        while not token:
            await anyio.sleep(0.2)
            with suppress(Unavailable):
                token = (await face.request("execute", {"pipeline": {**pipeline(), "resources": {"node": node}}}))["token"]
    assert await answers(face, token)


@pytest.mark.promise("cluster:one-answer")
async def test_a_head_that_comes_back_with_its_tables_lets_calls_go_on_and_takes_loads(
    cluster: RayCluster, server: TaskServer
) -> None:
    cluster.nodes["moon"].kill()  # it is drained
    assert await anyio.to_thread.run_sync(cluster.start, "moon")
    async with busy(server, node="moon") as staying, busy(server, node="sun") as lost:
        before = processor_time(placer(server))
        cluster.nodes["sun"].kill()
        await lost.ended("task_lost")
        assert await anyio.to_thread.run_sync(cluster.start, "sun")
        assert processor_time(placer(server)) - before < 1  # it asks for the head with pauses
        for node in cluster.nodes:
            await loads(staying.face, node)
        await staying.goes_on()


@pytest.mark.promise("cluster:one-answer")
async def test_a_head_that_comes_back_without_its_tables_takes_loads_too(cluster: RayCluster, server: TaskServer) -> None:
    async with busy(server, node="moon") as staying:
        cluster.redis.end()
        cluster.nodes["sun"].kill()
        assert await anyio.to_thread.run_sync(cluster.start, "sun")
        await loads(staying.face, "sun")
        await staying.goes_on()
        cluster.nodes["moon"].kill()  # as Ray does itself after a minute
        await staying.ended("task_lost")


def test_ray_tells_privately_what_it_does_not_tell_publicly_what_is_free_on_a_node_and_which_nodes_are_drained() -> None:
    from ray._private import state

    message = "Ray has other names: look whether there is a public way by now, else use them in Placer.connect"
    for ask in (getattr(state, "available_resources_per_node", None), getattr(state.state, "get_draining_nodes", None)):
        assert ask is not None, message
        assert not inspect.signature(ask).parameters, message
