"""Where workers run beyond this machine: what the server wants of a placer, and how a host is told and tells of itself.

A host is a process on a node of the cluster, `python -m rrext.cluster.host`. It reads a `HostStart` as one line of JSON from
its stdin, and writes its `HostAddress` as one line of JSON to its stdout. It ends at the end of its stdin, when the server
tells it to, and when no server is connected to it for `HOST_PATIENCE` seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from rrext.pipefile.resources import Resources

HOST_PATIENCE: Final = 10.0
"""Seconds in which a host without a server ends: a server that lives pings it each few seconds."""

TASKS_PER_HOST: Final = 16
"""Tasks of one host: a host costs three times the memory of a worker, and its end is the end of all its tasks."""


class HostStart(msgspec.Struct, frozen=True):
    """What a host is told: the certificate in PEM of the one server that it trusts, the address at which it listens, and the
    name and number of its node."""

    certificate: str
    listen: str
    node: str
    number: str


class HostAddress(msgspec.Struct, frozen=True):
    """Where a host listens for its server, its certificate in PEM, the name and number of its node, and its process there."""

    address: str
    port: int
    certificate: str
    node: str
    number: str
    pid: int = 0


class NodeState(msgspec.Struct, frozen=True):
    """A node of the cluster: its name and address, what it has in all and free, whether it is drained, and its number."""

    name: str
    address: str
    total: dict[str, float] = {}
    free: dict[str, float] = {}
    is_draining: bool = False
    number: str = ""


class NodeFailed(Exception):
    """A node did not start a host, or the server cannot reach that host: another attempt may succeed, on another node.

    `node` is its number, empty if what starts hosts ended itself.
    """

    def __init__(self, node: str, reason: str) -> None:
        super().__init__(reason)
        self.node: str = node


class Placement(Protocol):
    """Makes hosts on the nodes of a cluster. On the server's loop."""

    async def place(self, resources: Resources, avoid: frozenset[str] = frozenset()) -> HostAddress:
        """Start a host that holds the resources, not on a node whose number is to `avoid` if another can.

        Raises `NodeFailed` if a further attempt may succeed, else `Unavailable`.
        """
        ...

    async def release(self, host: HostAddress) -> None:
        """End a host of which the server has no connection: it never came up, or is stuck."""
        ...

    async def nodes(self) -> list[NodeState]:
        """The nodes that live. Raises `Unavailable`."""
        ...

    def when_draining(self, told: Callable[[frozenset[str]], object]) -> None:
        """Tell the numbers of the nodes that are drained, each time that they change: a new node may have the name of one."""
        ...

    async def close(self) -> None:
        """End what places; hosts end by themselves when their server is gone."""
        ...
