"""Hosts that are plain child processes of this one: a cluster of one machine, without what places hosts on others."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

import msgspec

from rrext.cluster.certificates import new_identity
from rrext.cluster.hosts import ClusterLinks
from rrext.cluster.placement import HostAddress, HostStart, NodeState
from rrext.engine.host.host import Host
from rrext.pipefile.resources import Resources
from rrext.tasks.settings import WorkerSettings


class PlainHosts:
    """A placement on nodes that are all this machine. `told` may change what is told of a host, such as its port."""

    name = ""
    """The name of all nodes, in place of the number of each."""

    def __init__(self, certificate: str, told: Callable[[HostAddress], HostAddress] = lambda address: address) -> None:
        self._certificate = certificate
        self._told = told
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        """Number of a node → its host."""
        self.avoided: list[frozenset[str]] = []
        self.draining: Callable[[frozenset[str]], object] = print

    async def place(self, resources: Resources, avoid: frozenset[str] = frozenset()) -> HostAddress:
        """Start a host, each on a node of its own."""
        self.avoided.append(avoid)
        node = f"node-{len(self.processes) + 1}"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "rrext.cluster.host", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        self.processes[node] = process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(HostStart(self._certificate, "127.0.0.1", self.name or node, node)) + b"\n")
        line = await process.stdout.readline()
        return self._told(msgspec.json.decode(line, type=HostAddress))

    async def release(self, host: HostAddress) -> None:
        """Kill a host."""
        self.kill(host.number)

    def kill(self, node: str, number: int = signal.SIGKILL) -> None:
        """Send a host a signal."""
        with suppress(ProcessLookupError):
            os.kill(self.processes[node].pid, number)

    async def nodes(self) -> list[NodeState]:
        """All of them."""
        return [NodeState(node, "127.0.0.1", number=node) for node in self.processes]

    def when_draining(self, told: Callable[[frozenset[str]], object]) -> None:
        """Remember who is told."""
        self.draining = told

    async def close(self) -> None:
        """Wait until all hosts have ended by themselves."""
        async with asyncio.timeout(30):
            for process in self.processes.values():
                await process.wait()


def plain_links(settings: WorkerSettings) -> Callable[[Host], ClusterLinks]:
    """What gives an engine workers on such hosts."""
    identity = new_identity("rrext-server")
    return lambda host: ClusterLinks(PlainHosts(identity.certificate), identity, host, settings)
