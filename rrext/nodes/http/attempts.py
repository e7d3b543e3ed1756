"""The attempts of one request: the meaning of a failed one, and whether another follows."""

from __future__ import annotations

import asyncio
from typing import Final

from rrext.errors import ToolError
from rrext.http.client import ForeignPacking
from rrext.http.failures import bad_answer, broken, late
from rrext.nodes.http.failures import ServerName
from rrext.nodes.http.settings import EndpointSettings
from rrext.tools.context import ToolContext

RETRIED: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses of temporary failures: too early, too many, or an overloaded server. Others do not change with a retry."""


class Attempts:
    """The attempts of one request: their number, their deadline, and the failure of the last one."""

    def __init__(self, server: ServerName, settings: EndpointSettings, ctx: ToolContext) -> None:
        self._server = server
        self._settings = settings
        self._ctx = ctx
        self.tries = 1
        self.until = asyncio.get_running_loop().time() + settings.total
        self.asked: float | None = None
        self.is_passing = False

    async def failed(self, error: Exception, *, final: bool = False) -> None:
        """Wait until the request may be repeated, or raise the caller's error for the failure."""
        failure = self._failure(error)
        pause = None if final or not self.is_passing else self._settings.retries.pause(self.tries, self.asked)
        if pause is None or pause >= self._left():
            try:
                raise failure from None  # the client's own exception holds the request, and its headers the key
            finally:
                del failure, error  # their tracebacks reference this frame
        self.tries += 1
        self.asked, self.is_passing = None, False
        await asyncio.sleep(pause)

    def _left(self) -> float:
        """Seconds until the answer is too late: for the settings, or for the caller's deadline."""
        left = self.until - asyncio.get_running_loop().time()
        deadline = self._ctx.remaining()
        return left if deadline is None else min(left, deadline)

    def _failure(self, error: Exception) -> ToolError:
        import httpx2

        server, settings = self._server, self._settings
        if isinstance(error, ToolError):
            return error
        if isinstance(error, TimeoutError):
            return late(server, f"was not done within {settings.total:g} s (totalTimeout)", tries=self.tries)
        if isinstance(error, httpx2.ConnectTimeout):
            self.is_passing = True
            return broken(server, RuntimeError("nobody takes the connection"), tries=self.tries)
        if isinstance(error, httpx2.TimeoutException):
            return late(server, f"said nothing for {settings.silence:g} s (timeout)", tries=self.tries)
        if isinstance(error, ForeignPacking):
            return bad_answer(server, "in a packing that nobody asked for")
        if isinstance(error, httpx2.DecodingError):
            return bad_answer(server, "in a form that cannot be unpacked")
        if isinstance(error, httpx2.TransportError):
            self.is_passing = True
            return broken(server, error, tries=self.tries)
        raise error
