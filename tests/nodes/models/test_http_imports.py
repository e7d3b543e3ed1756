"""The first request imports nothing on the event loop: what the client needs was imported by a thread before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from model_server import serving  # isort: skip

ROOT = Path(__file__).resolve().parents[3]
ASK = """
import asyncio, json, sys, threading
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.http import open_endpoint
from rrext.nodes.http import EndpointSettings
from rrext.tools.context import ToolContext
from rrext.threads import Workers

found = []

class Finder:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is threading.main_thread():
            found.append(name)

async def main(address):
    sys.meta_path.insert(0, Finder())
    body = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
    async with open_endpoint(EndpointSettings(address=address), SetupContext(Workers())) as endpoint:
        answer = await endpoint.post("/chat/completions", body, ToolContext())
        events = [event async for event in endpoint.events("/chat/completions", {**body, "stream": True}, ToolContext())]
    assert b"You said: ?" in answer and len(events) > 2
    print(json.dumps({"found": found, "loaded": [name for name in ("httpx2", "anyio", "h11") if name in sys.modules]}))

asyncio.run(main(sys.argv[1]))
"""


def test_the_first_request_imports_nothing_heavy_on_the_loop() -> None:
    with serving() as server:
        command = [sys.executable, "-c", ASK, server.address]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["loaded"] == ["httpx2", "anyio", "h11"]
    assert not [name for name in said["found"] if name.split(".")[0] in ("httpx2", "httpcore2", "anyio", "h11", "ssl", "trio")]
