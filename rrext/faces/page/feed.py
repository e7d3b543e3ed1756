"""The feed of one open page: server-sent events, each with what changed since the one before."""

from __future__ import annotations

import asyncio
from time import gmtime, strftime
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rrext.engine.events.records import CallEnded
from rrext.faces.page.assets import SAFETY
from rrext.faces.page.watch import Watch
from rrext.server.audit import line_of
from rrext.server.logs import log_tail


class PageFeed(Response):
    """Sends the states of a watch while the browser reads: a slow one gets fewer of them, and always whole and new."""

    media_type = "text/event-stream"

    def __init__(self, watch: Watch) -> None:
        super().__init__(headers={**SAFETY, "Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._watch = watch
        self._told: dict[str, bytes] = {}
        self._failure = self._line = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send states until the browser or the server ends."""
        watch, number = self._watch, 0
        watch.enter()
        gone = asyncio.get_running_loop().create_task(_disconnect(receive), name="open status page")
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while not gone.done():
                await watch.after(number)
                if watch.is_ended:
                    await send({"type": "http.response.body", "body": b"event: end\ndata: {}\n\n"})
                    break
                number = watch.number
                body = b"data: %b\n\n" % msgspec.json.encode(self._news())
                await send({"type": "http.response.body", "body": body, "more_body": True})
        finally:
            gone.cancel()
            watch.leave()

    def _news(self) -> dict[str, Any]:
        """The sums, with the rows, failures and lines that are new to the page."""
        rows = self._watch.rows
        changed = [msgspec.Raw(b'{"key":%b,"row":%b}' % (msgspec.json.encode(key), row))
                   for key, row in rows.items() if self._told.get(key) != row]  # fmt: skip
        gone = [key for key in self._told if key not in rows]
        self._told = rows
        return {"head": self._watch.head, "rows": changed, "gone": gone, "failures": self._failures(), "lines": self._lines()}

    def _failures(self) -> list[Any]:
        found = self._watch.traffic.failures.after(self._failure)
        self._failure = found[-1][0] if found else self._failure
        return [failure for _, failure in found]

    def _lines(self) -> list[str]:
        """The new lines of the server's log, for a caller who is trusted; else those about calls of the user."""
        if self._watch.caller.trusted:
            logged = log_tail().after(self._line)
            self._line = logged[-1][0] if logged else self._line
            return [line.decode(errors="replace").rstrip("\n") for _, line in logged]
        ended = self._watch.traffic.lines.after(self._line)
        self._line = ended[-1][0] if ended else self._line
        return [_line(event) for _, event in ended]


def _line(event: CallEnded) -> str:
    return f"{strftime('%Y-%m-%dT%H:%M:%SZ', gmtime(event.time))} {line_of(event)}"


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
