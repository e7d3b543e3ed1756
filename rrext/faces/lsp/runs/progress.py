"""The progress of a run as `$/progress` notifications."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException

from rrext.limits import CLIENT_DEFAULTS

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer

PROGRESS_DELAY: Final = 0.2
"""Seconds before a run is shown; shorter ones need no progress bar."""

log: Final = logging.getLogger("rrext.lsp")


class WorkProgress:
    """The progress of one run, under the client's token, or under one of ours if the client accepts it.

    It appears with the first report, or after a delay. `cancel` is called when the user cancels. Frequent reports are merged.
    """

    def __init__(self, server: PipeServer, token: int | str | None, title: str, cancel: Callable[[], object]) -> None:
        self.title = title
        self._server = server
        self._cancel = cancel
        self._is_ours = token is None
        self._token = f"rrext-{uuid4()}" if token is None else token
        self._state: tuple[str | None, int | None] = (None, None)
        self._most = 0
        self._news = asyncio.Event()
        self._is_begun = False
        self._showing: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to show progress."""
        if self._is_ours and not get_capability(self._server.client_capabilities, "window.work_done_progress", False):
            return
        wanted: Future[None] = Future()
        wanted.add_done_callback(lambda future: self._cancel() if future.cancelled() else None)
        self._server.protocol.progress.tokens[self._token] = wanted
        self._showing = asyncio.get_running_loop().create_task(self._show(), name="show progress")

    def report(self, message: str | None, share: float | None = None) -> None:
        """Report the progress; `share` is between 0 and 1 if known."""
        percentage = None
        if share is not None:
            percentage = self._most = max(self._most, min(100, int(100 * share)))
        self._state = message, percentage
        self._news.set()

    def end(self, message: str) -> None:
        """End the progress."""
        if self._showing is None:
            return
        self._showing.cancel()
        self._showing = None
        self._server.protocol.progress.tokens.pop(self._token, None)
        if self._is_begun:
            self._tell({"kind": "end", "message": message})

    async def _show(self) -> None:
        """Send the newest report, then pause; under a token of ours only if the client accepts it."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), PROGRESS_DELAY)
        if self._is_ours:
            try:
                await self._server.window_work_done_progress_create_async(types.WorkDoneProgressCreateParams(self._token))
            except JsonRpcException as error:
                log.info("the client takes no progress: %s", error)
                return
        while True:
            self._news.clear()
            message, percentage = self._state
            value: dict[str, Any] = {"kind": "report"} if self._is_begun else {"kind": "begin", "title": self.title}
            value["cancellable"] = True
            if message is not None:
                value["message"] = message
            if percentage is not None:
                value["percentage"] = percentage
            self._is_begun = True
            self._tell(value)
            await asyncio.sleep(CLIENT_DEFAULTS.progress_redraw)
            await self._news.wait()

    def _tell(self, value: dict[str, Any]) -> None:
        self._server.protocol.tell(types.PROGRESS, {"token": self._token, "value": value})
