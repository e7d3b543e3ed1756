"""Servers that are killed at random moments: what they wrote is received, what they did not fails, and nothing is left."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from killing import SERVE, SERVERS, NetworkServer, Relay, all_gone, kill, tags_in
from listening_server import PATIENCE

from rrext import Client, NotConnected, ServerExited

pytestmark = [
    pytest.mark.promise("kill:answers-whole"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.timeout(600),
]

RECORDED = """sh -c 'echo $$ > "$0"; exec "$@"' "$0" "$@" | tee "$0.written\""""
"""Runs a command whose process is named in a file, and keeps what it writes."""
CALLERS = 24
MOST = 300
"""Answers after which a server is killed, at most."""


@pytest.mark.parametrize(("kind", "isolation"), SERVERS)
async def test_each_answer_that_a_killed_server_wrote_is_received(
    kind: str, isolation: str, folder: Path, rounds: range
) -> None:
    for seed in rounds:
        with NetworkServer(kind, isolation, folder) as server:
            relay = Relay(server, folder)
            received = await answers_until_killed(Client.connect(relay.address), lambda: server.process.pid, seed)
            assert tags_in(relay.ended(), is_web=kind == "ws") == received, f"seed {seed}"


async def test_each_answer_that_a_killed_child_wrote_is_received(folder: Path, rounds: range) -> None:
    pid, written = folder / "pid", folder / "pid.written"
    for seed in rounds:
        client = Client.spawn(command=["sh", "-c", RECORDED, str(pid), *SERVE])
        received = await answers_until_killed(client, lambda: int(pid.read_text()), seed)
        assert tags_in(written.read_bytes(), is_web=False) == received, f"seed {seed}"


async def answers_until_killed(client: Client, server: Callable[[], int], seed: int) -> set[str]:
    """The tags of the answers to many callers, whose server is killed after some answers."""
    chance = random.Random(seed)
    last = chance.randrange(1, MOST)
    sizes = [chance.choice((0, 10, 1000, 70_000, 500_000)) for _ in range(CALLERS)]
    received: set[str] = set()
    children: list[int] = []

    async def caller(number: int) -> None:
        tool = ("echo", "echo_later")[number % 2]
        for count in range(MOST):
            tag = f"tag-{number * MOST + count}-"
            try:
                result = await client.tool(tool=tool, input={"tag": tag, "size": sizes[number]})
            except (ServerExited, NotConnected):
                return
            assert result == tag + "." * sizes[number]
            received.add(tag)
            if len(received) == last:
                children.extend(kill(server()))

    with anyio.fail_after(PATIENCE * 2):
        async with client, anyio.create_task_group() as callers:
            for number in range(CALLERS):
                callers.start_soon(caller, number)
    assert len(received) >= last
    assert all_gone(children)
    return received
