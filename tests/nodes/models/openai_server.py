"""A small server that speaks OpenAI's API: chat completions, also streamed, and embeddings. For tests and for trying things.

It answers each question with the question itself, and embeds texts by hashing. What it does to the next requests can be
scripted: `server.next(Status(429), Say("ok"))`. By itself: `python openai_server.py [port]`.
"""

from __future__ import annotations

import base64
import json
import socket
import struct
import sys
import threading
from array import array
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rrext.nodes.embeddings.embedder import hashed

__all__ = ["Body", "HalfStream", "Hang", "OpenAIServer", "Reset", "Say", "Status", "Step", "WrongLength", "serving"]

SIZE = 64
"""Numbers in a vector if the request asks for no `dimensions`."""


@dataclass
class Say:
    """Answer a chat like this. `finish` and `refusal` are the server's own words for how it ended."""

    text: str | None = ""
    finish: str = "stop"
    refusal: str | None = None
    pieces: list[str] | None = None


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
    """Begin a stream, then break off: in the middle of a chunk, or, if `clean`, as if it were complete."""

    pieces: list[str]
    clean: bool = False


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


class OpenAIServer(ThreadingHTTPServer):
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
        self._steps: deque[Step] = deque()
        self._open: set[socket.socket] = set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def next(self, *steps: Step) -> None:
        """What the next requests get, one each; after that it answers as usual."""
        self._steps.extend(steps)

    def step(self) -> Step | None:
        return self._steps.popleft() if self._steps else None

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
    server: OpenAIServer
    disable_nagle_algorithm = True

    def log_message(self, *args: Any) -> None:
        """Nothing: tests read answers."""

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length) or b"null")
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append(Asked(self.path, headers, body))
        step = self.server.step()
        if step is not None and not isinstance(step, Say):
            self._play(step)
        elif self.server.key is not None and headers.get("authorization") != f"Bearer {self.server.key}":
            self._play(Status(401, f"Incorrect API key provided: {headers.get('authorization', 'none')}"))
        elif self.path == "/v1/chat/completions":
            self._chat(body, step or Say(f"You said: {body['messages'][-1]['content']}"))
        elif self.path == "/v1/embeddings":
            self._embed(body)
        else:
            self._play(Status(404, f"no route {self.path}"))

    def _play(self, step: Step) -> None:
        match step:
            case Status(status, message, headers, code):
                said = {"error": {"message": message, "type": "scripted", "code": code}}
                self._send(json.dumps(said).encode(), status=status, headers=headers)
            case Body(body, kind, headers):
                self._send(body, kind=kind, headers=headers)
            case WrongLength(length, body):
                self._send(body, length=length)
                self.close_connection = True
            case Hang(after):
                self._stream_head() if after else None
                for piece in after:
                    self._event(delta(piece))
                self._wait_for_the_end()
            case HalfStream(pieces, clean):
                self._stream_head()
                for piece in pieces:
                    self._event(delta(piece))
                self.wfile.write(b"0\r\n\r\n" if clean else b"fff\r\ndata: {")
                self.close_connection = True
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

    def _chat(self, body: Any, say: Say) -> None:
        if body.get("stream"):
            self._stream_head()
            for piece in say.pieces if say.pieces is not None else (say.text or "").split(" "):
                self._event(delta(piece))
            if say.refusal:
                self._event({"choices": [{"index": 0, "delta": {"refusal": say.refusal}, "finish_reason": None}]})
            self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": say.finish}]})
            self._chunk(b"data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")
            return
        message = {"role": "assistant", "content": say.text, "refusal": say.refusal}
        usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
        choice = {"index": 0, "message": message, "finish_reason": say.finish}
        said = {"id": "1", "object": "chat.completion", "model": body["model"], "choices": [choice], "usage": usage}
        self._send(json.dumps(said).encode())

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

    def _stream_head(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _event(self, value: Any) -> None:
        self._chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()


def delta(text: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}


@contextmanager
def serving(*, port: int = 0, key: str | None = None) -> Iterator[OpenAIServer]:
    """A server that runs until the block ends."""
    server = OpenAIServer(port, key)
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
