"""Workers that are killed at random moments: their calls fail and say so, no other task notices, and nothing is left."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from killing import HERE, NetworkServer, all_gone, descendants, descriptors, kill
from listening_server import PATIENCE

from rrext import Client, RrextError

pytestmark = [
    pytest.mark.promise("kill:workers"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.timeout(600),
]

SETTLED = 6
"""The processes of a server with one task: a watchdog; the one that forks workers; the worker, and one that waits for a further
task, with their watchdogs."""
CALLERS = 12
MOST = 200
"""Answers after which a worker is killed, at most."""
LOST = ("task_lost", "TASK_NOT_REGISTERED", "pipe_not_open")
"""The codes of calls that a worker had, and of calls that came after its end."""
PIPELINE: dict[str, Any] = json.loads((HERE / "kill.pipe").read_text())


@pytest.mark.parametrize("kind", ["ws", "unix"])
async def test_the_calls_of_a_killed_worker_fail_and_no_other_task_notices(kind: str, folder: Path, rounds: range) -> None:
    with NetworkServer(kind, "process", folder) as server:
        async with Client.connect(server.address) as client, Client.connect(server.address) as other:
            with anyio.fail_after(PATIENCE * 2):
                await one_round(client, other, -1)  # for all that the first one makes
                while len(descendants(server.process.pid)) < SETTLED:
                    await anyio.lowlevel.checkpoint()
            settled = descriptors(server.process.pid)
            for seed in rounds:
                with anyio.fail_after(PATIENCE * 2):
                    await one_round(client, other, seed)
            with anyio.fail_after(PATIENCE):
                while len(descendants(server.process.pid)) > SETTLED or descriptors(server.process.pid) > settled:
                    await anyio.lowlevel.checkpoint()
        assert "bug" not in server.log
        assert "Traceback" not in server.log


async def lost(work: Callable[[int], Awaitable[None]], number: int) -> None:
    """Work until the worker is gone."""
    with pytest.raises(RrextError) as caught:
        await work(number)
    assert caught.value.code in LOST, caught.value


async def one_round(client: Client, other: Client, seed: int) -> None:
    """Load a pipeline, call its tools and write to it, and kill its worker after some answers."""
    chance = random.Random(seed)
    last = chance.randrange(1, MOST)
    token = f"round-{seed}"
    await client.use(pipeline=PIPELINE | {"project_id": token}, token=token)
    worker = await client.tool(token=token, tool="pid")
    answered = 0
    children: list[int] = []

    def count() -> None:
        nonlocal answered
        answered += 1
        if answered == last:
            children.extend(kill(worker))

    async def call(number: int) -> None:
        size = chance.choice((0, 1000, 300_000))
        while True:
            tag = f"tag-{number}-"
            assert await client.tool(token=token, tool="echo", input={"tag": tag, "size": size}) == tag + "." * size
            count()

    async def write(number: int) -> None:
        while True:
            async with client.pipe(token=token, mimetype="application/octet-stream") as pipe:
                await pipe.write(bytes(chance.choice((1, 100_000))))
                count()

    async def wait(number: int) -> None:
        await client.tool(token=token, tool="wait")

    async with anyio.create_task_group() as callers:
        for number in range(CALLERS):
            callers.start_soon(lost, (call, write, wait)[number % 3], number)
        while not children and answered < last:
            assert await other.tool(token="kill", tool="echo", input={"tag": "other"}) == "other"
    assert await other.tool(token="kill", tool="echo", input={"tag": "other"}) == "other"
    assert all_gone(children)
