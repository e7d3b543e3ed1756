"""A small server that speaks the API of the search service Exa."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["FOUND", "SearchService", "searching"]

FOUND = {"requestId": "r1", "results": [{"title": "Rents", "url": "https://example.com/", "highlights": ["900 euros"]}]}


class SearchService(ThreadingHTTPServer):
    """Answers each search with `answer`, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), SearchHandler)
        self.answer: tuple[int, Any] = (200, FOUND)
        self.asked: list[tuple[str, dict[str, str], Any]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class SearchHandler(BaseHTTPRequestHandler):
    server: SearchService  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        status, said = self.server.answer
        data = said if isinstance(said, bytes) else json.dumps(said).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def searching() -> Iterator[SearchService]:
    server = SearchService()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
