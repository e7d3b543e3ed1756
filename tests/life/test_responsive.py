"""Others are answered while tools compute, block and overstay; and what does that is named."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from raw_client import Server

PROMISE = 0.1
TURNS = 10
ROUNDS = 6
"""A machine that is busy with something else makes some rounds late; a server that is late by itself makes all of them late."""


def cancel_and_ping(server: Server) -> float:
    """Seconds for a ping, a call and its cancel, many times."""
    began = time.monotonic()
    for _ in range(TURNS):
        server.ask("rrext_ping")
        waiting = server.send_tool("wait", {"gate": "never"})
        server.send("cancel", {"requestId": waiting})
        assert server.code(waiting) == "cancelled"
    return time.monotonic() - began


@pytest.mark.promise("tool:sync:others-answered")
def test_pings_and_cancels_are_answered_while_32_tools_compute(spawn: Callable[..., Server]) -> None:
    server = spawn()
    server.call("add", {"a": 1})
    for _ in range(32):
        server.send_tool("spin", {"gate": "never"})
    while server.stderr_text().count("arrived at never\n") < 32:
        server.ask("rrext_ping")
    rounds = [cancel_and_ping(server) for _ in range(ROUNDS)]
    assert sorted(rounds)[ROUNDS // 2 - 1] < 2 * TURNS * PROMISE
