"""Results as files in a private folder, which editors open."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec

from rrext.wire.codec import encode_own

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
