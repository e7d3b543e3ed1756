"""Many clients at once, and hostile ones: none harms another, and each is answered."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ws_server import WsServer

pytestmark = [pytest.mark.promise("ws:load"), pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]


def test_a_port_of_many_clients_has_descriptors_for_them() -> None:
    with WsServer(limits="-S -n 256") as server:
        line = next(line for line in limits_of(server) if line.startswith("Max open files"))
        soft, hard = line.split()[3:5]
        assert int(soft) >= min(4096, int(hard))


def limits_of(server: WsServer) -> list[str]:
    """What the system allows the process."""
    return Path(f"/proc/{server.process.pid}/limits").read_text().splitlines()


def test_without_descriptors_new_clients_wait_and_the_others_are_served() -> None:
    with WsServer(limits="-n 64") as server:
        with server.client() as client:
            waiting = [server.connected() for _ in range(100)]
            while "a client cannot be taken now: Too many open files" not in server.log:
                assert client.body("rrext_ping") == {"pong": True}
            assert client.body("rrext_ping") == {"pong": True}
            for end in waiting:
                end.close()
            assert server.request("GET", "/ping")[0] == 200
        server.end()
        assert "Traceback" not in server.log
        assert server.log.count("cannot be taken") <= 10
