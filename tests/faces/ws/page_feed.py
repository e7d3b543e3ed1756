"""The feed of a status page, read without a browser."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ws_server import PATIENCE, WsServer


class OpenPage:
    """What a page knows: the newest rows and sums, all failures and lines. `text` is all that came."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self.head: dict[str, Any] = {}
        self.rows: dict[str, dict[str, Any]] = {}
        self.failures: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self.text = ""
        self.is_ended = False

    def look(self) -> None:
        """Take the next state."""
        event = self._response.readline()
        data = self._response.readline() if event.startswith(b"event:") else event
        self._response.readline()
        self.text += data.decode()
        if event == b"event: end\n" or not event:
            self.is_ended = True
            return
        news = json.loads(data.removeprefix(b"data: "))
        self.head = news["head"]
        self.rows = {key: row for key, row in self.rows.items() if key not in news["gone"]}
        self.rows |= {each["key"]: each["row"] for each in news["rows"]}
        self.failures += news["failures"]
        self.lines += news["lines"]

    def until(self, is_so: Callable[[OpenPage], bool]) -> None:
        """Take states until one is as wanted."""
        while not is_so(self):
            assert not self.is_ended, self.text[-2000:]
            self.look()


@contextmanager
def open_page(server: WsServer, key: str | None = None, headers: Mapping[str, str] = {}) -> Iterator[OpenPage]:
    """A page with its first state."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    try:
        connection.request("GET", "/status/feed", headers={**headers, **bearer(key)})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        page = OpenPage(response)
        page.look()
        yield page
    finally:
        connection.close()


def bearer(key: str | None) -> dict[str, str]:
    """The header with a key."""
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def post(server: WsServer, path: str, token: str, key: str | None = None, **headers: str) -> tuple[int, bytes]:
    """The status and the body of the answer to a request of the page."""
    sent = {
        "Content-Type": "application/json",
        **bearer(key),
        **{name.replace("_", "-"): text for name, text in headers.items()},
    }
    status, _, body = server.request("POST", path, json.dumps({"token": token}).encode(), sent)
    return status, body
