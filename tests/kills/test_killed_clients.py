"""Clients that are killed at random moments, in the middle of everything, leave no pipe, no call and no descriptor."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from forked import process
from killing import SERVE, SERVERS, NetworkServer, all_gone, descendants, descriptors, opened
from listening_server import PATIENCE

from rrext import Client

pytestmark = [
    pytest.mark.promise("kill:nothing-left"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.timeout(600),
]

VICTIM = """
import random, sys
import anyio
from rrext import Client

async def main(seed, *address):
    chance = random.Random(seed)
    client = Client.connect(*address) if len(address) == 1 else Client.spawn(command=list(address))

    async def object():
        for number in range(1000):
            print("an object", flush=True)
            async with client.pipe(mimetype="application/octet-stream") as pipe:
                for _ in range(chance.randrange(6)):
                    print("a write", flush=True)
                    await pipe.write(bytes(chance.choice((1, 1000, 1_000_000))))
                await pipe.tool(tool="echo", input={"tag": "t"})

    async def call():
        for number in range(1000):
            print("a call", flush=True)
            size = chance.choice((1, 500_000))
            await client.tool(tool=chance.choice(("echo", "echo_later")), input={"tag": "t", "size": size})

    async with client, anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(object)
            tasks.start_soon(call)
        tasks.start_soon(lambda: client.tool(tool="wait"))

anyio.run(main, *sys.argv[1:])
"""
MOST = 300
"""Steps after which a client is killed, at most."""


def victim(seed: int, *address: str) -> subprocess.Popen[bytes]:
    """A client that has done some of its steps, and goes on."""
    client = process([sys.executable, "-c", VICTIM, str(seed), *address], stdout=subprocess.PIPE)
    steps = random.Random(seed).randrange(MOST)
    assert client.stdout is not None
    for _ in range(1 + steps):
        assert client.stdout.readline(), "the client ended by itself"
    return client


def kill(client: subprocess.Popen[bytes]) -> None:
    """Kill it, whatever it does."""
    client.send_signal(signal.SIGKILL)
    client.wait(PATIENCE)
    assert client.stdout is not None
    client.stdout.close()


@pytest.mark.parametrize(("kind", "isolation"), SERVERS)
async def test_a_killed_client_leaves_no_pipe_and_no_call(kind: str, isolation: str, folder: Path, rounds: range) -> None:
    with NetworkServer(kind, isolation, folder) as server:
        before = 0
        for seed in rounds:
            await anyio.to_thread.run_sync(lambda seed=seed: kill(victim(seed, server.address)))
            with anyio.fail_after(PATIENCE):
                async with Client.connect(server.address) as client:
                    while (await client.request("rrext_get_task_status"))["threads"]["used"]:
                        pass
                    assert (await client.request("rrext_get_task_status"))["pipeflow"]["totalPipes"] == 0
            if seed == 0:
                before = descriptors(server.process.pid)
        with anyio.fail_after(PATIENCE):
            while descriptors(server.process.pid) > before:
                await anyio.lowlevel.checkpoint()
        assert "Traceback" not in server.log


def test_the_server_of_a_killed_client_ends_with_all_its_children(rounds: range) -> None:
    for seed in rounds:
        client = victim(seed, *SERVE)
        children = [end for pid in descendants(client.pid) if (end := opened(pid)) is not None]
        assert children
        kill(client)
        assert all_gone(children)
