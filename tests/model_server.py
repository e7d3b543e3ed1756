"""A small server that speaks the APIs of language models: OpenAI's chat completions, also streamed, and embeddings. For tests
and for trying things.

It answers each question with the question itself, and embeds texts by hashing. What it does to the next requests can be
scripted: `server.next(Status(429), Say("ok"))`, for each model apart `server.next(…, model="small")`, or by a function of the
request: `server.plays(lambda asked: Say("ok"))`. By itself: `python model_server.py [port]`.
"""

from __future__ import annotations

import base64
import json
import os
import re
import select
import socket
import struct
import sys
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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


class Gate:
    """A place in an answer where the server says nothing until the test calls `open()`, or the client is gone."""

    def __init__(self) -> None:
        self.reached = threading.Semaphore(0)
        self._waits, self._opens = os.pipe()

    def open(self) -> None:
        os.write(self._opens, b"x")  # stays in the pipe: a gate that was opened stays open

    def wait(self, connection: socket.socket) -> bool:
        """Whether the gate was opened, and the client is still there."""
        self.reached.release()
        ready, _, _ = select.select([connection, self._waits], [], [])
        return connection not in ready

    def __del__(self) -> None:
        os.close(self._waits)
        os.close(self._opens)


@dataclass
class Call:
    """A call of a tool by the model. `arguments` is the text as the model writes it, whether it is JSON or not; otherwise
    `input` is written as JSON. It is streamed in so many `pieces`, each with the call's index unless it is not `has_index`.
    `id` is None for a server that sends none."""

    tool: str
    input: Any = field(default_factory=dict)
    arguments: str | None = None
    id: str | None = ""
    pieces: int = 2
    has_index: bool = True

    def text(self) -> str:
        return self.arguments if self.arguments is not None else json.dumps(self.input)

    def parts(self) -> list[str]:
        text = self.text()
        size = max(1, -(-len(text) // self.pieces))
        return [text[at : at + size] for at in range(0, len(text), size)]


@dataclass
class Usage:
    """How many tokens the server counts."""

    input: int = 5
    output: int = 7


@dataclass
class Say:
    """Answer a chat like this: a text, which a stream brings in `pieces`, and calls of tools. `finish` and `refusal` are the
    server's own words for how it ended, which may be a lie; without `finish` it is the usual one."""

    text: str | None = ""
    finish: str = ""
    refusal: str | None = None
    pieces: Sequence[str | Gate] | None = None
    calls: Sequence[Call] = ()
    usage: Usage | None = field(default_factory=Usage)

    def parts(self) -> Sequence[str | Gate]:
        return self.pieces if self.pieces is not None else re.findall(r"\S+\s*|\s+", self.text or "")

    def whole(self) -> str | None:
        if self.pieces is None:
            return self.text
        return "".join(piece for piece in self.pieces if isinstance(piece, str))


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
    def model(self) -> str:
        return self.body.get("model", "")

    @property
    def tools(self) -> list[str]:
        """The names of the tools that the model may call."""
        return [tool["function"]["name"] for tool in self.body.get("tools", ())]

    @property
    def results(self) -> list[str]:
        """The texts of what tools answered so far."""
        return [message["content"] for message in self.body.get("messages", ()) if message["role"] == "tool"]


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
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

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
            case HalfStream(pieces, clean, calls):
                self._stream_head()
                for piece in pieces:
                    self._event(delta(piece))
                for event in list(call_deltas(calls, len(self.server.asked)))[:-1]:
                    self._event(event)
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
            self._stream(body, say)
            return
        turn = len(self.server.asked)
        calls = [
            {"type": "function", "function": {"name": call.tool, "arguments": call.text()}, **identity(call, turn, n)}
            for n, call in enumerate(say.calls)
        ]
        message = {
            "role": "assistant",
            "content": say.whole(),
            "refusal": say.refusal,
            **({"tool_calls": calls} if calls else {}),
        }
        choice = {"index": 0, "message": message, "finish_reason": finish_of(say)}
        said = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"], "choices": [choice]}
        self._send(json.dumps(said | usage_of(say)).encode())

    def _stream(self, body: Any, say: Say) -> None:
        self._stream_head()
        for piece in say.parts():
            if isinstance(piece, str):
                self._event(delta(piece))
            elif not piece.wait(self.connection):
                self.close_connection = True
                self.server.lost.release()
                return
        if say.refusal:
            self._event(chunk({"refusal": say.refusal}))
        for event in call_deltas(say.calls, len(self.server.asked)):
            self._event(event)
        self._event(chunk({}, finish_of(say)))
        if (body.get("stream_options") or {}).get("include_usage") and say.usage is not None:
            self._event(chunk(None) | usage_of(say))
        self._chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

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


def chunk(delta: dict[str, Any] | None, finish: str | None = None) -> dict[str, Any]:
    """An event of a stream; without a delta one of no choices, as that of the count of tokens."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "scripted", "choices": choices}


def delta(text: str) -> dict[str, Any]:
    return chunk({"content": text})


def call_deltas(calls: Sequence[Call], turn: int) -> Iterator[dict[str, Any]]:
    """The events of calls: each with its name first, then its arguments, piece by piece."""
    for n, call in enumerate(calls):
        index = {"index": n} if call.has_index else {}
        named = {"type": "function", "function": {"name": call.tool, "arguments": ""}, **identity(call, turn, n)}
        yield chunk({"tool_calls": [index | named]})
        for part in call.parts():
            yield chunk({"tool_calls": [{**index, "function": {"arguments": part}}]})


def identity(call: Call, turn: int, n: int) -> dict[str, str]:
    return {} if call.id is None else {"id": call.id or f"call_{turn}_{n}"}


def finish_of(say: Say) -> str:
    return say.finish or ("tool_calls" if say.calls else "stop")


def usage_of(say: Say) -> dict[str, Any]:
    if say.usage is None:
        return {}
    read, written = say.usage.input, say.usage.output
    return {"usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}}


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
