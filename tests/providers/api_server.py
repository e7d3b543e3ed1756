"""Servers of HTTP APIs for tests: one answers as a test says and keeps what it was asked, another writes any bytes."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

__all__ = ["ApiHost", "Asked", "Reply", "api_host", "raw_host"]


@dataclass
class Asked:
    """A request as it came: its target is not decoded."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Reply:
    """An answer: JSON, or bytes of a content type."""

    value: Any = None
    status: int = 200
    media: str | None = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


Answer = Callable[[Asked], Reply]


class ApiHost(ThreadingHTTPServer):
    """Serves on 127.0.0.1, and answers each request with what `answer` says."""

    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.asked: list[Asked] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Write nothing about a client that did not wait."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ApiHost

    def do_GET(self) -> None:
        length = int(self.headers.get("content-length", 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.command, self.path, headers, self.rfile.read(length))
        self.server.asked.append(asked)
        reply = self.server.answer(asked)
        body = reply.value if isinstance(reply.value, bytes) else json.dumps(reply.value).encode()
        if reply.status in (204, 304):
            body = b""
        self.send_response(reply.status)
        if reply.media is not None:
            self.send_header("content-type", reply.media)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET

    def log_message(self, *args: Any) -> None:
        """Write nothing."""


@contextmanager
def api_host(answer: Answer) -> Iterator[ApiHost]:
    """A server that answers requests with a function."""
    host = ApiHost(answer)
    thread = threading.Thread(target=host.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield host
    finally:
        host.shutdown()
        host.server_close()


@contextmanager
def raw_host(write: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server that, after the head of a request, writes what it likes, until it is done or nobody reads."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(peer: socket.socket) -> None:
        with peer:
            head = b""
            while b"\r\n\r\n" not in head:
                piece = peer.recv(65536)
                if not piece:
                    return
                head += piece
            try:
                write(peer)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(peer,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
