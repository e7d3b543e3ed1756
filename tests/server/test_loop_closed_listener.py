"""A listening socket that was closed while the loop waited to accept again."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from rrext.server.loop import ServingLoop


def test_a_loop_does_not_accept_again_at_a_socket_that_was_closed_meanwhile() -> None:
    loop: Any = ServingLoop()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.close()
    try:
        loop._start_serving(asyncio.Protocol, listener)
    finally:
        loop.close()
