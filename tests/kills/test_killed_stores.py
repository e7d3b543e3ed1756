"""Embedded stores whose engines and servers are killed at random moments: what was answered is there, and nothing half."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec
import pytest
from killing import all_gone, descendants, kill
from listening_server import PATIENCE, ListeningServer

from rrext import Client, RrextError

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.timeout(600),
]

MIB: Final = 1024 * 1024
CALLERS: Final = 2
"""Writers of a store: when one is answered and its engine is killed, the call of the other is at any step."""
WRITES: Final = 30
"""Answers of each store in a round."""
FILLING: Final = 24
"""Writes that fill the log of an engine."""


class Store(msgspec.Struct, frozen=True):
    """How the number `n` is written to a store with some bytes, and how all numbers are read, with the bytes of each.

    `log` has so many bytes when the engine begins another one or moves it into its files.
    """

    log: int
    engine: str
    config: dict[str, Any]
    write: Callable[[int, int], tuple[str, dict[str, Any]]]
    read: tuple[str, dict[str, Any]]
    sizes: Callable[[Any], dict[int, int]]
    make: dict[str, Any] | None = None

    @property
    def size(self) -> int:
        """The bytes of a write."""
        return self.log // FILLING // 8 * 8


def table(log: int, engine: str, repeated: str) -> Store:
    """A table of an SQL database."""
    return Store(
        log,
        engine,
        {"allow_execute": True, "create": True},
        lambda n, size: ("execute", {"sql": f"INSERT INTO t VALUES ($1, {repeated.format(size)})", "params": [n]}),
        ("query", {"sql": "SELECT n, length(x) FROM t", "row_mode": "array", "limit": 25_000}),
        lambda answer: dict(answer["rows"]),
        {"sql": "CREATE TABLE IF NOT EXISTS t (n integer, x text)"},
    )


def chunks(n: int, size: int) -> tuple[str, dict[str, Any]]:
    """An object of eight chunks, with a path of its own."""
    one = {"object_id": str(n), "content": "x" * (size // 8), "embedding": [1.0, n]}
    return "upsert", {"documents": [one | {"metadata": {"parent": str(n), "chunkId": part}} for part in range(8)]}


STORES: Final = {
    "store_qdrant_edge": Store(
        32 * MIB,
        "rrext.nodes.vectors.edge",
        {"min_free_bytes": 0},
        chunks,
        ("list", {"limit": 10_000}),
        lambda answer: {int(n): STORES["store_qdrant_edge"].size // 8 * parts for n, parts in answer["counts"].items()},
    ),
    "graph_ladybug": Store(
        16 * MIB,
        "rrext.nodes.graph.ladybug",
        {"allow_execute": True},
        lambda n, size: ("execute", {"query": f"CREATE (:T {{n: $n, x: repeat('x', {size})}})", "params": {"n": n}}),
        ("query", {"query": "MATCH (t:T) RETURN t.n, size(t.x)", "row_mode": "array", "limit": 10_000}),
        lambda answer: dict(answer["rows"]),
        {"query": "CREATE NODE TABLE IF NOT EXISTS T(n INT64 PRIMARY KEY, x STRING)"},
    ),
    "db_duckdb": table(16 * MIB, "rrext.nodes.sql.duckdb", "repeat('x', {})"),
    "db_sqlite": table(4 * MIB, "", "printf('%0{}d', 0)"),
}


class Written:
    """The numbers that were written to one store: the next one, and those that were answered."""

    def __init__(self) -> None:
        self.numbers = count()
        self.answered: set[int] = set()


@pytest.fixture
def pipeline(memory_path: Path) -> Path:
    """A file with all embedded stores, whose data are in memory."""
    path = memory_path / "stores.pipe"
    control = [{"classType": "tool", "from": "tools"}]
    stores = [
        {"id": name, "provider": name, "config": {"path": f"{name}.data", **store.config}, "control": control}
        for name, store in STORES.items()
    ]
    path.write_text(json.dumps({"source": "tools", "components": [{"id": "tools", "provider": "tools"}, *stores]}))
    return path


@pytest.mark.promise("kill:stores")
async def test_what_embedded_stores_answered_outlives_their_killed_engines_and_servers(
    pipeline: Path, rounds: range, folder: Path
) -> None:
    written = {name: Written() for name in STORES}
    for seed in rounds[::2]:
        await one_round(pipeline, f"unix:{folder / str(seed)}", written, random.Random(seed))
    address = f"unix:{folder / 's'}"
    with server_of(pipeline, address):
        async with Client.connect(address) as client:
            for name in STORES:
                await check(client, name, written[name])


def server_of(pipeline: Path, address: str) -> ListeningServer:
    command = [sys.executable, "-m", "rrext", "serve", str(pipeline), "--listen", address]
    return ListeningServer([*command, "--isolation", "none"])


async def one_round(pipeline: Path, address: str, written: dict[str, Written], chance: random.Random) -> None:
    """Look for all that was written; write to all stores, and kill the engine of each; kill the server, or all of it."""
    with server_of(pipeline, address) as server:
        pid = server.process.pid
        async with Client.connect(address) as client:
            for name, store in STORES.items():
                if store.make:
                    await client.tool(tool="execute", node_id=name, input=store.make)
                await check(client, name, written[name])
            with anyio.fail_after(PATIENCE * 2):
                async with anyio.create_task_group() as writers:
                    for name in STORES:
                        last = chance.randrange(1, WRITES)
                        for _ in range(CALLERS):
                            writers.start_soon(write, client, name, written[name], pid, last)
            both = chance.random() < 0.5
            engines = [engine for name in STORES for engine in engines_of(pid, name)]
            left = kill(pid)
            for engine in engines if both else ():
                with suppress(ProcessLookupError):  # it has ended with its server
                    os.kill(engine, signal.SIGKILL)
        assert all_gone(left)


async def write(client: Client, name: str, written: Written, server: int, last: int) -> None:
    """Write number after number, and kill the engine of the store after the answer `last` of this round."""
    begun = len(written.answered)
    while len(written.answered) < begun + WRITES:
        number = next(written.numbers)
        tool, input = STORES[name].write(number, STORES[name].size)
        try:
            await client.tool(tool=tool, node_id=name, input=input)
        except RrextError as error:
            if "SIGKILL" not in error.message:
                raise
            continue
        written.answered.add(number)
        if len(written.answered) == begun + last:
            for engine in engines_of(server, name):
                os.kill(engine, signal.SIGKILL)


def engines_of(server: int, name: str) -> list[int]:
    """The processes of the engine of a store; none if it works in the server."""
    module = STORES[name].engine
    return [pid for pid in descendants(server) if module and module in command_of(pid)]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


async def check(client: Client, name: str, written: Written) -> None:
    """All that was answered is there, and of the rest nothing or the whole."""
    store = STORES[name]
    tool, input = store.read
    sizes = store.sizes(await client.tool(tool=tool, node_id=name, input=input))
    assert written.answered <= sizes.keys(), name
    assert set(sizes.values()) <= {store.size}, name
