"""The display of results in the editor, by any means that the editor supports."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException

from rrext.faces.lsp.runs.results import ResultFiles, Shown
from rrext.limits import KIB

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer

MAX_MESSAGE_TEXT: Final = 500
"""Characters of a result that a message shows."""
MAX_MESSAGE_LINES: Final = 12
"""Lines of a result that a message shows."""
MAX_LOGGED_RESULT: Final = 4 * KIB
"""Characters of a result in the editor's log."""

log: Final = logging.getLogger("rrext.lsp")


class Display:
    """Writes results to files and asks the editor to open them, without waiting for it."""

    def __init__(self, server: PipeServer) -> None:
        self._server = server
        self._files = ResultFiles()
        self._opening: set[asyncio.Task[None]] = set()
        server.when_closing(self._files.aclose)

    async def show(self, uri: str, name: str, result: Shown) -> tuple[str | None, int]:
        """Show a result of a document; returns the URI of its file (None if it cannot be written) and its size in bytes."""
        try:
            path = await self._files.write(uri, name, result)
        except OSError as error:
            self._server.tell(f"The result cannot be saved: {error.strerror}", types.MessageType.Warning)
            path = None
        place = None if path is None else path.as_uri()
        self._log(name, result, place)
        task = asyncio.get_running_loop().create_task(self._open(name, result, place), name=f"show {name}")
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        return place, len(result.content)

    async def _open(self, name: str, result: Shown, place: str | None) -> None:
        if place is None or not await self._is_opened(place, result):
            self._server.tell(f"{name}: {_in_short(result, place)}")

    async def _is_opened(self, place: str, result: Shown) -> bool:
        if not get_capability(self._server.client_capabilities, "window.show_document.support", False):
            return False
        is_external = result.text is None or result.is_picture
        asked = types.ShowDocumentParams(place, external=is_external, take_focus=False)
        try:
            return (await self._server.window_show_document_async(asked)).success
        except JsonRpcException as error:
            log.info("the client opens no document: %s", error)
            return False

    def _log(self, name: str, result: Shown, place: str | None) -> None:
        text = f"{len(result.content)} bytes" if result.text is None else result.text
        if len(text) > MAX_LOGGED_RESULT:
            text = f"{text[:MAX_LOGGED_RESULT]}… ({len(text)} characters)"
        where = "" if place is None else f" ({place})"
        self._server.window_log_message(types.LogMessageParams(types.MessageType.Info, f"{name}{where}: {text}"))


def _in_short(result: Shown, place: str | None) -> str:
    text = result.text
    if text is not None and len(text) <= MAX_MESSAGE_TEXT and text.count("\n") < MAX_MESSAGE_LINES:
        return text.strip()
    size = f"{len(result.content)} bytes"
    return f"{size}, in the editor's log as far as they fit" if place is None else f"{size}, in {place}"
