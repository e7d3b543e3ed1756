"""Servers and clients that are killed, and what they leave: processes, descriptors, and bytes on their way."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from listening_server import PATIENCE, ListeningServer

HERE = Path(__file__).resolve().parent
SERVE = [sys.executable, "-m", "rrext", "serve", "--nodes", str(HERE / "kill_nodes.py"), str(HERE / "kill.pipe")]
READ = 1 << 16
SERVERS = [(kind, isolation) for kind in ("ws", "unix") for isolation in ("none", "process")]
TAG = re.compile(r"tag-\d+-")


class NetworkServer(ListeningServer):
    """A server of a Unix socket (`kind` "unix") or of WebSockets ("ws"). `address` is where clients connect."""

    def __init__(self, kind: str, isolation: str, folder: Path) -> None:
        self.kind = kind
        self._path = str(folder / "s")
        way = ["--ws", "127.0.0.1:0"] if kind == "ws" else ["--listen", f"unix:{self._path}"]
        super().__init__([*SERVE, *way, "--isolation", isolation])
        found = re.search(r"listening at \S+:(\d+)", self.log)
        self.port = int(found[1]) if found is not None else 0

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"ws://127.0.0.1:{self.port}" if self.kind == "ws" else f"unix:{self._path}"

    def connected(self) -> socket.socket:
        """A connection."""
        if self.kind == "ws":
            return socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        end = socket.socket(socket.AF_UNIX)
        end.connect(self._path)
        return end


class Relay:
    """Stands between one client and a server, and keeps all bytes that the server wrote. `address` is for the client."""

    def __init__(self, server: NetworkServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        if server.kind == "ws":
            self._listening = socket.create_server(("127.0.0.1", 0))
            self.address = f"ws://127.0.0.1:{self._listening.getsockname()[1]}"
        else:
            self._listening = socket.socket(socket.AF_UNIX)
            self._listening.bind(str(folder / "r"))
            self._listening.listen()
            self.address = f"unix:{folder / 'r'}"
        self.written = b""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._listening, self._server.connected() as behind, self._listening.accept()[0] as front:
            forth = threading.Thread(target=copy, args=(front, behind), daemon=True)
            forth.start()
            pieces: list[bytes] = []
            for piece in pieces_of(behind):
                pieces.append(piece)
                front.sendall(piece)
            self.written = b"".join(pieces)
            front.shutdown(socket.SHUT_WR)
            forth.join()

    def ended(self) -> bytes:
        """All that the server wrote, once it is gone."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        for path in self._folder.iterdir():
            path.unlink()
        return self.written


def pieces_of(end: socket.socket) -> Iterator[bytes]:
    """The bytes that arrive, until the other end is gone."""
    try:
        while piece := end.recv(READ):
            yield piece
    except ConnectionError:
        return


def copy(front: socket.socket, behind: socket.socket) -> None:
    """Pass on what a client writes; when the server is gone, take it all the same, or bytes for the client would be lost."""
    is_there = True
    for piece in pieces_of(front):
        try:
            if is_there:
                behind.sendall(piece)
        except OSError:
            is_there = False


def tags_in(written: bytes, *, is_web: bool) -> set[str]:
    """The tags in whole answers."""
    texts = web_messages(written) if is_web else framed_messages(written)
    return {found[0] for text in texts if (found := TAG.search(json.loads(text).get("body", {}).get("result") or ""))}


def framed_messages(data: bytes) -> Iterator[bytes]:
    """The whole messages in frames of `Content-Length`."""
    at = 0
    while (end := data.find(b"\r\n\r\n", at)) >= 0:
        size = int(data[at:end].partition(b":")[2])
        if len(data) < end + 4 + size:
            return
        yield data[end + 4 : end + 4 + size]
        at = end + 4 + size


def web_messages(data: bytes) -> Iterator[bytes]:
    """The whole text messages of a WebSocket, after its handshake."""
    at = data.find(b"\r\n\r\n") + 4
    while at + 2 <= len(data):
        opcode, size, start = data[at] & 0xF, data[at + 1], at + 2
        more = {126: 2, 127: 8}.get(size, 0)
        if more:
            size, start = int.from_bytes(data[start : start + more], "big"), start + more
        if len(data) < start + size:
            return
        if opcode == 1:
            yield data[start : start + size]
        at = start + size


def kill(pid: int) -> list[int]:
    """Kill a process; descriptors of its children and of theirs, which `all_gone` takes."""
    children = [end for child in descendants(pid) if (end := opened(child)) is not None]
    os.kill(pid, signal.SIGKILL)
    return children


def all_gone(children: Sequence[int]) -> bool:
    """Whether children of a killed process end, too."""
    try:
        return all(select.select([end], [], [], PATIENCE)[0] for end in children)
    finally:
        for end in children:
            os.close(end)


def opened(pid: int) -> int | None:
    """A descriptor that is readable when the process is gone; None if it is."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def descendants(pid: int) -> list[int]:
    """The children of a process, and theirs."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # that thread has
                for child in map(int, (thread / "children").read_text().split()):
                    found += [child, *descendants(child)]
    return found


def descriptors(pid: int) -> int:
    """How many files, sockets and pipes a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))
