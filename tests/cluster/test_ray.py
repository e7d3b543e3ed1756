"""Tasks on a cluster of Ray with two nodes: placing, faults, drain, the end, and secrets."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from face import Face
from ray_cluster import RayCluster, commands, ray_cluster, ray_head
from task_server import NODES, TaskServer, begun, descendants, gone, pipeline, processes

from rrext.client.server_address import server_env
from rrext.cluster.knock import asks_for_token
from rrext.transports.process import ChildProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

HOST_END = 15
"""Seconds after the end of a server in which no host is left."""

PLANTED = "planted-secret-7f3a91"


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with ray_cluster() as started:
        yield started


@asynccontextmanager
async def served(cluster: RayCluster, *args: str, **variables: str) -> AsyncIterator[TaskServer]:
    """A server of the cluster, whose end leaves no host."""
    command = of_page("rrext serve", cluster, "--nodes", str(NODES), *args)
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
        with anyio.fail_after(60):
            await heard.wait()
        found = re.search(rb"listening at (\S+)", said)
        assert found is not None
        try:
            yield TaskServer("process", found[1].decode(), process)
        finally:
            process.signal_group(signal.SIGTERM)
            with anyio.CancelScope(shield=True):
                await process.stop()
                process.close()
                await until(lambda: not hosts(cluster), HOST_END)
            tasks.cancel_scope.cancel()


def of_page(begin: str, cluster: RayCluster, *args: str) -> list[str]:
    """A command of the page, for this cluster."""
    (words,) = commands(begin)
    return [sys.executable, "-m", *(cluster.head if word == "HEAD:6379" else word for word in words), *args]


def hosts(cluster: RayCluster) -> list[int]:
    """The processes of hosts."""
    nodes = {pid for node in cluster.nodes.values() for pid in node.pids()}
    return [pid for pid in nodes if says(pid, "cmdline", "rrext.cluster.host")]


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


async def test_tasks_run_on_the_node_that_they_name_and_elsewhere_where_there_is_room(cluster: RayCluster) -> None:
    async with served(cluster) as server, server.connect() as face:
        for name, node in cluster.nodes.items():
            given = {**pipeline(), "resources": {"node": name, "cpu": 1}}
            token = (await face.request("execute", {"pipeline": given}))["token"]
            assert await answers(face, token)
            assert parents(await face.tool("pid", token=token)) & set(node.pids())
        error = await face.failure("execute", {"pipeline": {**pipeline(), "resources": {"cpu": 3}}})
        assert error.code == "unavailable"
        assert "no node has cpu 3: free is " in error.message
        assert "sun (cpu 1, " in error.message
        error = await face.failure("execute", {"pipeline": {**pipeline(), "resources": {"node": "mars"}}})
        assert 'no node of the cluster has the name "mars"' in error.message
        many = [(await face.request("execute", {"pipeline": pipeline()}))["token"] for _ in range(3)]
        assert len({await face.tool("pid", token=token) for token in many}) == 3
        assert len(hosts(cluster)) == 3  # one for each task with resources, and one for all others


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


@pytest.mark.promise("cluster:one-answer")
async def test_a_placer_that_dies_is_started_again_and_calls_go_on_meanwhile(cluster: RayCluster) -> None:
    async with served(cluster) as server, server.task() as (face, token), server.line() as line:
        pipe = await face.open(mimeType="text/plain", token=token)
        waiting = [await begun(line, "nap", token) for _ in range(8)]
        before = placer(server)
        os.kill(before, signal.SIGKILL)
        assert await answers(face, token)
        await face.write(pipe, "whole")
        assert "WHOLE" in (await face.close(pipe))["text"][0]
        assert not any(line.answers(number) for number in waiting)
        given = {**pipeline(), "resources": {"cpu": 1}}
        answer = await face.request("execute", {"pipeline": given})  # which waits for the new one
        assert await answers(face, answer["token"])
        assert placer(server) != before


@pytest.mark.promise("cluster:one-answer")
@pytest.mark.parametrize("victim", ["worker", "host"])
async def test_each_call_of_a_killed_process_has_one_answer(cluster: RayCluster, victim: str) -> None:
    async with served(cluster) as server, server.task() as (face, token), server.line() as line:
        worker = await face.tool("pid", token=token)
        waiting = [await begun(line, "nap", token) for _ in range(64)]
        os.kill(worker if victim == "worker" else (set(hosts(cluster)) & parents(worker)).pop(), signal.SIGKILL)
        told = [await line.answer(number) for number in waiting]
        assert {answer.error.code for answer in told if answer.error is not None} == {"task_lost"}
        assert all(len(line.answers(number)) == 1 for number in waiting)
        await gone(worker)
        token = (await face.request("execute", {"pipeline": pipeline()}))["token"]
        assert await answers(face, token)


@pytest.mark.promise("cluster:secrets")
async def test_nothing_planted_is_seen_in_a_process_or_a_file_of_ray(cluster: RayCluster, tmp_path: Path) -> None:
    connections = tmp_path / "connections.toml"
    connections.write_text(f'[shop]\nprovider = "http"\nurl = "https://shop.example"\nheaders = {{ k = "{PLANTED}-2" }}\n')
    connections.chmod(0o600)
    args = ("--connections", str(connections), "--env", "PLANTED_NAME")
    given = {"PLANTED_NAME": f"{PLANTED}-1", "ROCKETRIDE_PLANTED": f"{PLANTED}-3"}
    async with served(cluster, *args, **given) as server, server.task(env={"ROCKETRIDE_OWN": f"{PLANTED}-4"}) as (face, token):
        worker = await face.tool("pid", token=token)
        pids = {pid for pid, _, _ in processes()} - {os.getpid()}
        assert not [pid for pid in pids if says(pid, "environ", PLANTED) or says(pid, "cmdline", PLANTED)]
        secret = cluster.variables["RAY_AUTH_TOKEN"]
        ours = {server.pid, worker, *hosts(cluster), placer(server)}
        assert not [pid for pid in ours if says(pid, "environ", secret) or says(pid, "cmdline", secret)]
    files = [path for path in cluster.folder.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if PLANTED.encode() in path.read_bytes()]


@pytest.mark.promise("cluster:no-orphan")
async def test_a_server_that_is_killed_leaves_no_host(cluster: RayCluster) -> None:
    async with served(cluster) as server, server.task() as (face, token):
        worker = await face.tool("pid", token=token)
        left = hosts(cluster)
        os.kill(server.pid, signal.SIGKILL)
        with anyio.fail_after(HOST_END):
            await gone(worker, *left)


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
    def actors() -> list[int]:
        nodes = {pid for node in cluster.nodes.values() for pid in node.pids()}
        return [pid for pid in nodes if says(pid, "cmdline", "HostActor")]

    command = [sys.executable, "-P", "-c", DYING_PLACER, cluster.head]
    done = await anyio.run_process(command, env=server_env(cluster.variables), cwd="/", check=False)
    assert done.returncode == 0, done.stderr
    assert actors()
    await until(lambda: not actors() and not hosts(cluster))


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


async def test_a_path_is_refused_at_its_setting_unless_the_pipeline_names_the_node(cluster: RayCluster, tmp_path: Path) -> None:
    bound = {"control": [{"classType": "tool", "from": "webhook_1"}]}
    files = {"id": "files_1", "provider": "tool_filesystem", "config": {"root": str(tmp_path)}, **bound}
    given = {"components": [{"id": "webhook_1", "provider": "webhook", "config": {}}, files]}
    (tmp_path / "a.txt").write_text("a file")
    async with served(cluster) as server, server.connect() as face:
        error = await face.failure("execute", {"pipeline": given})
        problems = [(each["code"], each["path"]) for each in error.data["problems"] if each["severity"] == "error"]
        assert problems == [("not_on_cluster", "/components/1/config/root")]
        token = (await face.request("execute", {"pipeline": {**given, "resources": {"node": "moon"}}}))["token"]
        assert (await face.tool("read_file", {"path": "a.txt"}, token=token))["content"] == "a file"


@pytest.mark.promise("cluster:drain")
async def test_a_node_that_is_drained_keeps_its_pipes_and_takes_none_of_the_operator_along(
    cluster: RayCluster, tmp_path: Path
) -> None:
    full, own, moon = tmp_path / "full.pipe", tmp_path / "own.pipe", cluster.nodes["moon"]
    full.write_text(json.dumps({**pipeline(), "resources": {"node": "sun", "cpu": 2}}))
    own.write_text(json.dumps({**pipeline(), "resources": {"cpu": 1}}))
    with another_server(cluster, str(full)):  # so that the next pipeline goes to the other node
        await until(lambda: hosts(cluster))
        starting = served(cluster, "--drain", "60", str(own))
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(starting)
            face = await stack.enter_async_context(server.connect())
            first = await face.tool("pid", token="own")
            kept = stack.pop_all()
    async with kept, server.line() as line:
        assert parents(first) & set(moon.pids())
        pipe = await face.open(mimeType="text/plain", token="own")
        await face.write(pipe, "half ")
        staying = (await face.request("execute", {"pipeline": {**pipeline(), "resources": {"node": "moon"}}}))["token"]
        worker = await face.tool("pid", token=staying)
        waiting = [await begun(line, "nap", staying) for _ in range(64)]
        await anyio.to_thread.run_sync(cluster.drain, moon)
        with anyio.fail_after(60):
            while (second := await face.tool("pid", token="own")) == first:
                await anyio.sleep(0.1)
        assert not parents(second) & set(moon.pids())
        await face.write(pipe, "and half")
        assert (await face.close(pipe))["text"][0].split() == ["HALF", "AND", "HALF"]
        await gone(first)
        assert not any(line.answers(number) for number in waiting)
        os.kill(moon.pid("raylet"), signal.SIGKILL)
        told = [await line.answer(number) for number in waiting]
        assert {answer.error.code for answer in told if answer.error is not None} == {"task_lost"}
        await gone(worker)
        assert await answers(face, "own")
        assert await answers(face, (await face.request("execute", {"pipeline": pipeline()}))["token"])


@contextmanager
def another_server(cluster: RayCluster, *files: str) -> Iterator[None]:
    """A server that nobody asks."""
    command = of_page("rrext serve", cluster, "--nodes", str(NODES), *files)
    command[command.index("127.0.0.1:5565")] = "127.0.0.1:0"
    with subprocess.Popen(command, env=server_env(cluster.variables), stdin=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()
