"""Where faces come from: an engine in this process, or a server of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import anyio
import msgspec
from engine_face import EngineFace, EngineLine
from face import Face, Line, Way
from forked import process
from wire_faces import RECEIVED, ClientFace, SplitChannel, WireLine

from rrext import Client
from rrext.client.channels import Channel, as_channel
from rrext.client.server_address import address_of, serve_command, server_env
from rrext.engine.interface.call import Caller
from rrext.engine.local_engine import LocalEngine
from rrext.errors import RrextError
from rrext.files.file_store import FileStoreSettings
from rrext.limits import DEFAULTS
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.catalog.plugins import load_nodes
from rrext.pipefile.environment import Environment
from rrext.testing import ManualClock, pair
from rrext.testing.sessions import MemorySession, PipeSession
from rrext.transports.process import ChildProcess
from rrext.wire.connection import ClientConnection
from rrext.wire.framing import ContentLength

__all__ = ["HERE", "PIPELINE", "STANDING", "House", "LocalHouse", "ServerHouse", "SpawnedHouse", "open_house", "unix_server"]

HERE = Path(__file__).resolve().parent
PIPELINE = HERE / "face.pipe"
NODES = [HERE / name for name in ("face_nodes.py", "face_fates.py", "face_lanes.py")]
ON_HOSTS = HERE.parent / "cluster" / "served_on_hosts.py"
ISOLATED = ("process", "hosts")
"""Ways whose tasks run in processes of their own: on this machine, or on a host of a cluster."""
FLAGS = {"threads", "pipe_idle", "max_frame", "drain"}
"""The limits that a command line can set."""


class House:
    """Gives faces and lines of one engine."""

    def connect(self, context: Mapping[str, Any] | None = None, *, trusted: bool = True) -> AbstractAsyncContextManager[Face]:
        """A face. Who is not `trusted` reads no texts of exceptions."""
        raise NotImplementedError

    def line(self, *, reading: bool = True) -> AbstractAsyncContextManager[Line]:
        """A line. One that does not read sees nothing until its `read` is run."""
        raise NotImplementedError


class LocalHouse(House):
    """An engine in this process, with a clock that stands still unless a test moves it, if there is to be one."""

    def __init__(self, way: Way, engine: LocalEngine, clock: ManualClock | None) -> None:
        self.way = way
        self.engine = engine
        self._clock = clock

    @property
    def clock(self) -> ManualClock:
        """The clock of a house that was opened with one."""
        assert self._clock is not None
        return self._clock

    @asynccontextmanager
    async def connect(self, context: Mapping[str, Any] | None = None, *, trusted: bool = True) -> AsyncIterator[Face]:
        way = self.way
        if way.kind == "engine":
            line = EngineLine(self.engine, _caller(context, trusted))
            yield EngineFace(line)
            await line.vanish()
        elif way.kind == "memory":
            async with pair(self.engine, over="memory", dialect=way.dialect, context=context, trusted=trusted) as client:
                yield ClientFace(client)
        else:
            async with (
                self._channel(trusted) as channel,
                Client.over(channel, dialect=way.dialect, context=context) as client,
            ):
                yield ClientFace(client)

    @asynccontextmanager
    async def line(self, *, reading: bool = True) -> AsyncIterator[Line]:
        if self.way.kind == "engine":
            engine_line = EngineLine(self.engine, _caller(None, True))
            yield engine_line
            await engine_line.vanish()
            return
        async with self._channel(True) as channel, _reading(channel, self.way, reading) as line:
            yield line

    @asynccontextmanager
    async def _channel(self, trusted: bool) -> AsyncIterator[Channel]:
        """The client's end of a session, until that has ended."""
        in_memory = self.way.kind == "memory"
        session = (MemorySession if in_memory else PipeSession)(self.engine, trusted=trusted)
        serving = self.engine.host.spawn(session.run(), "session")
        channel = as_channel(session.client_end)
        try:
            yield channel if in_memory else SplitChannel(channel)
        finally:
            with anyio.CancelScope(shield=True), anyio.fail_after(10):
                await channel.aclose()
                while not serving.done():
                    await anyio.lowlevel.checkpoint()


