"""A raw client of a server's Unix socket, and what starts such a server."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from forked import completed
from raw_client import FrameReader, Server, command_line, environment

__all__ = ["SocketClient", "folder", "listen", "refused"]


class SocketClient(Server):
    """One connection; the process is somebody else's."""

    def __init__(self, path: Path) -> None:
        self.end = socket.socket(socket.AF_UNIX)
        self.end.connect(str(path))
        self.answers: dict[Any, Any] = {}
        self.events: list[Any] = []
        self.unnamed = 0
        self._next = 0
        self._threads = []
        self.out = FrameReader(self.end.fileno())

    def send_bytes(self, data: bytes) -> None:
        self.end.sendall(data)

    def end_input(self) -> None:
        """Send nothing more, and go on to read."""
        self.end.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Be gone."""
        self.end.close()

    def __enter__(self) -> SocketClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def folder() -> Iterator[Path]:
    """A folder with a short path: a socket's has at most 107 bytes."""
    with TemporaryDirectory(prefix="rrext-") as path:
        yield Path(path)


def listen(spawn: Callable[..., Server], path: Path, *options: str, **how: Any) -> Server:
    """A server that listens at a path, once it does."""
    server = spawn("--listen", f"unix:{path}", *options, **how)
    server.heard("listening at")
    return server


def refused(path: Path, *options: str) -> str:
    """What stderr says of a server that ends with 2 at once."""
    line = command_line("--listen", f"unix:{path}", *options)
    done = completed(line, env=environment())
    assert done.returncode == 2, done
    assert done.stdout == b""
    return done.stderr.decode().splitlines()[-1]


if __name__ == "__main__":  # another user's process: connects as user sys.argv[1] and prints what becomes of it
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
    with socket.socket(socket.AF_UNIX) as stranger:
        try:
            stranger.connect(sys.argv[2])
            print(len(stranger.recv(1)))
        except OSError as error:
            print(type(error).__name__)
