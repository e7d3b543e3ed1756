"""The progress of a run as `$/progress` notifications."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException

from rrext.faces.lsp.limits import PROGRESS_DELAY
from rrext.limits import CLIENT_DEFAULTS

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer

log: Final = logging.getLogger("rrext.lsp")


class WorkProgress:
    """The progress of one run, under the client's token, or under one of ours if the client accepts it.

    It appears with the first report, or after a delay. `cancel` is called when the user cancels. Frequent reports are merged.
    """

    def __init__(self, server: PipeServer, token: int | str | None, title: str, cancel: Callable[[], object]) -> None:
        self.title = title
        self._server = server
        self._cancel = cancel
        self._loop = asyncio.get_running_loop()
        self._token = token
        self._is_usable = token is not None
        self._is_begun = self._is_over = False
        self._state: tuple[str | None, int | None] = (None, None)
        self._most = 0
        self._stale = False
        self._timer: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to show progress."""
        if self._token is None:
            if not get_capability(self._server.client_capabilities, "window.work_done_progress", False):
                return
            self._token = f"rrext-{uuid4()}"
            self._asking = self._loop.create_task(self._ask(self._token), name="ask for progress")
        wanted: Future[None] = Future()
        wanted.add_done_callback(lambda future: self._cancel() if future.cancelled() else None)
        self._server.protocol.progress.tokens[self._token] = wanted
        self._timer = self._loop.call_later(PROGRESS_DELAY, self._tick)

    def report(self, message: str | None, share: float | None = None) -> None:
        """Report the progress; `share` is between 0 and 1 if known."""
        percentage = None
        if share is not None:
            percentage = self._most = max(self._most, min(100, int(100 * share)))
        self._state = message, percentage
        self._stale = True
        if self._timer is None or not self._is_begun:
            self._tick()

    def end(self, message: str) -> None:
        """End the progress."""
        if self._is_over:
            return
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._asking is not None:
            self._asking.cancel()
        if self._token is not None:
            self._server.protocol.progress.tokens.pop(self._token, None)
        if self._is_begun:
            self._tell({"kind": "end", "message": message})

    async def _ask(self, token: str) -> None:
        """Register a token of ours; nothing is sent under it before the client accepts."""
        try:
            await self._server.window_work_done_progress_create_async(types.WorkDoneProgressCreateParams(token))
        except JsonRpcException as error:
            log.info("the client takes no progress: %s", error)
        else:
            self._is_usable = True
            if self._stale or self._timer is None:  # a report waits, or the delay is over
                self._tick()

    def _tick(self) -> None:
        """Send the newest report, then pause."""
        if not self._is_usable or self._is_over:
            self._timer = None
            return
        is_new = self._stale or not self._is_begun
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(CLIENT_DEFAULTS.progress_redraw, self._tick) if is_new else None
        if not is_new:
            return
        self._stale = False
        message, percentage = self._state
        value: dict[str, Any] = {"kind": "report"} if self._is_begun else {"kind": "begin", "title": self.title}
        value["cancellable"] = True
        if message is not None:
            value["message"] = message
        if percentage is not None:
            value["percentage"] = percentage
        self._is_begun = True
        self._tell(value)

    def _tell(self, value: dict[str, Any]) -> None:
        self._server.protocol.tell(types.PROGRESS, {"token": self._token, "value": value})
