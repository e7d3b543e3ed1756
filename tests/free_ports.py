"""Ports of this machine for servers that cannot choose theirs, or that come back at the same one."""

from __future__ import annotations

import random
import socket

PORTS = range(20_000, 32_768)
"""Below those that systems give to whoever names no port: no connection of another test gets one of these by chance, between
the choice and the start of the server, or while the server is down. Above those that Ray gives to its workers."""


def free_port() -> int:
    """A TCP port without a listener, which the system gives to no other process."""
    while True:
        port = random.SystemRandom().choice(PORTS)  # tests set the seed of the other ones
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