class SpawnedHouse(House):
    """A server for each connection."""

    def __init__(self, way: Way, env: Mapping[str, str], flags: Mapping[str, Any], store: str) -> None:
        self.way = way
        self._args = ["--store", store]
        self._env = {"PYTHONPATH": str(HERE.parents[1]), **env}
        self._flags = flags

    @asynccontextmanager
    async def connect(self, context: Mapping[str, Any] | None = None, *, trusted: bool = True) -> AsyncIterator[Face]:
        assert trusted, "who spawned a server is always trusted"
        spawned = Client.spawn(
            PIPELINE, nodes=NODES, env=self._env, dialect=self.way.dialect, context=context, args=self._args, **self._flags
        )
        async with spawned as client:
            yield ClientFace(client)

    @asynccontextmanager
    async def line(self, *, reading: bool = True) -> AsyncIterator[Line]:
        command = serve_command([PIPELINE], nodes=NODES, args=self._args, **self._flags)
        process = ChildProcess(command, env=server_env(self._env))
        try:
            async with _reading(process, self.way, reading) as line, anyio.create_task_group() as tasks:
                tasks.start_soon(process.drain_stderr)
                yield line
                tasks.cancel_scope.cancel()
        finally:
            await process.stop()
            process.close()


class ServerHouse(House):
    """A server at a socket or a port, for all connections."""

    def __init__(self, way: Way, address: str) -> None:
        self.way = way
        self.address = address

    async def is_as_it_was(self) -> bool:
        """Whether the server runs its one pipeline, and no other: with several a token is needed."""
        try:
            async with self.connect() as face:
                return bool(await face.names())
        except RrextError:
            return False

    @asynccontextmanager
    async def connect(self, context: Mapping[str, Any] | None = None, *, trusted: bool = True) -> AsyncIterator[Face]:
        assert trusted, "a process of the same user is always trusted, and these servers trust their clients on a network"
        async with Client.connect(self.address, dialect=self.way.dialect, context=context) as client:
            yield ClientFace(client)

    @asynccontextmanager
    async def line(self, *, reading: bool = True) -> AsyncIterator[Line]:
        async with _reading(await address_of(self.address, None).connect(), self.way, reading) as line:
            yield line


def listening(kind: str, folder: str) -> list[str]:
    """The options with which a server listens, in a folder of its own."""
    if kind == "unix":
        return ["--listen", f"unix:{folder}/s"]
    return ["--ws", "127.0.0.1:0", "--trust-clients", "--isolation", "process" if kind in ISOLATED else "none"]


def program(kind: str) -> list[str] | None:
    """What serves: on hosts another program than `rrext`."""
    return [sys.executable, str(ON_HOSTS), "serve", "--parent", str(os.getpid())] if kind == "hosts" else None


def shared_state(kind: str, folder: str) -> dict[str, str]:
    """The variables by which nodes in several processes share their gates."""
    return {"FACE_STATE": folder} if kind in ISOLATED else {}


def told_address(said: bytes) -> str | None:
    """The address in what a server says when it listens."""
    found = re.search(rb"listening at (\S+)", said)
    return None if found is None else found[1].decode()


@asynccontextmanager
async def unix_server(
    env: Mapping[str, str] | None = None, *args: str, kind: str = "unix", **flags: Any
) -> AsyncIterator[tuple[str, ChildProcess]]:
    """The address of a server at a socket or a port, which serves the pipeline of this folder, and its process."""
    with TemporaryDirectory(prefix="rrext-") as folder:  # a path of pytest may be too long for a socket
        command = serve_command([PIPELINE], program(kind), nodes=NODES, args=[*listening(kind, folder), *args], **flags)
        ready, said = anyio.Event(), bytearray()

        def hear(piece: bytes) -> None:
            said.extend(piece)
            if b"listening at" in said and b"\n" in said:
                ready.set()

        variables = server_env({"PYTHONPATH": str(HERE.parents[1]), **shared_state(kind, folder), **(env or {})})
        process = ChildProcess(command, env=variables, on_stderr=hear)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(process.drain_stderr)
                with anyio.fail_after(30):
                    await ready.wait()
                address = told_address(bytes(said))
                assert address is not None
                yield address, process
                tasks.cancel_scope.cancel()
        finally:
            process.signal_group(signal.SIGTERM)
            await process.stop()
            process.close()


