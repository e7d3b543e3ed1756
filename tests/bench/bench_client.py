"""The benchmark's client: blocking reads and writes on the server's pipes, frames made before the clock starts.

It costs the same for every server. Each server has a limit of time, after which it is killed and `ServerGone` is raised.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

FIRST_ID = 1_000_000
"""Ids of one width, so that all frames of a run have one length."""
READ = 65536
ENVIRONMENT = {"PATH": os.environ.get("PATH", ""), "HOME": os.path.expanduser("~"), "LANG": "C.UTF-8"}


class ServerGone(Exception):
    """The server ended, or was killed because it took too long."""


class Dap:
    """rrext's own dialect; the floor reads it too."""

    lines = False
    hello: tuple[bytes, ...] = ()

    def request(self, number: int, tool: str, arguments: bytes, **others: Any) -> bytes:
        """`others` are arguments of the call beside its tool and its input."""
        more = b"".join(b',"%b":%b' % (name.encode(), json.dumps(value).encode()) for name, value in others.items())
        return (
            b'{"type":"request","seq":%d,"command":"rrext_process","arguments":{"subcommand":"tool","tool":"%b","input":%b%b}}'
            % (number, tool.encode(), arguments, more)
        )

    def answer(self, body: bytes) -> tuple[int | None, Any]:
        message = json.loads(body)
        if message.get("success") is False:
            raise RuntimeError(message["message"])
        return message.get("request_seq"), message.get("body", {}).get("result")


class JsonRpc:
    """Plain JSON-RPC 2.0 methods."""

    lines = False
    hello: tuple[bytes, ...] = ()

    def request(self, number: int, tool: str, arguments: bytes, **others: Any) -> bytes:
        return b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}' % (number, tool.encode(), arguments)

    def answer(self, body: bytes) -> tuple[int | None, Any]:
        message = json.loads(body)
        if "error" in message:
            raise RuntimeError(str(message["error"]))
        return message.get("id"), message.get("result")


class Mcp(JsonRpc):
    """MCP over stdio: JSON-RPC 2.0, one message a line, after a handshake."""

    lines = True
    hello = (
        (
            b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
            b'"clientInfo":{"name":"bench","version":"1"}}}'
        ),
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
    )

    def request(self, number: int, tool: str, arguments: bytes, **others: Any) -> bytes:
        return super().request(number, "tools/call", b'{"name":"%b","arguments":%b}' % (tool.encode(), arguments))

    def answer(self, body: bytes) -> tuple[int | None, Any]:
        number, result = super().answer(body)
        if isinstance(result, dict) and result.get("isError"):
            raise RuntimeError(str(result))
        return number, result and result.get("structuredContent")


