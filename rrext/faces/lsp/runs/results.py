"""The results of runs and the drawn pipeline: as files, and shown in the editor by any means that it supports."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException

from rrext.errors import InvalidArguments, RrextError
from rrext.faces.lsp.runs.engine import name_of
from rrext.limits import DEFAULTS, KIB
from rrext.server.commands import decode
from rrext.wire.codec import encode_own

if TYPE_CHECKING:
    from rrext.editor.analysis import Analysis
    from rrext.faces.lsp.server import PipeServer


MAX_FILE_STEM: Final = 120
"""Bytes of a file name without its extension; file systems allow 255."""

_UNSAFE: Final = re.compile(r"[^\w.-]+")
_MARKDOWN: Final = re.compile(r"\s*#{1,6} \S|(?:.*\n)*```")
KINDS: Final = (
    (b"\x89PNG\r\n\x1a\n", ".png"),
    (b"\xff\xd8\xff", ".jpg"),
    (b"GIF8", ".gif"),
    (b"%PDF-", ".pdf"),
    (b"PK\x03\x04", ".zip"),
    (b"RIFF", ".riff"),
    (b"\x1f\x8b", ".gz"),
)
"""The first bytes of known file formats; others are `.bin`."""


class Shown(msgspec.Struct, frozen=True):
    """A result for a reader. `text` is None for bytes; a picture opens in a viewer instead of the editor."""

    content: bytes
    extension: str
    text: str | None
    is_picture: bool = False


def shown(value: Any) -> Shown:
    """JSON indented, text unchanged (Markdown if it starts with a heading or has a fence), bytes unchanged."""
    if isinstance(value, bytes):
        return Shown(value, next((kind for start, kind in KINDS if value.startswith(start)), ".bin"), None)
    if isinstance(value, str):
        return Shown(value.encode("utf-8", "replace"), ".md" if _MARKDOWN.match(value[:10_000]) else ".txt", value)
    content = msgspec.json.format(encode_own(value), indent=2)
    return Shown(content + b"\n", ".json", content.decode())


class ResultFiles:
    """Files that only this user can read, for the life of the server: `<pipeline>.<tool>.json` and the like.

    Each document has its own folder; a new result of the same tool replaces the last one.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._folders: dict[str, Path] = {}

    async def write(self, uri: str, name: str, result: Shown) -> Path:
        """Write a result of a document. Raises `OSError`."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="rrext-"))
        folder = self._folders.setdefault(uri, self._folder / str(len(self._folders) + 1))
        stem = _UNSAFE.sub("_", name).encode()[:MAX_FILE_STEM].decode("utf-8", "ignore")
        path = folder / (stem + result.extension)
        await asyncio.get_running_loop().run_in_executor(None, _replace, path, result.content)
        return path

    async def aclose(self) -> None:
        """Remove all files."""
        folder, self._folder = self._folder, None
        self._folders.clear()
        if folder is not None:
            await asyncio.get_running_loop().run_in_executor(None, lambda: shutil.rmtree(folder, ignore_errors=True))


def _replace(path: Path, content: bytes) -> None:
    """Replace a file atomically, for editors that read it meanwhile."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


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
            self._server.show_to_user(f"The result cannot be saved: {error.strerror}", types.MessageType.Warning)
            path = None
        place = None if path is None else path.as_uri()
        self._log(name, result, place)
        task = asyncio.get_running_loop().create_task(self._open(name, result, place), name=f"show {name}")
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        return place, len(result.content)

    async def _open(self, name: str, result: Shown, place: str | None) -> None:
        if place is None or not await self._is_opened(place, result):
            self._server.show_to_user(f"{name}: {_in_short(result, place)}")

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


Form: TypeAlias = Literal["text", "svg", "mermaid"]

EXTENSIONS: Final[dict[Form, str]] = {"text": ".txt", "svg": ".svg", "mermaid": ".mmd"}


class ShowGraph(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Draw a document's pipeline."""

    uri: str
    form: Form | None = None


class Graphs:
    """Drawings of one server's documents in their present state, also with errors."""

    def __init__(self, server: PipeServer, display: Display) -> None:
        self._server = server
        self._display = display
        server.add_command("rrext.showGraph", self._show)

    async def _show(self, params: types.ExecuteCommandParams) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        arguments = (params.arguments or ({},))[0]
        if not isinstance(arguments, dict):
            raise InvalidArguments.at("", f"{params.command} takes one object")
        given = decode(arguments, ShowGraph, DEFAULTS)
        form: Form = given.form or "text"
        _, _, analysis = await self._server.analysis_of(given.uri)
        try:
            drawn = await loop.run_in_executor(None, _drawn, analysis, form)  # a large one takes seconds
        except RrextError as error:
            self._server.show_to_user(error.message, types.MessageType.Error)
            failure = {"code": error.code, "message": error.message}
            return {"ok": False, "error": failure, "seconds": round(loop.time() - begun, 3)}
        result = Shown(drawn.encode("utf-8", "replace"), EXTENSIONS[form], drawn, is_picture=form == "svg")
        place, size = await self._display.show(given.uri, f"{name_of(given.uri)}.graph", result)
        saved = {} if place is None else {"uri": place, "size": size}
        return {"ok": True, "result": drawn, **saved, "seconds": round(loop.time() - begun, 3)}


def _drawn(analysis: Analysis, form: Form) -> str:
    """The picture. Raises `RrextError` if it would be empty or too large."""
    from rrext.picture.picture import picture_of

    picture = picture_of(analysis.loaded)
    if not picture.nodes and not (form == "svg" and picture.remarks):
        raise InvalidArguments("There is no component that could be drawn")
    if form == "svg":
        from rrext.picture.svg import as_svg

        return as_svg(picture)
    if form == "mermaid":
        from rrext.picture.text import as_mermaid

        return as_mermaid(picture)
    from rrext.picture.text import as_text

    return as_text(picture)