class StandingServer:
    """A server as users have it: it serves one test after another, until one of them loads another pipeline."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._folder: TemporaryDirectory[str] | None = None
        self._address = ""

    def address(self) -> str:
        """Where it is. Who asks for the first time starts it."""
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="rrext-")
            self._process = process(
                serve_command([PIPELINE], program(self._kind), nodes=NODES, args=listening(self._kind, self._folder.name)),
                env=server_env({"PYTHONPATH": str(HERE.parents[1]), **shared_state(self._kind, self._folder.name)}),
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            assert self._process.stderr is not None
            while (address := told_address(said := self._process.stderr.readline())) is None:
                assert said, "the server ended"
            self._address = address
            self._reading = threading.Thread(target=self._process.stderr.read, name="standing-server")
            self._reading.start()
        return self._address

    def stop(self) -> None:
        """End it, if it was started."""
        if self._folder is not None:
            self._process.terminate()
            self._process.wait()
            self._reading.join()
            assert self._process.stderr is not None
            self._process.stderr.close()
            self._folder.cleanup()
            self._folder = None


STANDING = {kind: StandingServer(kind) for kind in ("unix", "ws", "process", "hosts")}


@cache
def catalog() -> Catalog:
    """The nodes of this folder, for all engines: what a node keeps between calls has a name that a test gives."""
    return Catalog(node for file in NODES for node in load_nodes(str(file)))


@asynccontextmanager
async def _reading(channel: Channel, way: Way, reading: bool) -> AsyncIterator[WireLine]:
    line = WireLine(channel, ClientConnection(ContentLength(RECEIVED), way.dialect, RECEIVED))
    async with anyio.create_task_group() as tasks:
        if reading:
            tasks.start_soon(line.read)
        try:
            yield line
        finally:
            tasks.cancel_scope.cancel()
    with anyio.CancelScope(shield=True):
        await channel.aclose()


def _caller(context: Mapping[str, Any] | None, trusted: bool) -> Caller:
    known = context or {}
    return Caller(f"engine-{uuid4().hex}", known.get("userId"), known.get("spaceId"), trusted)


@asynccontextmanager
async def open_house(way: Way, **options: Any) -> AsyncIterator[Any]:
    """A house of that way: see `_open_house`. Its file store is empty."""
    with TemporaryDirectory(prefix="rrext-") as store:
        async with _open_house(way, store=store, **options) as house:
            yield house


@asynccontextmanager
async def _open_house(
    way: Way, *, store: str, clock: bool = False, fresh: bool = False, env: Mapping[str, str] | None = None, **limits: Any
) -> AsyncIterator[Any]:
    """A house of that way. `fresh`: nobody was there before, so that numbers count from the beginning. `env` is what
    `${NAME}` may mean, `limits` are fields of `rrext.limits.Limits`."""
    if way.kind == "spawned":
        assert not clock, "the clock of another process cannot be moved"
        assert limits.keys() <= FLAGS, f"no flag sets {limits.keys() - FLAGS}"
        yield SpawnedHouse(way, env or {}, limits, store)
        return
    if way.kind in STANDING:
        assert not clock, "the clock of another process cannot be moved"
        assert limits.keys() <= FLAGS, f"no flag sets {limits.keys() - FLAGS}"
        if not (fresh or env or limits):
            house = ServerHouse(way, STANDING[way.kind].address())
            yield house
            if not await house.is_as_it_was():
                STANDING[way.kind].stop()
            return
        async with unix_server(env, "--store", store, kind=way.kind, **limits) as (address, _):
            yield ServerHouse(way, address)
        return
    moved = ManualClock() if clock else None
    engine = LocalEngine(
        catalog=catalog(),
        environment=Environment(env),
        limits=msgspec.structs.replace(DEFAULTS, **limits),
        clock=moved,
        store=FileStoreSettings(directory=store),
    )
    try:
        engine.load(PIPELINE.read_bytes(), token="face", name="face", folder=str(HERE))
        yield LocalHouse(way, engine, moved)
    finally:
        await engine.aclose()
