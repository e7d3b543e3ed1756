"""Unix sockets: addresses in the file system for the processes of one user."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Final

from rrext.errors import NotConnected, UsageError
from rrext.limits import SOCKET_LOCK_POLL_INTERVAL, SOCKET_LOCK_TIMEOUT

PREFIX: Final = "unix:"
CREDENTIALS: Final = struct.Struct("iII")  # pid, uid, gid
PRIVATE: Final = 0o177
MAX_PATH: Final = 103
"""Bytes of the path of a socket on every system that is supported."""


def socket_path(address: str) -> str:
    """The path in `unix:PATH`. Raises `UsageError`."""
    path = address.removeprefix(PREFIX)
    if path == address or not path or "\0" in path:
        raise UsageError(f"{address!r} is no address: it is `unix:` and the path of a socket, as in unix:/tmp/rrext.sock")
    return path


def connect(path: str) -> socket.socket | None:
    """A connection to the server at a path; None while it is too busy to accept. Raises `NotConnected`."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    end.setblocking(False)
    try:
        end.connect(path)
    except BlockingIOError:
        end.close()
        return None
    except OSError as error:
        end.close()
        raise _not_connected(path, error) from None
    return end


def _not_connected(path: str, error: OSError) -> NotConnected:
    start = f"start a server with `rrext serve --listen unix:{path} FILE.pipe`"
    if isinstance(error, FileNotFoundError):
        return NotConnected(f"there is no socket at {path}", hint=f"{start}; without one nobody listens there")
    if isinstance(error, ConnectionRefusedError):
        return NotConnected(f"nobody listens at {path} any more: its server ended without removing it", hint=start)
    if isinstance(error, PermissionError):
        return NotConnected(
            f"not permitted to use {path}", hint="a socket is its owner's alone: ask as the user who started the server"
        )
    return NotConnected(f"cannot connect to {path}: {error.strerror or error}")


def peer_user(end: socket.socket) -> int | None:
    """The user id of the process at the other end, from the kernel; None without system support."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    return CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, option, CREDENTIALS.size))[1]


class UnixListener:
    """A listening socket at a path, usable by its owner only, removed at the end.

    It replaces a stale socket. Raises `UsageError` for any other file at the path.
    """

    def __init__(self, path: str, backlog: int) -> None:
        self.path = path
        self._path = os.path.abspath(path)  # tools may change the working directory
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _alone_in(os.path.dirname(self._path)):
                _make_way(path)
                _listen(self._socket, path, backlog)
            found = os.stat(self._path, follow_symlinks=False)
        except OSError as error:
            self._socket.close()
            raise UsageError(f"--listen {PREFIX}{path}: {error.strerror or error}") from None
        except BaseException:
            self._socket.close()
            raise
        self._identity: tuple[int, ...] | None = _identity(found)
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """The descriptor that is readable when a client connects; −1 after close."""
        return self._socket.fileno()

    def accept(self) -> socket.socket:
        """The next connection. Raises `OSError`, `BlockingIOError` if there is none."""
        return self._socket.accept()[0]

    def close(self) -> None:
        """Stop listening."""
        self.remove()
        self._socket.close()

    def release(self) -> None:
        """Close the socket and keep its file, for another holder."""
        self._identity = None
        self._socket.close()

    def remove(self) -> None:
        """Remove the socket from the file system, unless it was replaced. Thread-safe."""
        identity, self._identity = self._identity, None
        try:
            found = os.stat(self._path, follow_symlinks=False)
            if _identity(found) == identity:
                os.unlink(self._path)
        except OSError:  # the file is gone already
            pass


def _identity(found: os.stat_result) -> tuple[int, ...]:
    """Attributes that distinguish a file from all others, also from a later file with the same inode number."""
    return found.st_dev, found.st_ino, stat.S_IFMT(found.st_mode), found.st_mtime_ns


def _listen(listener: socket.socket, path: str, backlog: int) -> None:
    """Listen at a path, where the socket is seen when it listens: a client that came before that would be refused."""
    hidden = f"{path}.{os.getpid()}"
    if len(os.fsencode(hidden)) > MAX_PATH:  # clients have to look again
        hidden = path
    else:
        _make_way(hidden)
    before = os.umask(PRIVATE)  # permissions must hold from the creation on
    try:
        listener.bind(hidden)
    finally:
        os.umask(before)
    try:
        listener.listen(backlog)
        os.rename(hidden, path)
    except BaseException:
        os.unlink(hidden)
        raise


def _make_way(path: str) -> None:
    """Remove a stale socket. Raises `UsageError` and `OSError`."""
    try:
        mode = os.stat(path, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise UsageError(f"--listen {PREFIX}{path}: it exists and is no socket, so it is left as it is")
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    probe.setblocking(False)
    with probe:
        answer = probe.connect_ex(path)
    if answer in (0, errno.EAGAIN, errno.EINPROGRESS):
        raise UsageError(f"--listen {PREFIX}{path}: a server listens there already", hint="end it, or choose another path")
    if answer not in (errno.ECONNREFUSED, errno.ENOENT):
        raise OSError(answer, os.strerror(answer))
    if answer == errno.ECONNREFUSED:
        os.unlink(path)


@contextmanager
def _alone_in(folder: str) -> Iterator[None]:
    """Serialize servers that start in one folder, so that two of them cannot replace the same stale socket."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        until = monotonic() + SOCKET_LOCK_TIMEOUT
        while not _locked(fd) and monotonic() < until:
            sleep(SOCKET_LOCK_POLL_INTERVAL)
        yield
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EAGAIN, errno.EACCES)  # without file locks, proceed
    return True
