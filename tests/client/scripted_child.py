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
from rrext.wire.framing import ContentLength
from rrext.wire.messages import Request


def answer(wire: ServerConnection, request: Request, body: dict[str, Any]) -> None:
    assert request.id is not None
    send(wire.result(request.id, request.command, encode(body)))


def send(pieces: list[bytes]) -> None:
    for piece in pieces:
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


written = 0
cancelled: list[Any] = []


def handle(wire: ServerConnection, request: Request) -> None:
    global written
    match request.arguments.get("subcommand", request.command):
        case "tool":
            call_tool(wire, request, request.arguments["tool"])
        case "open":
            written = 0
            answer(wire, request, {"pipe_id": 1})
        case "write":
            written += len(request.tail or b"")
            answer(wire, request, {})
        case "close":
            answer(wire, request, {"written": written})
        case "cancel":
            cancelled.append(request.arguments["requestId"])
            answer(wire, request, {})
        case "initialize" if sys.argv[1:] == ["narrow"]:
            answer(wire, request, {"limits": {"maxInflight": 2}})
        case _:
            answer(wire, request, {})


def call_tool(wire: ServerConnection, request: Request, name: str) -> None:
    match name:
        case "echo":
            body: dict[str, Any] | None = {"result": request.arguments["input"]}
        case "cancelled":
            body = {"result": len(cancelled)}
        case "report":
            send(wire.event("rrext_progress", encode({"request": request.id, "progress": 1})))
            body = {"result": "reported"}
        case "chunks":
            chunk = "x" * request.arguments["input"]["size"]
            for index in range(request.arguments["input"]["count"]):
                send(wire.event("rrext_chunk", encode({"request": request.id, "index": index, "chunk": chunk})))
            body = {"result": "all"}
        case "tell":
            send(wire.event("told", b"{}"))
            body = {"result": None}
        case _:
            body = ask(name) or misbehave(name)
    if body is not None:
        answer(wire, request, body)


def main(mode: str) -> None:
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode == "broken":
        print("pipeline.pipe: line 3: unknown provider", file=sys.stderr)
        sys.exit(2)
    wire = ServerConnection(ContentLength())
    while data := os.read(0, 65536):
        for request in wire.framer.receive_data(data):
            assert isinstance(request, Request)
            handle(wire, request)
            if request.command == "disconnect" and mode in ("polite", "narrow"):
                return
    while mode in ("deaf", "stubborn"):
        time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "polite")
