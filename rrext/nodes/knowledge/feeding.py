"""`DocumentBuilder`: a document for the catalog, of the texts and tables that arrive for one object."""

from __future__ import annotations

import os
import re
from math import isfinite
from typing import Any, Final

from rrext.nodes.base.node import Entry, whole_path
from rrext.nodes.documents.formats import PDF
from rrext.nodes.knowledge.partition import DocumentDraft, Sheet
from rrext.nodes.vectors.checked_input import require_name

SINGLE: Final = "files"
"""The source of files that came without a folder."""

PAGE_END: Final = "\f"
"""What `parse` puts between the pages of a PDF document."""

_HEADING: Final = re.compile(r"(?:^|\n)#{1,6} ([^\n]*)\n\s*\Z")


class DocumentBuilder:
    """Collects the text of an object, and where its tables stand in it.

    Characters are those of the text lane, so that the ranges of chunks are ranges of this text; a table that came on the table
    lane alone follows at the end.
    """

    def __init__(self, entry: Entry) -> None:
        """Raises `InvalidArguments` for an id or a path that no store keeps."""
        self._entry = entry
        require_name("/object/objectId", entry.object_id)
        given = entry.metadata.get("source")
        place = place_of_object("/object/name", entry.name, entry.path, given if isinstance(given, str) else "")
        self.source, self._folder, self._name = place
        self._pieces: list[str] = []
        self._length = 0
        self._tables: list[tuple[str, int | None, str]] = []

    def add_text(self, text: str) -> None:
        """Add the next piece of the text."""
        self._pieces.append(text)
        self._length += len(text)

    def add_table(self, table: str) -> None:
        """Add a table, which may be the text that came last."""
        is_in_text = bool(self._pieces) and self._pieces[-1] == table
        before = self._pieces[: -1 if is_in_text else None]
        heading = _HEADING.search(before[-1]) if before else None
        name = heading[1].strip() if heading else ""
        self._tables.append((table, self._length - len(table) if is_in_text else None, name))

    def draft(self) -> DocumentDraft:
        """The document."""
        entry = self._entry
        sheets: list[Sheet] = []
        for number, (table, start, name) in enumerate(self._tables, 1):
            if start is None:
                if self._length:
                    self.add_text("\n")
                start = self._length
                self.add_text(table)
            name = name or (os.path.splitext(self._name)[0] if len(self._tables) == 1 else f"table {number}")
            sheets.append(Sheet(name, start, start + len(table)))
        text = "".join(self._pieces)
        mime_type = str(entry.metadata.get("mimeType") or entry.mime_type)
        feed = entry.metadata.get("feed")
        return DocumentDraft(
            object_id=entry.object_id,
            source=self.source,
            folder=self._folder,
            name=self._name,
            text=text,
            mime_type=mime_type,
            metadata={key: value for key, value in entry.metadata.items() if key not in PLACED},
            sheets=tuple(sheets),
            pages=tuple(pages_of(text)) if mime_type == PDF else (),
            feed=feed if isinstance(feed, str) and feed else None,
            modified=_seconds(entry.metadata.get("modified")),
            signature=entry.signature,
        )


PLACED: Final = frozenset({"source", "feed", "modified", "mimeType"})
"""Metadata with a column of its own."""


def pages_of(text: str) -> list[int]:
    """The characters at which the pages of a PDF document begin."""
    return [0, *(at + 1 for at, one in enumerate(text) if one == PAGE_END)]


def place_of_object(at: str, name: str, path: str, source: str = "") -> tuple[str, str, str]:
    """The source, the folder and the name of an object. Raises `InvalidArguments` at `at` for a path that no store keeps.

    A name with folders begins with that of the folder that was sent, which is the source unless another one is given. Of
    other objects the first folder of the path is the source. A source that is given as a path is a folder of its first name.
    """
    is_below = "/" in name.strip("/")
    *folders, last = _names(name if is_below else whole_path(path, name)) or ["unnamed"]
    above = _names(source.strip())
    if folders[: len(above)] == above:
        folders = folders[len(above) :]
    elif is_below:
        del folders[:1]
    above = above or [folders.pop(0) if folders else SINGLE]
    require_name(at, "/".join((*above, *folders, last)))
    return above[0], "/".join((*above[1:], *folders)), last


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _seconds(given: Any) -> float | None:
    """A time in metadata, if it is one."""
    try:
        return float(given) if isinstance(given, int | float) and not isinstance(given, bool) and isfinite(given) else None
    except OverflowError:
        return None
