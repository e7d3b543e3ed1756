"""The server's side of a process that reads documents: start, requests, kill."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import msgspec

from rrext.errors import Unavailable
from rrext.nodes.child.blocks import block
from rrext.nodes.child.launch import environment, module_command
from rrext.nodes.documents.limits import ENDING_TIMEOUT, SENT_AT_ONCE, START_TIMEOUT
from rrext.nodes.documents.records import READY, DocumentAnswer, DocumentRequest


class ReaderProcess:
    """A process with a socket to it. One thread sends requests; `stop` and `kill` may come from any thread, at any time."""

    def __init__(self, memory: int) -> None:
        """Start the process, with `memory` bytes of address space at most. It is ready a little later. Raises `OSError`."""
        # kreuzberg unpacks a library into TMPDIR. In the shared folder, any user could have replaced it.
        self._folder = tempfile.mkdtemp(prefix="rrext-reader-")
        ours, theirs = socket.socketpair()
        command = module_command("rrext.nodes.documents.worker", str(theirs.fileno()), str(memory))
        null = subprocess.DEVNULL
        try:
            self._child = subprocess.Popen(
                command,
                stdin=null,
                stdout=null,
                stderr=null,
                cwd="/",
                # Each arena takes address space, which is limited.
                env={**environment(), "TMPDIR": self._folder, "MALLOC_ARENA_MAX": "2"},
                pass_fds=(theirs.fileno(),),
            )
        except BaseException:
            ours.close()
            self._forget_folder()
            raise
        finally:
            theirs.close()
        self._link = ours
        self._lock = threading.Lock()
        self._is_killed = False
        self._is_ready = False
        self._turn = 0

    @property
    def is_well(self) -> bool:
        """Whether the process can take another document: it was not killed and has not ended."""
        return not self._is_killed and self._child.poll() is None

    def begin(self) -> int:
        """Begin a document's turn; return its number for `stop`."""
        return self._turn

    def end_turn(self) -> None:
        """End the turn: a later `stop` of it has no effect."""
        with self._lock:
            self._turn += 1

    def ask(self, data: bytes, request: DocumentRequest) -> DocumentAnswer:
        """Send a document and return the answer, within its timeout.

        Raises `TimeoutError`; `EOFError`, `OSError` or `msgspec.DecodeError` if the process broke at it; and
        `Unavailable` if it did not even start.
        """
        if not self._is_ready:
            self._wait_until_ready()
        deadline = time.monotonic() + request.timeout
        self._send(block(msgspec.json.encode(request)), deadline)
        self._send(len(data).to_bytes(4, "little"), deadline)
        self._send(data, deadline)
        return msgspec.json.decode(self._receive(deadline), type=DocumentAnswer)

    def stop(self, turn: int) -> None:
        """Kill the process, if this turn is still running."""
        with self._lock:
            if turn == self._turn:
                self._kill()

    def kill(self) -> None:
        """Kill the process; a waiting request fails with an error."""
        with self._lock:
            self._kill()

    def end(self) -> int:
        """The exit code of a broken process. It has a moment to end by itself, so that the code shows the reason."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(ENDING_TIMEOUT)
        self.kill()
        return self.wait()

    def wait(self) -> int:
        """Wait for the end of a killed or broken process; return its exit code, negative for a signal."""
        code = self._child.wait()
        self._link.close()
        self._forget_folder()
        return code

    def _kill(self) -> None:
        self._is_killed = True
        if self._child.returncode is None:
            self._child.kill()

    def _wait_until_ready(self) -> None:
        try:
            said = self._receive(time.monotonic() + START_TIMEOUT)
        except (EOFError, OSError):
            said = b""
        if said == READY:
            self._is_ready = True
            self._forget_folder()
            return
        if self._is_killed:
            raise EOFError("it was stopped")
        raise Unavailable(
            f"The process that reads documents did not start (exit code {self.end()})",
            hint='Look whether "import kreuzberg" works, and whether "memory" of the node is enough.',
        )

    def _forget_folder(self) -> None:
        """Remove the folder: its libraries are loaded, or never will be."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            self._link.settimeout(_left(deadline))
            view = view[self._link.send(view[:SENT_AT_ONCE]) :]

    def _receive(self, deadline: float) -> bytes:
        size = int.from_bytes(self._exactly(4, deadline), "little")
        return self._exactly(size, deadline)

    def _exactly(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:  # the process could announce any size: no memory is reserved for it
            self._link.settimeout(_left(deadline))
            piece = self._link.recv(min(size - len(data), SENT_AT_ONCE))
            if not piece:
                raise EOFError("the process is gone")
            data += piece
        return bytes(data)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
