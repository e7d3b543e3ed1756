"""A server process for tests of spawning: `python scripted_child.py MODE`. It speaks the wire, and misbehaves on request."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

from rrext.wire.codec import encode
from rrext.wire.connection import ServerConnection
from rrext.wire.messages import Request


def answer(wire: ServerConnection, request: Request, body: dict[str, Any]) -> None:
    assert request.id is not None
    for piece in wire.result(request.id, request.command, encode(body)):
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(1, rest) :]


def ask(name: str) -> dict[str, Any] | None:
    """The tools that tell something."""
    match name:
        case "env":
            return {"result": dict(os.environ)}
        case "pid":
            return {"result": os.getpid()}
        case "session":
            return {"result": os.getsid(0)}
        case "argv":
            return {"result": sys.argv[1:]}
        case "limits":
            import resource

            return {"result": resource.getrlimit(resource.RLIMIT_NOFILE)}
        case "big":
            return {"result": "x" * (15 * 1024 * 1024)}
    return None


def misbehave(name: str) -> dict[str, Any] | None:
    """The tools that do something."""
    match name:
        case "noise":
            for _ in range(256):
                os.write(2, b"noise" * 820)
            os.write(2, b"the end\n")
            return {"result": 1}
        case "die":
            os.write(2, b"Traceback: it broke\n")
            os._exit(3)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "mute":  # a child that holds our stdout while we are gone
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdin=subprocess.DEVNULL)
            os._exit(4)
        case "child":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdin=subprocess.DEVNULL)
            return {"result": child.pid}
    return None


def main(mode: str) -> None:
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode == "broken":
        print("pipeline.pipe: line 3: unknown provider", file=sys.stderr)
        sys.exit(2)
    wire = ServerConnection()
    while data := os.read(0, 65536):
        for request in wire.receive_data(data):
            assert isinstance(request, Request)
            if request.command == "rrext_process":
                body = ask(request.arguments["tool"]) or misbehave(request.arguments["tool"])
                if body is not None:
                    answer(wire, request, body)
            else:
                answer(wire, request, {})
                if request.command == "disconnect" and mode == "polite":
                    return
    while mode in ("deaf", "stubborn"):
        time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "polite")
