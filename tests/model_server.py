"""A small server that speaks the APIs of language models: OpenAI's chat completions and embeddings, Anthropic's messages,
Google's `generateContent`; whole and streamed. For tests and for trying things.

It answers each question with the question itself, and embeds texts by hashing. What it does to the next requests can be
scripted: `server.next(Status(429), Say("ok"))`, for each model apart `server.next(…, model="small")`, or by a function of the
request: `server.plays(lambda asked: Say("ok"))`. By itself: `python model_server.py [port]`.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import struct
import sys
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from model_wires import AnthropicWire, Call, Event, Gate, GeminiWire, OpenAIWire, Say, Usage, Wire

from rrext.nodes.embeddings.embedder import hashed

__all__ = [
    "Asked",
    "Body",
    "Call",
    "Gate",
    "HalfStream",
    "Hang",
    "ModelServer",
    "Reset",
    "Say",
    "Status",
    "Step",
    "Usage",
    "WrongLength",
    "serving",
]

SIZE = 64
"""Numbers in a vector if the request asks for no `dimensions`."""


@dataclass
class Status:
    """Answer with this status, as servers tell what is wrong."""

    status: int
    message: str = "scripted"
    headers: dict[str, str] = field(default_factory=dict)
    code: str | None = None


@dataclass
class Body:
    """Answer 200 with exactly these bytes."""

    body: bytes
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class WrongLength:
    """Announce `length` bytes, send `body`, and close."""

    length: int
    body: bytes = b'{"choices": '


@dataclass
class Hang:
    """Read the request and say nothing until the client is gone; with `after`, say these pieces of a stream first."""

    after: list[str] = field(default_factory=list)


@dataclass
class HalfStream:
    """Begin a stream, then break off: in the middle of a chunk, or, if `clean`, as if it were complete. The last of the
    `calls` is cut: it lacks its last piece."""

    pieces: list[str]
    clean: bool = False
    calls: Sequence[Call] = ()


@dataclass
class Reset:
    """Reset the connection instead of answering."""


Step = Say | Status | Body | WrongLength | Hang | HalfStream | Reset


@dataclass
class Asked:
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: Any

    @property
    def wire(self) -> Wire | None:
        """The form of the API that was asked; None for no path of one."""
        return next((wire for path, wire in WIRES.items() if re.fullmatch(path, self.path)), None)

    @property
    def model(self) -> str:
        named = re.search(r"/models/([^:?]+)", self.path)
        return named[1] if named else self.body.get("model", "")

    @property
    def is_streamed(self) -> bool:
        return bool(self.body.get("stream")) or ":streamGenerateContent" in self.path

    @property
    def tools(self) -> list[str]:
        """The names of the tools that the model may call."""
        assert self.wire is not None
        return self.wire.tools(self.body)

    @property
    def results(self) -> list[str]:
        """The texts of what tools answered so far."""
        assert self.wire is not None
        return self.wire.results(self.body)

    @property
    def key(self) -> str:
        """The key that came, in whatever header."""
        names = ("x-api-key", "x-goog-api-key")
        return next((self.headers[name] for name in names if name in self.headers), self._bearer)

    @property
    def _bearer(self) -> str:
        return self.headers.get("authorization", "none").removeprefix("Bearer ")


WIRES: dict[str, Wire] = {
    "/v1/chat/completions": OpenAIWire(),
    r"/v1/messages(\?.*)?": AnthropicWire(),
    r"/v1beta/models/[^/]+:(g|streamG)enerateContent(\?.*)?": GeminiWire(),
}


class ModelServer(ThreadingHTTPServer):
    """Serves on 127.0.0.1. `asked` has the requests so far; `lost` counts clients that went while it said nothing."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int = 0, key: str | None = None) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.key = key
        self.asked: list[Asked] = []
        self.connections = 0
        self.lost = threading.Semaphore(0)
        self.hanging = threading.Semaphore(0)
        self._steps: dict[str, deque[Step]] = {}
        self._player: Callable[[Asked], Step | None] = lambda asked: None
        self._open: set[socket.socket] = set()

    @property
    def root(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def address(self) -> str:
        """The address of OpenAI's API."""
        return f"{self.root}/v1"

    def next(self, *steps: Step, model: str = "") -> None:
        """What the next requests get, one each, those of a model if it is named; after that it answers as usual."""
        self._steps.setdefault(model, deque()).extend(steps)

    def plays(self, player: Callable[[Asked], Step | None]) -> None:
        """What a request gets for which `next` said nothing; None: the usual answer."""
        self._player = player

    def step(self, asked: Asked) -> Step | None:
        steps = self._steps.get(asked.model) or self._steps.get("")
        return steps.popleft() if steps else self._player(asked)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._open.add(connection)
        self.connections += 1
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)  # whoever still waits there sees the end
            except OSError:
                pass

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # a client that is gone is no error
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer
    disable_nagle_algorithm = True

    def log_message(self, *args: Any) -> None:
        """Nothing: tests read answers."""

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length) or b"null")
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.path, headers, body)
        self.server.asked.append(asked)
        step = self.server.step(asked)
        if step is not None and not isinstance(step, Say):
            self._play(step, asked)
        elif self.server.key is not None and asked.key != self.server.key:
            self._play(Status(401, f"Incorrect API key provided: {headers.get('authorization') or asked.key}"), asked)
        elif asked.wire is not None:
            self._chat(asked, step or Say(f"You said: {asked.wire.asked(body)}"))
        elif self.path == "/v1/embeddings":
            self._embed(body)
        else:
            self._play(Status(404, f"no route {self.path}"), asked)

    def _play(self, step: Step, asked: Asked) -> None:
        wire, turn = asked.wire or WIRES["/v1/chat/completions"], len(self.server.asked)
        match step:
            case Status(status, message, headers, code):
                error = {"message": message, "type": "scripted", "code": code}
                said = {"type": "error", "error": error}
                self._send(json.dumps(said).encode(), status=status, headers=headers)
            case Body(body, kind, headers):
                self._send(body, kind=kind, headers=headers)
            case WrongLength(length, body):
                self._send(body, length=length)
                self.close_connection = True
            case Hang(after):
                if after:
                    self._stream(wire, wire.stream([*after], (), turn))
                self._wait_for_the_end()
            case HalfStream(pieces, clean, calls):
                events = [*wire.stream([*pieces], calls, turn)]
                self._stream(wire, events[:-1] if calls else events, is_last=True)
                self.wfile.write(b"0\r\n\r\n" if clean else b"fff\r\ndata: {")
            case Reset():
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                self.close_connection = True

    def _wait_for_the_end(self) -> None:
        self.wfile.flush()
        self.server.hanging.release()
        self.close_connection = True
        try:
            self.connection.recv(1)
        except OSError:
            pass
        self.server.lost.release()

    def _chat(self, asked: Asked, say: Say) -> None:
        wire, turn = asked.wire, len(self.server.asked)
        assert wire is not None
        if not asked.is_streamed:
            self._send(json.dumps(wire.whole(say, turn, asked.model)).encode())
        elif self._stream(wire, wire.stream(say.parts(), say.calls, turn)):
            for event in wire.end(say, turn, asked.body):
                self._chunk(wire.frame(event))
            self.wfile.write(b"0\r\n\r\n")

    def _stream(self, wire: Wire, events: Iterable[Event | Gate], *, is_last: bool = False) -> bool:
        """Begin a stream, if `is_last` the last of its connection; False if the client went at a gate."""
        self._stream_head(is_last=is_last)
        for event in events:
            if not isinstance(event, Gate):
                self._chunk(wire.frame(event))
            elif not event.wait(self.connection):
                self.close_connection = True
                self.server.lost.release()
                return False
        return True

    def _embed(self, body: Any) -> None:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        data = []
        for n, text in enumerate(texts):
            vector: Any = hashed(text, body.get("dimensions") or SIZE)
            if body.get("encoding_format") == "base64":
                vector = base64.b64encode(array("f", vector).tobytes()).decode()
            data.append({"object": "embedding", "index": n, "embedding": vector})
        data.reverse()  # the index says which is which, not the place
        self._send(json.dumps({"object": "list", "model": body["model"], "data": data}).encode())

    def _send(
        self,
        body: bytes,
        *,
        status: int = 200,
        kind: str = "application/json",
        headers: dict[str, str] | None = None,
        length: int | None = None,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream_head(self, *, is_last: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        if is_last:  # said, for a client that heard a whole answer would send its next request on a connection that closes
            self.send_header("Connection", "close")
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()


@contextmanager
def serving(*, port: int = 0, key: str | None = None) -> Iterator[ModelServer]:
    """A server that runs until the block ends."""
    server = ModelServer(port, key)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    with serving(port=int(sys.argv[1]) if len(sys.argv) > 1 else 0) as running:
        print(running.address, flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            pass
