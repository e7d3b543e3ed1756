"""A client that keeps every byte a server says, and knows what a value looks like in them."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

HERE = Path(__file__).resolve().parent
NODES = HERE / "leaky_nodes.py"
PATIENCE = 120.0
"""Seconds until a test that waits for a server fails."""
OVERLAP = 1000
"""Bytes, more than any form of a value has."""


def surroundings(secrets: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process under test."""
    paths = [str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **secrets}


def forms_of(core: str) -> Iterator[bytes]:
    """Letters and digits in all forms, in small letters: these have no escapes, so quoting leaves them as they are."""
    yield core.encode()
    yield core.encode().hex().encode()
    for shift in range(3):
        coded = base64.b64encode(b"x" * shift + core.encode())
        yield coded[-(-8 * shift // 6) : 8 * (shift + len(core)) // 6].lower()


def plain(data: bytes) -> bytes:
    """Data with letters and digits in the place of their escapes."""

    def character(escape: re.Match[bytes]) -> bytes:
        return bytes([int(escape[1] or escape[2], 16) if escape[1] or escape[2] else int(escape[3])])

    return re.sub(rb"\\+(?:u00|x)([2-7][0-9a-f])|(?:%|&#x)([2-7][0-9a-f]);?|&#(\d\d\d?);", character, data)


def found_in(data: bytes, cores: Iterable[str]) -> list[bytes]:
    """The lines in which one of the secret parts stands in any form."""
    data += b"\n" + plain(data.lower())
    folded = data.lower()
    wanted = [form for core in cores for form in forms_of(core)]
    if not any(form in folded for form in wanted):
        return []
    return [line for line in data.splitlines() if any(form in line.lower() for form in wanted)] or [b"(across lines)"]


class Peer:
    """A server process; everything that it writes is kept."""

    def __init__(
        self,
        dialect: Literal["dap", "jsonrpc"],
        *options: str,
        secrets: Mapping[str, str],
        files: Sequence[Path] = (),
        folder: Path,
    ) -> None:
        command = [sys.executable, "-m", "rrext", "serve", "--nodes", str(NODES), "--log-level", "debug"]
        self.process = subprocess.Popen(
            [*command, *options, *map(str, files)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=surroundings(secrets),
        )
        self._dialect = dialect
        self.out = bytearray()
        self.said = bytearray()
        self._seen = [0, 0]
        self.answers: dict[int, dict[str, Any]] = {}
        self._changed = threading.Condition()
        self._readers = [threading.Thread(target=self._read), threading.Thread(target=self._listen)]
        for reader in self._readers:
            reader.start()
        self._next = 0

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.join()

    def send(self, command: str, **arguments: Any) -> int:
        """Send a request; its number."""
        assert self.process.stdin is not None
        self._next += 1
        if self._dialect == "dap":
            message = {"type": "request", "seq": self._next, "command": command, "arguments": arguments}
        else:
            message = {"jsonrpc": "2.0", "id": self._next, "method": command, "params": arguments}
        body = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()
        return self._next

    def answer(self, number: int) -> dict[str, Any]:
        """The answer to a request, in whatever envelope."""
        with self._changed:
            assert self._changed.wait_for(lambda: number in self.answers, PATIENCE), f"no answer: {bytes(self.said)!r}"
        return self.answers[number]

    def ask(self, command: str, **arguments: Any) -> Any:
        """The body of the answer; None of a failure."""
        answer = self.answer(self.send(command, **arguments))
        return answer.get("body" if self._dialect == "dap" else "result")

    def _read(self) -> None:
        stdout = self.process.stdout
        assert stdout is not None
        while head := stdout.readline():
            length = int(head.split(b":")[1])
            assert stdout.readline() == b"\r\n"
            body = stdout.read(length)
            self.out += head + body + b"\n"
            message = json.loads(body)
            number = message.get("request_seq", message.get("id"))
            with self._changed:
                self.answers[number] = message
                self._changed.notify_all()

    def news(self) -> list[bytes]:
        """What came since it was asked the last time, with so much of what was before that nothing is missed in between."""
        wholes = (self.out, self.said)
        begins = [max(0, seen - OVERLAP) for seen in self._seen]
        self._seen = [len(whole) for whole in wholes]
        return [bytes(whole[begin:]) for whole, begin in zip(wholes, begins, strict=True)]

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

    def processes(self) -> bytes:
        """The environment and the arguments of the server and of all that it started."""
        found = b""
        pending = [self.process.pid]
        for pid in pending:  # it grows meanwhile
            folder = Path(f"/proc/{pid}")
            try:
                found += (folder / "environ").read_bytes() + b"\n" + (folder / "cmdline").read_bytes() + b"\n"
                for task in (folder / "task").iterdir():
                    pending += map(int, (task / "children").read_text().split())
            except OSError:  # it has ended
                continue
        return found

    def end(self) -> None:
        """Shut down, and hear the last words."""
        self.send("shutdown")
        self.process.wait(PATIENCE)
        self.join()

    def join(self) -> None:
        """Hear the last words of a process that ends."""
        for reader in self._readers:
            reader.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
