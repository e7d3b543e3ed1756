"""A client of a few lines that shares no code with rrext: blocking reads, frames as bytes, a process of its own."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from forked import process

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NODES = HERE / "life_nodes.py"
PIPE = HERE / "life.pipe"
PATIENCE = 30.0
"""Seconds until a test that waits for the server fails: a deadline of the test, nothing that is measured."""

Message = dict[str, Any]


class Ended(Exception):
    """The server's stdout ended."""


def frame(message: Any, tail: bytes | None = None) -> bytes:
    """A message as it travels."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    if tail is None:
        return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    return b"Content-Length: %d\r\nJson-Length: %d\r\n\r\n%b%b" % (len(body) + len(tail), len(body), body, tail)


def request(seq: int, command: str, arguments: Mapping[str, Any] | None = None, tail: bytes | None = None) -> bytes:
    """A DAP-style request as it travels."""
    return frame({"type": "request", "seq": seq, "command": command, "arguments": dict(arguments or {})}, tail)


def tool(seq: int, name: str, given: Mapping[str, Any] | None = None, **more: Any) -> bytes:
    """A call of one tool as it travels."""
    return request(seq, "rrext_process", {"subcommand": "tool", "tool": name, "input": dict(given or {}), **more})


def environment() -> dict[str, str]:
    """This process's, with rrext as it stands here in front."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


WITH_LIMITS = """
import json, sys, msgspec, rrext.limits
rrext.limits.DEFAULTS = msgspec.structs.replace(rrext.limits.DEFAULTS, **json.loads(sys.argv.pop(1)))
from rrext.cli.main import main
sys.exit(main())
"""
"""A program like `rrext`, with limits for which there is no option."""


def command_line(
    *options: str,
    files: Sequence[Path | str] = (PIPE,),
    nodes: Sequence[Path | str] = (NODES,),
    limits: Mapping[str, float] | None = None,
) -> list[str]:
    """What starts a server."""
    given = [part for path in nodes for part in ("--nodes", str(path))]
    program = ["-m", "rrext"] if limits is None else ["-c", WITH_LIMITS, json.dumps(limits)]
    return [sys.executable, *program, "serve", *given, *options, *map(str, files)]


