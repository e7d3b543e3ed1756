"""Bare clients of a server of WebSockets: frames made before the clock starts, answers that are counted and not read."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench_client import ENVIRONMENT, READ, ServerGone, processor_seconds

MASK = bytes(4)
"""A mask that changes nothing: the server takes off each mask alike, and this one costs the client nothing."""
HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
TEXT = 0x81
SHORT, IN_2, IN_8 = 126, 126, 127
"""The first length that does not fit into seven bits, and what stands there instead."""


def message(payload: bytes) -> bytes:
    """A message of a client, as text."""
    size = len(payload)
    head = bytes((TEXT, 0x80 | size)) if size < SHORT else bytes((TEXT, 0x80 | IN_2)) + size.to_bytes(2, "big")
    return head + MASK + payload


def whole(data: bytes) -> tuple[int, bytes]:
    """How many whole messages of a server are in `data`, and what is left. Pings are passed over."""
    count, at, length = 0, 0, len(data)
    while length - at >= 2:
        start, size = at + 2, data[at + 1]
        if size >= SHORT:
            start += 2 if size == IN_2 else 8
            size = int.from_bytes(data[at + 2 : start], "big")
        if length < start + size or length < start:
            break
        count, at = count + (data[at] == TEXT), start + size
    return count, data[at:]


class WebServer:
    """A process of `rrext serve --ws`, or another that says on stderr where it listens."""

    def __init__(self, command: Sequence[str], *, seconds: float = 120, cpus: set[int] | None = None) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT)
        self.killer = threading.Timer(seconds, self.process.send_signal, [signal.SIGKILL])
        self.killer.daemon = True
        self.killer.start()
        if cpus:
            os.sched_setaffinity(self.process.pid, cpus)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if found := re.search(rb"listening at \w+://[^:]*:(\d+)", line):
                self.port = int(found[1])
                return
        raise ServerGone(f"the server ended with {self.process.wait()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.killer.cancel()
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()

    @contextlib.contextmanager
    def clients(self, count: int) -> Iterator[list[socket.socket]]:
        """Sockets with open WebSockets."""
        with contextlib.ExitStack() as stack:
            ends = [stack.enter_context(socket.create_connection(("127.0.0.1", self.port), timeout=30)) for _ in range(count)]
            for end in ends:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                end.sendall(HANDSHAKE)
            for end in ends:
                answer = b""
                while not answer.endswith(b"\r\n\r\n"):
                    answer += end.recv(READ)
                if not answer.startswith(b"HTTP/1.1 101"):
                    raise RuntimeError(f"no WebSocket: {answer[:100]!r}")
            yield ends

    def processor_seconds(self) -> float:
        """Processor time of the server, and of its processes for tasks."""
        return sum(map(processor_seconds, (self.process.pid, *children_of(self.process.pid))))

    def memory(self) -> dict[str, float]:
        """KiB of the process: resident, and its share of what it has in common with others."""
        found = {}
        with open(f"/proc/{self.process.pid}/smaps_rollup", encoding="ascii") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name in ("Rss", "Pss"):
                    found[name.upper()] = float(value.split()[0])
        return found


def children_of(pid: int) -> list[int]:
    """The processes that run Python for a process: the workers of its fork server, but neither fork server nor watchdogs."""
    found = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (thread / "children").read_text().split()):
            if b"fork_server" in Path(f"/proc/{child}/cmdline").read_bytes():
                found += children_of(child)
            elif b"watchdog" not in Path(f"/proc/{child}/comm").read_bytes():
                found.append(child)
    return found


def call(end: socket.socket, request: bytes) -> Any:
    """The answer to a request, which is below 64 KiB."""
    end.sendall(request)
    data = b""
    while whole(data)[0] == 0:
        data += received(end)
    while data[0] != TEXT:  # the server pings every 20 seconds
        data = data[2 + data[1] :]
    start, size = (2, data[1]) if data[1] < SHORT else (4, int.from_bytes(data[2:4], "big"))
    return json.loads(data[start : start + size])


def received(end: socket.socket, most: int = READ) -> bytes:
    data = end.recv(most)
    if not data:
        raise ServerGone("the server closed the connection")
    return data


def together(ends: Sequence[socket.socket], requests: Sequence[bytes], each: int) -> tuple[float, list[float]]:
    """Calls per second of clients that call at once, with all these requests unanswered, until each has had `each` answers;
    and the seconds of each client until it had them.

    An answer is followed by the next request: answers come in the order of requests, because the tool answers at once.
    """
    poll, window = select.epoll(), len(requests)
    by_number = {end.fileno(): end for end in ends}
    left = dict.fromkeys(by_number, b"")
    sent, done = dict.fromkeys(by_number, window), dict.fromkeys(by_number, 0)
    finished: list[float] = []
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    rounds = b"".join(requests)
    size = len(requests[0])
    begun = time.perf_counter()
    for end in ends:
        end.sendall(rounds)
    while len(finished) < len(ends):
        for number, _ in poll.poll():
            end = by_number[number]
            count, left[number] = whole(left[number] + received(end))
            done[number] += count
            if sent[number] < each and count:
                at, more = sent[number] % window, min(count, each - sent[number])
                end.sendall((rounds * 2)[at * size : (at + more) * size])
                sent[number] += more
            elif done[number] == each:
                finished.append(time.perf_counter() - begun)
    taken = time.perf_counter() - begun
    poll.close()
    return len(ends) * each / taken, finished
