"""The files of the interpreter for guests, and of the installed packages those that are granted; and the messages on the
sockets of the sandbox: four bytes of length, then the data.
"""

from __future__ import annotations

import glob
import os
import socket
import sys
from collections.abc import Sequence
from typing import Final

# Where systems keep shared libraries, which extension modules of the standard library are linked to.
_LIBRARIES = (
    "/lib64", "/usr/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/etc/ld.so.cache",
)  # fmt: skip

# Public tables that modules of the standard library read: `zoneinfo`, `mimetypes`, `ssl`.
_TABLES = ("/usr/share/zoneinfo", "/etc/mime.types", "/etc/ssl/openssl.cnf", "/usr/lib/ssl/openssl.cnf")
_INSTALLED = ("site-packages", "dist-packages")


class Files:
    """Paths for a guest: `execute` and `read` with all below, `names` for listing alone, `devices` to read and write.

    `roots` covers the same in few paths, which is faster to set up, and `hidden` the paths below them that a guest must not
    see. `packages` are the granted ones; they may lie in the folders of `installed`, which the library contains.
    """

    def __init__(self, packages: Sequence[str] = ()) -> None:
        library = os.path.dirname(os.path.realpath(os.__file__))
        entries = sorted(os.listdir(library))
        self.execute = (executable(), os.path.realpath("/lib64/ld-linux-x86-64.so.2"))
        around = (
            *glob.glob(os.path.join(os.path.dirname(library), "libpython*")),
            *filter(os.path.exists, (*_LIBRARIES, *_TABLES, "/dev/urandom")),
        )
        self.packages = tuple(packages)
        self.read = (*(os.path.join(library, name) for name in entries if name not in _INSTALLED), *around, *self.packages)
        self.names = (library,)
        self.devices = ("/dev/null",)
        self.roots = (*self.execute, library, *around)
        installed = [os.path.join(library, name) for name in entries if name in _INSTALLED]
        for root in around:  # where the library lies among the shared ones, these have other names for the same folders
            above = os.path.realpath(root) + os.sep
            installed += [os.path.join(root, folder[len(above) :]) for folder in installed if folder.startswith(above)]
        self.installed = tuple(dict.fromkeys(installed))
        self.hidden = tuple(path for folder in self.installed for path in self._others(folder))

    def _others(self, folder: str) -> list[str]:
        """The entries of a folder of installed packages that have nothing to do with the granted ones, or the folder itself."""
        inside = {path[len(folder) + 1 :].split(os.sep)[0] for path in self.packages if path.startswith(folder + os.sep)}
        return [os.path.join(folder, name) for name in os.listdir(folder) if name not in inside] if inside else [folder]


def executable() -> str:
    """The interpreter itself, not a virtual environment's link to it."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def command(*arguments: str) -> list[str]:
    """A command line for that interpreter: isolated, without `site`, nothing buffered, UTF-8, no bytecode written."""
    return [executable(), "-I", "-S", "-B", "-u", "-X", "utf8", *arguments]


RECEIVED_AT_ONCE: Final = 262_144
"""Bytes of one read from a call's socket."""


def block(data: bytes) -> bytes:
    """Prefix the data with its length."""
    return len(data).to_bytes(4, "little") + data


def receive(link: socket.socket) -> bytes:
    """Receive the next block. Raises `EOFError` if the other end is gone."""
    return _exactly(link, int.from_bytes(_exactly(link, 4), "little"))


def receive_rest(link: socket.socket) -> bytes:
    """Receive all bytes until the other end closes."""
    pieces: list[bytes] = []
    while piece := link.recv(RECEIVED_AT_ONCE):
        pieces.append(piece)
    return b"".join(pieces)


def _exactly(link: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = link.recv_into(view)
        if not count:
            raise EOFError("the other end is gone")
        view = view[count:]
    return bytes(data)