class FrameReader:
    """Takes frames from a descriptor, and nothing but frames: any other byte is an `AssertionError`."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._held = bytearray()

    def fileno(self) -> int:
        return self.fd

    def read(self, patience: float = PATIENCE) -> Message:
        """The next message; bytes that came as a raw tail are `body["data"]`."""
        until = time.monotonic() + patience
        while (found := self._take()) is None:
            self._held += self._more(until)
        return found

    def _more(self, until: float) -> bytes:
        ready, _, _ = select.select([self.fd], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise TimeoutError(f"no frame came; {bytes(self._held[:200])!r} are held")
        try:
            piece = os.read(self.fd, 1 << 20)
        except OSError:  # what a terminal says at its end
            piece = b""
        if not piece:
            assert not self._held, f"the output ended inside a frame: {bytes(self._held[:200])!r}"
            raise Ended
        return piece

    def _take(self) -> Message | None:
        end = self._held.find(b"\r\n\r\n", 0, 200)
        if end < 0:
            assert self._held[:16] == b"Content-Length: "[: len(self._held)], f"no frame: {bytes(self._held[:200])!r}"
            return None
        lines = bytes(self._held[:end]).split(b"\r\n")
        headers = dict(line.split(b": ", 1) for line in lines)
        assert set(headers) <= {b"Content-Length", b"Json-Length"}, f"no frame: {bytes(self._held[:200])!r}"
        start, length = end + 4, int(headers[b"Content-Length"])
        if len(self._held) < start + length:
            return None
        body = bytes(self._held[start : start + length])
        del self._held[: start + length]
        if b"Json-Length" not in headers:
            return json.loads(body)
        cut = int(headers[b"Json-Length"])
        message = json.loads(body[:cut])
        message["body"]["data"] = body[cut:]
        return message


class Server:
    """A server process of our own, in a session of its own; its stderr is drained by a thread, unless a test takes it."""

    def __init__(
        self,
        *options: str,
        files: Sequence[Path | str] = (PIPE,),
        nodes: Sequence[Path | str] = (NODES,),
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stderr: Any = None,
        stdin: Any = subprocess.PIPE,
        stdout: Any = subprocess.PIPE,
        before: Callable[[], None] | None = None,
        limits: Mapping[str, float] | None = None,
    ) -> None:
        self.process = (process if limits is None else subprocess.Popen)(
            command_line(*options, files=files, nodes=nodes, limits=limits),
            preexec_fn=before,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE if stderr is None else stderr,
            bufsize=0,
            cwd=cwd,
            env={**environment(), **(env or {})},
            start_new_session=True,
        )
        self.pid = self.process.pid
        self.answers: dict[Any, Message] = {}
        self.events: list[Message] = []
        self.unnamed = 0
        self._next = 0
        self._threads: list[threading.Thread] = []
        self._said = bytearray()
        self._saying = threading.Condition()
        if stderr is None:
            self._start(self._listen)
        self.out = FrameReader(self.process.stdout.fileno()) if self.process.stdout is not None else None

    # -- sending

    def next_seq(self) -> int:
        self._next += 1
        return self._next

    def send_bytes(self, data: bytes) -> None:
        """Write all of it, however long the server takes to read."""
        assert self.process.stdin is not None
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.process.stdin.fileno(), rest) :]

    def feed(self, data: bytes) -> None:
        """The same from a thread, for more than the pipe holds while answers come back."""
        self._start(self._feed, data)

    def _start(self, work: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _feed(self, data: bytes) -> None:
        try:
            self.send_bytes(data)
        except BrokenPipeError:
            pass  # the server ended: the test sees that by its answers

    def send(self, command: str, arguments: Mapping[str, Any] | None = None, tail: bytes | None = None) -> int:
        """Send a request and return its number."""
        seq = self.next_seq()
        self.send_bytes(request(seq, command, arguments, tail))
        return seq

    def send_tool(self, name: str, given: Mapping[str, Any] | None = None, **more: Any) -> int:
        seq = self.next_seq()
        self.send_bytes(tool(seq, name, given, **more))
        return seq

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait_until_read(self) -> None:
        """Return when the server has taken all that was sent."""
        assert self.process.stdin is not None
        waiting = bytearray(4)
        until = time.monotonic() + PATIENCE
        while True:
            fcntl.ioctl(self.process.stdin.fileno(), termios.FIONREAD, waiting)
            if not any(waiting):
                return
            assert time.monotonic() < until, "the server does not read"
            time.sleep(0.001)

    def wait_until_blocked(self) -> None:
        """Return when the server's threads all sleep, and more than a pipe holds was said: it waits for us to read."""
        assert self.process.stdout is not None
        until = time.monotonic() + PATIENCE
        capacity = fcntl.fcntl(self.process.stdout.fileno(), fcntl.F_GETPIPE_SZ)
        waiting = bytearray(4)
        while int.from_bytes(waiting, sys.byteorder) < capacity - 4096 or not self._all_sleep():
            fcntl.ioctl(self.process.stdout.fileno(), termios.FIONREAD, waiting)
            assert time.monotonic() < until, "the server goes on"
            time.sleep(0.001)

    def wait_until_paused(self) -> None:
        """Return when the server, which waits for us to read, sleeps though stdin is full: it reads no more."""
        self.wait_until_blocked()  # one that starts also sleeps, until its watchdog is there
        assert self.process.stdin is not None
        until = time.monotonic() + PATIENCE
        capacity = fcntl.fcntl(self.process.stdin.fileno(), fcntl.F_GETPIPE_SZ)
        waiting, seen = bytearray(4), 0
        while seen < 50:
            fcntl.ioctl(self.process.stdin.fileno(), termios.FIONREAD, waiting)
            is_full = int.from_bytes(waiting, sys.byteorder) > capacity // 2
            seen = seen + 1 if is_full and self._all_sleep() else 0
            assert time.monotonic() < until, "the server reads on"
            time.sleep(0.001)

    def _all_sleep(self) -> bool:
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return all((task / "stat").read_text().rpartition(")")[2].split()[0] == "S" for task in tasks)

    def close_stdin_after_feeding(self) -> None:
        """Close stdin once all that is fed has been written; answers are read meanwhile."""
        feeders = self._threads[1:]

        def close() -> None:
            for feeder in feeders:
                feeder.join()
            self.close_stdin()

        self._start(close)

    # -- receiving

    def read(self, patience: float = PATIENCE) -> Message:
        """The next message. A second answer to one request is a failure."""
        assert self.out is not None
        message = self.out.read(patience)
        if message["type"] == "event":
            self.events.append(message)
            return message
        assert message["type"] == "response"
        number = message["request_seq"]
        if number:
            assert number not in self.answers, f"two answers: {self.answers[number]} and {message}"
            self.answers[number] = message
        else:
            self.unnamed += 1
        return message

    def answer(self, seq: int, patience: float = PATIENCE) -> Message:
        """The answer to a request; others that come before it are kept."""
        while seq not in self.answers:
            self.read(patience)
        return self.answers[seq]

    def all_answers(self, seqs: Sequence[int]) -> list[Message]:
        return [self.answer(seq) for seq in seqs]

    def body(self, seq: int) -> Any:
        """The body of a success."""
        answer = self.answer(seq)
        assert answer["success"], answer
        return answer["body"]

    def code(self, seq: int) -> str:
        """The code of a failure."""
        answer = self.answer(seq)
        assert not answer["success"], answer
        return answer["code"]

    def call(self, name: str, given: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """What a tool returns."""
        return self.body(self.send_tool(name, given, **more))["result"]

    def ask(self, command: str, arguments: Mapping[str, Any] | None = None) -> Any:
        return self.body(self.send(command, arguments))

    def begun(self, name: str, times: int = 1) -> None:
        """Return when so many calls that park under this name have begun."""
        assert self.call("begun", {"name": name, "times": times}) is None

    def until_end(self) -> list[Message]:
        """Whatever else comes, until stdout ends."""
        rest = []
        try:
            while True:
                rest.append(self.read())
        except Ended:
            return rest

    # -- the process

    def open_pipe(self, mime: str = "application/octet-stream") -> int:
        return self.ask("rrext_process", {"subcommand": "open", "mimeType": mime})["pipe_id"]

    def wait(self, patience: float = PATIENCE) -> int:
        """The exit code."""
        return self.process.wait(patience)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def _listen(self) -> None:
        assert self.process.stderr is not None
        while piece := os.read(self.process.stderr.fileno(), 65536):
            with self._saying:
                self._said += piece
                self._saying.notify_all()

    def heard(self, text: str, times: int = 1) -> None:
        """Return when the server has said this on stderr, so many times."""
        with self._saying:
            is_said = self._saying.wait_for(lambda: self._said.count(text.encode()) >= times, PATIENCE)
            assert is_said, f"{text!r} was never said, or not {times} times: {bytes(self._said[-2000:])!r}"

    def stderr_text(self) -> str:
        """All that it has said on stderr. Before its end that is never all: `heard` waits for a part of it."""
        assert self.process.poll() is not None, "it still runs, and what it says arrives later than its answers"
        self._threads[0].join(PATIENCE)
        with self._saying:
            return self._said.decode(errors="replace")

    def memory(self) -> int:
        """Resident bytes."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the process is gone")

    def cpu_ticks(self) -> int:
        """Clock ticks of processor time that all its threads used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def is_running(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        """End it and all that it started, however it is."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(PATIENCE)
        for thread in self._threads:
            thread.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None and not stream.closed:
                stream.close()


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()
