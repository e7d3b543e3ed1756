"""A server and a host in a network of their own that stops to carry anything: run as a program, in a new network namespace."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "routing"), str(TESTS / "cluster")]

import pytest  # noqa: E402
from test_cluster_faults import gone, host_of, world  # noqa: E402

SIOCSIFFLAGS, UP, DOWN = 0x8914, 1, 0


def turn_loopback(flags: int) -> None:
    """Let the network of this namespace carry packets, or drop them all."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags))


async def main() -> None:
    turn_loopback(UP)
    async with world(pytest.MonkeyPatch(), has_relays=False) as made:
        ends = {host_of(made), made.worker.link.pid}
        turn_loopback(DOWN)
        await made.lost(12.5)
        await gone(ends)  # both ends see it
        turn_loopback(UP)
    print("all answered, all gone")


if __name__ == "__main__":
    asyncio.run(main())
