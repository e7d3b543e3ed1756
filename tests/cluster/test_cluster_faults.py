"""What is lost on the way to other machines: every call has one answer, and no process stays."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from broken_network import Network
from plain_hosts import PlainHosts
from routed_engine import NODES, Noted, Routed, tool_of

from rrext.cluster import control, hosts, messages
from rrext.cluster.certificates import new_identity
from rrext.cluster.placement import HostAddress, NodeFailed
from rrext.engine.interface.operations import Close, ListTools, Open, Write
from rrext.errors import PipeNotOpen, ShuttingDown, TaskLost, Unavailable
from rrext.limits import DEFAULTS
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.catalog.plugins import load_nodes
from rrext.pipefile.environment import Environment
from rrext.pipefile.resources import NO_RESOURCES, Resources
from rrext.tasks.settings import WorkerSettings
from rrext.tasks.task_engine import TaskEngine
from rrext.tasks.worker import Worker

IN_FLIGHT = 64


class World(Routed):
    """An engine with hosts behind a network, a task on one of them, and calls of it in flight."""

    def __init__(self, engine: TaskEngine, placement: PlainHosts, network: Network) -> None:
        super().__init__(engine)
        self.placement = placement
        self.network = network
        self.calls: list[Noted] = []
        self.seen: set[int] = set()
        """All processes of hosts that were there."""

    async def begin(self) -> None:
        """Load a pipeline, open a pipe, and let calls run."""
        self.worker: Worker = await self.execute("a")
        self.pipe: int = json.loads((await self.engine.ask(Open(token="a", mime_type="text/plain")))[0])["pipe_id"]
        await self.engine.ask(Write(pipe_id=self.pipe, data="text"))
        self.calls = [Noted(self.engine, tool_of("a", "wait")) for _ in range(IN_FLIGHT)]
        assert await self.tool("a", "pid") == self.worker.link.pid  # it came behind them
        self.seen = below(os.getpid())

    async def lost(self, seconds: float) -> None:
        """Return when all calls are answered, each once, as those of a lost process."""
        async with asyncio.timeout(seconds):
            await self.worker.ended
        errors = [noted.answers for noted in self.calls]
        assert [len(each) for each in errors] == [1] * IN_FLIGHT
        assert {(type(error), error.data["sent"]) for (error,) in errors} == {(TaskLost, True)}
        for operation in (Write(pipe_id=self.pipe, data="more"), Close(pipe_id=self.pipe)):
            with pytest.raises(PipeNotOpen):
                await self.engine.ask(operation)


def below(pid: int) -> set[int]:
    """The processes that live below one."""
    parents: dict[int, int] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            parents[int(name)] = int(parent)
    found = {pid}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


async def gone(pids: set[int]) -> None:
    """Return when none of these processes lives."""
    async with asyncio.timeout(30):
        while [pid for pid in pids if _lives(pid)]:
            await asyncio.sleep(0.02)


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@asynccontextmanager
async def world(monkeypatch: pytest.MonkeyPatch, *, has_relays: bool = True) -> AsyncIterator[World]:
    """An engine, with a task whose calls run."""
    before = below(os.getpid())
    network, identity = Network(), new_identity("server")
    placement = PlainHosts(identity.certificate)
    if has_relays:
        monkeypatch.setattr(hosts, "connect", network.connect)
    limits = msgspec.structs.replace(DEFAULTS, threads=2 * IN_FLIGHT)
    settings = WorkerSettings(number=0, limits=limits, nodes=[NODES])
    catalog = Catalog(load_nodes(NODES))
    engine = TaskEngine(
        catalog=catalog,
        environment=Environment({}),
        settings=settings,
        links=lambda host: hosts.ClusterLinks(placement, identity, host, settings),
    )
    made = World(engine, placement, network)
    try:
        await made.begin()
        yield made
    finally:
        network.is_silent = False
        await engine.aclose()
        await asyncio.to_thread(network.close)
    await gone((made.seen | below(os.getpid())) - before)


def host_of(made: World) -> int:
    """The process of the host."""
    return made.placement.processes["node-1"].pid


FAULTS: dict[str, tuple[Callable[[World], Any], float]] = {
    "its process is killed": (lambda made: os.kill(made.worker.link.pid, signal.SIGKILL), 10),
    "its host is killed": (lambda made: os.kill(host_of(made), signal.SIGKILL), 10),
    "its connection is cut": (lambda made: made.network.relays[1].cut(), 10),
    "the connection of its host is cut": (lambda made: made.network.relays[0].cut(), 10),
    "its host is stopped": (lambda made: os.kill(host_of(made), signal.SIGSTOP), 12.5),
    "the network is silent": (lambda made: setattr(made.network, "is_silent", True), 12.5),
}
"""Fault → what does it, and the seconds in which all calls are answered."""


@pytest.mark.promise("cluster:one-answer")
@pytest.mark.parametrize("fault", FAULTS)
async def test_every_call_has_one_answer_when(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    act, seconds = FAULTS[fault]
    async with world(monkeypatch) as made:
        act(made)
        await made.lost(seconds)
        is_seen = fault in ("its process is killed", "its connection is cut")
        assert {"exitCode" in noted.answers[0].data for noted in made.calls} == {is_seen}
        if "host is stopped" in fault:
            os.kill(host_of(made), signal.SIGCONT)
        made.network.is_silent = False
        await gone({made.worker.link.pid})
        again = await made.execute("a")
        assert await made.tool("a", "pid") == again.link.pid != made.worker.link.pid


@pytest.mark.promise("cluster:one-answer")
async def test_a_stopped_process_is_told_by_its_host_and_ended_by_terminate(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(monkeypatch) as made:
        os.kill(made.worker.link.pid, signal.SIGSTOP)
        with pytest.raises(Unavailable, match="it was stopped"):
            await made.engine.ask(ListTools(token="a"))
        assert not any(noted.answers for noted in made.calls)
        (task,) = made.engine.tasks
        await made.engine.unload(task, patience=0.1)
        assert [len(noted.answers) for noted in made.calls] == [1] * IN_FLIGHT
        await gone({made.worker.link.pid})


@pytest.mark.promise("cluster:one-answer")
async def test_a_tool_that_keeps_the_interpreters_lock_longer_than_a_silence_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control, "SILENCE", 4.0)
    async with world(monkeypatch) as made:
        assert await made.tool("a", "hold", seconds=6.0) == 6.0
        assert not any(noted.answers for noted in made.calls)


async def test_a_host_whose_server_is_gone_ends_with_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(monkeypatch) as made:
        for host in made.engine.pool.links.hosts:  # type: ignore[attr-defined]
            host._control.end("as if the server was killed")
        await gone({host_of(made), made.worker.link.pid})


async def test_a_host_to_which_no_server_comes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    placement = PlainHosts(new_identity("server").certificate)
    await placement.place(NO_RESOURCES)
    await placement.close()


async def test_a_worker_that_cannot_be_reached_on_one_node_is_started_on_another(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(monkeypatch) as made:
        connect, refused = made.network.connect, list[int]()

        def refuse(address: str, port: int, *given: Any) -> Any:
            if not refused:
                refused.append(port)
                raise ConnectionRefusedError("as asked")
            return connect(address, port, *given)

        monkeypatch.setattr(hosts, "connect", refuse)
        worker = await made.engine.pool.take()
        if not refused:  # that was the one kept warm
            worker = await made.engine.pool.take()
        assert "node-2" in repr(worker.link)


async def test_a_host_that_cannot_be_reached_is_placed_on_another_node(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(monkeypatch) as made:
        await made.engine.pool.take()  # the one kept warm, whose start connects too
        connect, refused = made.network.connect, list[int]()

        def refuse(address: str, port: int, *given: Any) -> Any:
            if not refused:
                refused.append(port)
                raise ConnectionRefusedError("as asked")
            return connect(address, port, *given)

        monkeypatch.setattr(hosts, "connect", refuse)
        worker = await made.engine.pool.take(Resources(cpu=1))
        assert "node-3" in repr(worker.link)
        assert made.placement.avoided[-1] == {"node-2"}


@pytest.mark.promise("cluster:one-answer")
async def test_a_pipeline_whose_machine_vanishes_while_it_is_loaded_is_loaded_on_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world(monkeypatch) as made:
        loaded_in, lost = made.engine.loader._loaded_in, list[Any]()

        async def lose(worker: Worker, *given: Any, **more: Any) -> Any:
            if not lost:
                lost.append(worker.link)
                made.placement.kill(lost[0].node)
                await worker.ended  # else it may have loaded the pipeline before it was gone
            return await loaded_in(worker, *given, **more)

        monkeypatch.setattr(made.engine.loader, "_loaded_in", lose)
        worker = await made.execute("b")
        assert await made.tool("b", "pid") == worker.link.pid
        assert repr(worker.link) != repr(lost[0])


@pytest.mark.promise("cluster:one-answer")
async def test_placing_and_loading_are_tried_three_times_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(monkeypatch) as made:
        place, loaded_in, tried = made.placement.place, made.engine.loader._loaded_in, list[frozenset[str]]()

        async def place_each_second(resources: Resources, avoid: frozenset[str] = frozenset()) -> HostAddress:
            tried.append(avoid)
            if len(tried) % 2:
                raise NodeFailed(f"bad-{len(tried)}", "as asked")
            return await place(resources, avoid)

        async def lose(worker: Worker, *given: Any, **more: Any) -> Any:
            made.placement.kill(worker.link.node_number)
            await worker.ended
            return await loaded_in(worker, *given, **more)

        async def prepare(*_: Any) -> Any:
            return Resources(cpu=1), {}

        monkeypatch.setattr(made.placement, "place", place_each_second)
        monkeypatch.setattr(made.engine.loader, "_loaded_in", lose)
        monkeypatch.setattr(made.engine, "prepare", prepare)
        with pytest.raises(Unavailable, match="as asked"):
            await made.execute("b")
        assert tried == [set(), {"bad-1"}, {"bad-1", "node-2"}]


@pytest.mark.promise("cluster:drain")
async def test_a_new_node_with_the_name_of_one_that_is_drained_gets_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlainHosts, "name", "sun")
    async with world(monkeypatch) as made:
        await made.engine.pool.take()
        links: Any = made.engine.pool.links
        made.engine.pool.warm_up()
        while not links.hosts[0].reserved:  # until one starts there, ahead of its use
            await asyncio.sleep(0)
        made.placement.draining(frozenset(["node-1"]))
        made.engine.pool.drop_warm(lambda worker: worker.link.node_number == "node-1")
        workers = [await made.engine.pool.take() for _ in range(2)]
        assert [worker.link.node_number for worker in workers] == ["node-2", "node-2"]
        assert [repr(worker.link).split()[-1] for worker in workers] == ["sun>", "sun>"]


async def test_a_host_that_comes_up_while_its_server_ends_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(monkeypatch) as made:
        place, arrived, go = made.placement.place, asyncio.Event(), asyncio.Event()

        async def place_late(*given: Any) -> Any:
            address = await place(*given)
            arrived.set()
            await go.wait()
            return address

        monkeypatch.setattr(made.placement, "place", place_late)
        links: Any = made.engine.pool.links
        starting = asyncio.ensure_future(made.engine.pool.take(Resources(cpu=1)))
        await arrived.wait()
        closing = asyncio.ensure_future(links.close(1.0))
        await gone({host_of(made)})
        go.set()
        with pytest.raises(ShuttingDown):
            await starting
        await closing  # it waits for the processes of all hosts


@pytest.mark.promise("cluster:same-versions")
async def test_a_node_with_another_version_is_refused_and_both_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(monkeypatch) as made:
        mine = messages.own_versions()
        said = iter([messages.Versions("9.9", mine.python, mine.protocol)])  # by the server, which speaks first
        monkeypatch.setattr(messages, "own_versions", lambda: next(said, mine))
        links: Any = made.engine.pool.links
        with pytest.raises(Unavailable) as refused:
            await links._place(NO_RESOURCES, frozenset())
        assert f"rrext {mine.rrext}" in refused.value.message
        assert "rrext 9.9" in refused.value.message


@pytest.mark.promise("cluster:same-versions")
async def test_a_node_with_another_module_of_nodes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(monkeypatch) as made:
        links: Any = made.engine.pool.links
        links._hashes = {"json": "0" * 64}
        with pytest.raises(Unavailable, match="node-2 has another module json"):
            await links._place(NO_RESOURCES, frozenset())


async def test_a_file_of_nodes_that_cannot_be_imported_on_a_node_is_told_by_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(monkeypatch) as made:
        links: Any = made.engine.pool.links
        links._files = {NODES: "import only_on_the_server"}
        await made.engine.pool.take()  # the one kept warm, which has the right content
        with pytest.raises(
            TaskLost, match="routed_nodes.py, line 1: ModuleNotFoundError: No module named 'only_on_the_server'"
        ):
            await made.execute("b")


@pytest.mark.promise("cluster:same-versions")
async def test_a_module_that_neither_end_can_read_is_not_the_same_and_so_is_no_package_of_another_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world(monkeypatch) as made:
        links: Any = made.engine.pool.links
        links._hashes = {"no_such_module": ""}
        with pytest.raises(Unavailable, match="another module no_such_module .*: none there, none here"):
            await links._place(NO_RESOURCES, frozenset())
        links._hashes, links._packages = {}, {"rrext-shop": "1.2"}
        with pytest.raises(Unavailable, match=r"another package rrext-shop than this server: none there, 1\.2 here"):
            await links._place(NO_RESOURCES, frozenset())


def test_a_module_whose_package_raises_is_one_that_is_not_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "raising").mkdir()
    (tmp_path / "raising" / "__init__.py").write_text("raise RuntimeError")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert messages.hashes_of_modules(["raising.nodes"]) == {"raising.nodes": ""}


async def test_a_start_that_is_late_for_the_end_of_its_server_is_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(monkeypatch) as made:
        pool, arrived, go = made.engine.pool, asyncio.Event(), asyncio.Event()
        start = pool.links.start

        async def start_late(*given: Any) -> Any:
            link = await start(*given)
            arrived.set()
            await go.wait()
            return link

        monkeypatch.setattr(pool.links, "start", start_late)
        starting = asyncio.ensure_future(pool.take(Resources(cpu=1)))
        await arrived.wait()
        closing = asyncio.ensure_future(pool.close(5.0))
        go.set()
        with pytest.raises(ShuttingDown):
            await starting
        await closing
    assert not [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
