"""One program from start to end, in a process of its own: it starts the guest, checks its confinement, watches, reports.

The warden forks a supervisor for each call. Over `host`, a socket to the server, it gets one block of JSON, `{code,
timeout, memory, total_memory, threads, open_files, output, result}`, and answers with one, `{why, exit_code, signal,
stdout, stderr}`, followed by the guest's own report, unread. If the server closes its end, or dies, the guest is killed.
"""

from __future__ import annotations

import json
import marshal
import os
import select
import socket
import time
from typing import Any, Final

from rrext.nodes.sandbox.guest import LOCKED
from rrext.nodes.sandbox.guest_process import GuestProcess, WallMissing
from rrext.nodes.sandbox.interpreter import Files, block, receive
from rrext.nodes.sandbox.outcome import Capture
from rrext.nodes.sandbox.usage import Share

GUEST_START: Final = 30.0
"""Seconds for the interpreter to start; a loaded machine needs a few."""
GLANCE: Final = 0.05
"""Seconds between two checks of the number of threads, and of the memory of all guests."""
READ_AT_ONCE: Final = 65_536
"""Bytes of one read from a pipe of the guest."""
ENVELOPE: Final = 1024
"""Bytes of a report beside the result itself: the exit code, and a word of up to 100 characters."""


def supervise(host: socket.socket, files: Files, guest_code: bytes, share: Share) -> None:
    """Serve the one request of `host`; write the guest's memory use to `share`.

    Raises `EOFError` if it is given up before it is made.
    """
    request: dict[str, Any] = json.loads(receive(host))
    try:
        guest = GuestProcess(files, guest_code)
    except Exception as error:
        _answer(host, {"why": f"walls: {error or type(error).__name__}"})
        return
    try:
        _GuestWatch(host, request, guest, share).serve()
    except Exception as error:
        guest.kill()
        _answer(host, {"why": f"broken: {type(error).__name__}: {error}"})


def _answer(host: socket.socket, answer: dict[str, Any], report: bytes = b"") -> None:
    try:
        host.sendall(block(json.dumps(answer).encode()) + report)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the server has cancelled the call


class _GuestWatch:
    """Watches a running guest. All its output is bounded, and passed on without being parsed."""

    def __init__(self, host: socket.socket, request: dict[str, Any], guest: GuestProcess, share: Share) -> None:
        self._share = share
        self._host = host
        self._request = request
        self._guest = guest
        self._streams = {fd: Capture(request["output"]) for fd in (guest.stdout, guest.stderr)}
        self._report = bytearray()
        self._why = ""
        self._locked = False
        self._deadline = time.monotonic() + GUEST_START

    def serve(self) -> None:
        """Run the program to its end and answer the server."""
        self._watch()
        self._share.note(0)
        exit_code, signal_number = self._guest.wait()
        answer = {
            "why": self._why or ("ended" if self._locked else "walls"),
            "exit_code": exit_code,
            "signal": signal_number,
            "stdout": self._streams[self._guest.stdout].text(),
            "stderr": self._streams[self._guest.stderr].text(),
        }
        _answer(self._host, answer, bytes(self._report))

    def _watch(self) -> None:
        """Move bytes and enforce limits until the guest is dead and its pipes are empty."""
        guest, poll = self._guest, select.poll()
        sources = {fd: stream.feed for fd, stream in self._streams.items()}
        sources[guest.channel.fileno()] = self._hear
        for fd in sources:
            poll.register(fd, select.POLLIN)
        poll.register(guest.pidfd, select.POLLIN)
        poll.register(self._host, select.POLLIN)  # the server says nothing more: whatever comes is its end
        glance = 0.0
        while True:
            ready = [fd for fd, _ in poll.poll(GLANCE * 1000)]
            for fd in ready:
                if fd in sources and not _move(fd, sources[fd]):
                    poll.unregister(fd)
            if self._host.fileno() in ready:
                poll.unregister(self._host)
                self._stop("cancelled")
            if guest.pidfd in ready:
                break
            now = time.monotonic()
            if now >= self._deadline:
                self._stop("timeout" if self._locked else "walls")
            if now >= glance:
                glance = now + GLANCE
                self._look()
        for fd, take in sources.items():
            os.set_blocking(fd, False)
            while _move(fd, take):
                pass

    def _look(self) -> None:
        """Enforce the limits that the kernel does not."""
        if self._guest.thread_count() - 1 > self._request["threads"]:
            self._stop("threads")
        self._share.note(self._guest.memory())
        if self._share.is_one_too_many(self._request["total_memory"]):
            self._stop("memory")

    def _stop(self, why: str) -> None:
        self._why = self._why or why
        self._deadline = float("inf")
        self._guest.kill()

    def _hear(self, data: bytes) -> None:
        if not self._locked and not self._why:
            self._release(data[:1])
            data = data[1:]
        if len(self._report) <= self._request["result"] + ENVELOPE:  # a longer one is cut, which makes it unreadable
            self._report += data

    def _release(self, word: bytes) -> None:
        """Send the program to the guest, if its confinement is complete."""
        request = self._request
        try:
            if word != LOCKED:
                raise WallMissing("the guest did not lock itself in")
            cores = os.cpu_count() or 1
            # The time limit ends a program long before; this limit works even without a supervisor.
            cpu = int(request["timeout"] * cores) + 2
            self._guest.bound(memory=request["memory"], open_files=request["open_files"], cpu=cpu)
            self._guest.check_walls()
        except (WallMissing, OSError) as error:
            self._stop(f"walls: {error}")
            return
        self._locked = True
        self._deadline = time.monotonic() + request["timeout"]
        self._guest.send(marshal.dumps((request["code"], request["result"])))


def _move(fd: int, take: Any) -> bool:
    """Move available bytes; return False at the end, or if there are none."""
    try:
        data = os.read(fd, READ_AT_ONCE)
    except (BlockingIOError, ConnectionResetError):
        return False
    take(data)
    return bool(data)