class Server:
    """One server process and the frames that cross its pipes."""

    def __init__(
        self, command: list[str], dialect: Dap | JsonRpc, *, seconds: float = 60, cpus: set[int] | None = None
    ) -> None:
        self.dialect = dialect
        self.spawned = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0, env=ENVIRONMENT
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.to, self.since = self.process.stdin.fileno(), self.process.stdout.fileno()
        if cpus:
            os.sched_setaffinity(self.process.pid, cpus)
        self.pending = b""
        self.killer = threading.Timer(seconds, self.process.send_signal, [signal.SIGKILL])
        self.killer.daemon = True
        self.killer.start()
        for message in dialect.hello:
            self.send(message)
        if dialect.hello:
            self.receive()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.killer.cancel()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def frame(self, body: bytes) -> bytes:
        return body + b"\n" if self.dialect.lines else b"Content-Length: %d\r\n\r\n%b" % (len(body), body)

    def frames(self, count: int, tool: str, arguments: bytes, **others: Any) -> list[bytes]:
        """Ready requests with ids that count up from FIRST_ID."""
        return [self.frame(self.dialect.request(FIRST_ID + i, tool, arguments, **others)) for i in range(count)]

    def send(self, body: bytes) -> None:
        write_all(self.to, [self.frame(body)])

    def split(self, data: bytes) -> tuple[list[bytes], bytes]:
        """The whole bodies in `data`, and what is left."""
        bodies, at = [], 0
        while (found := self.next_body(data, at)) is not None:
            start, at = found
            bodies.append(data[start:at].strip())
        return [body for body in bodies if body], data[at:]

    def next_body(self, data: bytes, at: int) -> tuple[int, int] | None:
        """Where the body after `at` starts and ends, if it is all there."""
        if self.dialect.lines:
            end = data.find(b"\n", at)
            return None if end < 0 else (at, end + 1)
        end = data.find(b"\r\n\r\n", at)
        if end < 0:
            return None
        end += 4
        stop = end + announced(data, at)
        return (end, stop) if stop <= len(data) else None

    def receive(self) -> bytes:
        """One body. Only for answers that are small beside a read."""
        while (found := self.next_body(self.pending, 0)) is None:
            self.pending += self.read()
        start, end = found
        body, self.pending = self.pending[start:end], self.pending[end:]
        return body

    def read(self) -> bytes:
        data = os.read(self.since, READ)
        if not data:
            raise ServerGone(f"the server ended with {self.process.poll()}")
        return data

    def results(self, count: int) -> Iterator[Any]:
        """The results of the next `count` answers; each id may come once."""
        seen: set[int] = set()
        while len(seen) < count:
            number, result = self.dialect.answer(self.receive())
            if number is None:
                continue
            if number in seen:
                raise RuntimeError(f"two answers for {number}")
            seen.add(number)
            yield result

    def call(self, tool: str, arguments: bytes) -> Any:
        self.send(self.dialect.request(FIRST_ID, tool, arguments))
        return next(self.results(1))

    def latencies(self, requests: list[bytes]) -> list[float]:
        """Seconds of each call, one after another."""
        taken, now, to, since, whole = [], time.perf_counter, self.to, self.since, self.next_body
        for request in requests:
            start = now()
            os.write(to, request)
            data = os.read(since, READ)
            while whole(data, 0) is None:
                data += self.read()
            taken.append(now() - start)
        return taken

    def burst(self, requests: list[bytes], window: int, seconds: float) -> float:
        """Calls per second with `window` of them unanswered, until all are done or the time is over."""
        left, sent, done, stop = b"", window, 0, time.monotonic() + seconds
        write_all(self.to, [b"".join(requests[:window])])
        start = time.perf_counter()
        while done < sent:
            count, left = self.count(left + self.read())
            done += count
            if sent < len(requests) and time.monotonic() < stop:
                write_all(self.to, [b"".join(requests[sent : sent + count])])
                sent = min(sent + count, len(requests))
        return done / (time.perf_counter() - start)

    def count(self, data: bytes) -> tuple[int, bytes]:
        """How many whole answers are in `data`, and what is left; bodies are not looked at."""
        if self.dialect.lines:
            count = data.count(b"\n")
            return count, data[data.rfind(b"\n") + 1 :]
        count, at, find, length = 0, 0, data.find, len(data)
        while (end := find(b"\r\n\r\n", at)) >= 0:
            stop = end + 4 + announced(data, at)
            if stop > length:
                break
            count, at = count + 1, stop
        return count, data[at:]

    def memory(self) -> float:
        """Resident MiB."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmRSS"):
                    return int(line.split()[1]) / 1024
        raise ServerGone("the server has no memory any more")

    def processor_seconds(self) -> float:
        return processor_seconds(self.process.pid)

    # pipes: only rrext and the floor have them

    def process_request(self, number: int, **arguments: Any) -> dict[str, Any]:
        message = {"type": "request", "seq": number, "command": "rrext_process", "arguments": arguments}
        self.send(json.dumps(message).encode())
        while True:
            answer = json.loads(self.receive())
            if answer.get("request_seq") == number:
                if not answer["success"]:
                    raise RuntimeError(answer["message"])
                return answer["body"]

    def open_pipes(self, count: int) -> list[int]:
        first = FIRST_ID - 2 * count
        opened = [self.process_request(first + i, subcommand="open", object={"name": "bench"}) for i in range(count)]
        return [body["pipe_id"] for body in opened]

    def raw_write(self, number: int, pipe: int, data: bytes) -> list[bytes]:
        """The pieces of one `write` whose bytes follow the JSON."""
        head = b'{"type":"request","seq":%d,"command":"rrext_process","arguments":{"subcommand":"write","pipe_id":%d}}'
        head %= (number, pipe)
        return [b"Content-Length: %d\r\nJson-Length: %d\r\n\r\n%b" % (len(head) + len(data), len(head), head), data]

    def base64_write(self, number: int, data: bytes) -> list[bytes]:
        """The pieces of one call of `sink`."""
        body = self.dialect.request(number, "sink", b'{"data":"%b"}' % base64.b64encode(data))
        return [self.frame(body)]


def processor_seconds(pid: int) -> float:
    """Processor time of all threads of a process that still run, as exactly as Linux knows it."""
    spent = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        path = f"/proc/{pid}/task/{thread}/schedstat"
        with contextlib.suppress(FileNotFoundError), open(path, encoding="ascii") as schedstat:  # it may just have ended
            spent += int(schedstat.read().split()[0])
    return spent / 1e9


def announced(data: bytes, at: int) -> int:
    start = data.find(b"Content-Length: ", at) + 16
    return int(data[start : data.find(b"\r", start)])


def write_all(to: int, pieces: list[bytes]) -> None:
    """Write pieces in order, without joining them."""
    sent = os.writev(to, pieces)
    for piece in pieces:
        if sent >= len(piece):
            sent -= len(piece)
            continue
        rest = memoryview(piece)[sent:]
        while rest:
            rest = rest[os.write(to, rest) :]
        sent = 0
