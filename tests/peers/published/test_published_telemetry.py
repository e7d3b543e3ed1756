"""The published client's bridge to OpenTelemetry, with its packages installed: what runs here is seen there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import anyio
import pytest
from published_server import KEY, PATIENCE, PublishedServer, pipeline

if TYPE_CHECKING:
    from rocketride import RocketRideClient

pytestmark = pytest.mark.promise("ws:rocketride")


class Collector(ThreadingHTTPServer):
    """Takes what a bridge exports. `received` is all of it, by path."""

    def __init__(self) -> None:
        self.received: dict[str, bytes] = {}
        super().__init__(("127.0.0.1", 0), _Request)


class _Request(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received[self.path] = self.server.received.get(self.path, b"") + body
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector that listens."""
    with Collector() as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server
        server.shutdown()
        serving.join()


async def test_the_bridge_exports_tasks_and_their_numbers(
    server: PublishedServer, client: RocketRideClient, collector: Collector
) -> None:
    where = ["--uri", server.url, "--apikey", KEY, "--endpoint", f"http://127.0.0.1:{collector.server_address[1]}"]
    command = [sys.executable, "-c", "from rocketride.cli.main import main; main()", "otel", *where]
    command += ["--service-name", "judged", "--include-content", "--protocol", "http", "--trace-level", "summary"]
    env = os.environ | {"OTEL_METRIC_EXPORT_INTERVAL": "200", "OTEL_BSP_SCHEDULE_DELAY": "200", "PYTHONUNBUFFERED": "1"}
    async with await anyio.open_process(command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, env=env) as bridge:
        with anyio.fail_after(PATIENCE):
            while not any(row["monitors"] for row in (await client.get_dashboard())["connections"]):
                await anyio.sleep(0.01)
            used = await client.use(pipeline=pipeline("seen", "teller"), name="seen by all", pipelineTraceLevel="summary")
            await client.send(used["token"], "hello", {"name": "a.txt"}, "text/plain")
            while b"rocketride.cpu.percent" not in collector.received.get("/v1/metrics", b""):
                await anyio.sleep(0.01)
            await client.terminate(used["token"])
            while b"task seen by all" not in collector.received.get("/v1/traces", b""):
                await anyio.sleep(0.01)
            bridge.send_signal(signal.SIGINT)
            assert bridge.stdout is not None
            said = "".join([piece.decode() async for piece in bridge.stdout])
            await bridge.wait()
    assert bridge.returncode == 0, said
    traces = collector.received["/v1/traces"]
    assert [name for name in (b"judged", b"teller", b"a.txt", b"hello") if name not in traces] == []
    assert b"span.unclosed" not in traces  # each event has its counterpart
    assert b"span.implicit" not in traces
    assert "error handling" not in said
