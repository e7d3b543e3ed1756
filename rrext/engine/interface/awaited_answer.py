"""An answer for a coroutine of this process."""

from __future__ import annotations

import asyncio

from rrext.engine.interface.call import Call
from rrext.errors import RrextError


class AwaitedAnswer:
    """Takes the answer of a call in any thread, and settles `future` on the loop."""

    __slots__ = ("_loop", "future")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.future: asyncio.Future[tuple[bytes, bytes | None]] = loop.create_future()

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None:
        self._loop.call_soon_threadsafe(self._settle, (body, tail), None)

    def fail(self, call: Call, error: RrextError) -> None:
        self._loop.call_soon_threadsafe(self._settle, None, error)

    def _settle(self, value: tuple[bytes, bytes | None] | None, error: RrextError | None) -> None:
        if self.future.done():
            return
        if value is not None:
            self.future.set_result(value)
        elif error is not None:
            self.future.set_exception(error)
