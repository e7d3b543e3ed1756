"""A cluster of Ray with two nodes, of which one is in a network of its own that stops to carry anything: run as a program, in a
new network namespace."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / room) for room in ("", "cluster", "faces", "providers", "routing", "tasks")]

from ray_cluster import Network, ray_cluster  # noqa: E402
from task_server import gone, pipeline  # noqa: E402
from test_ray import ROOMY, answers, busy, hosts, served  # noqa: E402

SUN, MOON = "10.77.0.1", "10.77.0.2"
PATIENCE = 12.5
"""Seconds until all calls are answered."""


def ip(*words: str, enter: tuple[str, ...] = ()) -> None:
    subprocess.run([*enter, "ip", *words], check=True)


@contextmanager
def other_network() -> Iterator[tuple[str, ...]]:
    """A network behind a cable, whose near end is `near`; the command that enters it."""
    keeper = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    keeper.stdin.write(b"\n")
    keeper.stdin.flush()
    keeper.stdout.read(1)  # it has its network by now
    enter = ("nsenter", f"--net=/proc/{keeper.pid}/ns/net")
    ip("link", "set", "lo", "up")
    ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(keeper.pid))
    for name, address, inside in (("near", SUN, ()), ("far", MOON, enter)):
        ip("address", "add", f"{address}/24", "dev", name, enter=inside)
        ip("link", "set", name, "up", enter=inside)
    ip("link", "set", "lo", "up", enter=enter)
    try:
        yield enter
    finally:
        keeper.kill()
        keeper.communicate()


async def main() -> None:
    with other_network() as enter, ray_cluster(Network(SUN), Network(MOON, enter)) as cluster:
        async with served(cluster, *ROOMY) as server, busy(server, node="moon") as task:
            (host,) = hosts(cluster) & set(cluster.nodes["moon"].pids())
            ip("link", "set", "far", "down", enter=enter)
            async with asyncio.timeout(PATIENCE):
                await task.ended("task_lost")
            await gone(host)
            token = (await task.face.request("execute", {"pipeline": pipeline()}))["token"]
            assert await answers(task.face, token)
    print("all answered, all gone")


if __name__ == "__main__":
    asyncio.run(main())
