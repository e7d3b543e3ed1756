"""Handler of `grep_documents`: the index names the texts that may hold a hit, and the pattern is searched in those."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Annotated, Any, Final, Literal

import msgspec

from rrext.nodes.knowledge.library import View, address_of
from rrext.nodes.knowledge.partition import JOINED, Partition
from rrext.nodes.knowledge.selection import Selection
from rrext.nodes.text_search.pattern import Pattern, Span
from rrext.nodes.text_search.text_map import text_map
from rrext.nodes.text_search.windows import Loaded, Window, windows
from rrext.nodes.vectors.checked_input import cursor_at, place_of
from rrext.tools.context import ToolContext

Output = Literal["lines", "counts", "files"]

MOST_CONTEXT: Final = 20
"""Lines before and after a hit."""
MOST_TEXT: Final = 200_000
"""Characters of lines in one answer."""
SECONDS: Final = 2.0
"""How long one call searches; its cursor goes on from there."""
MOST_COUNTED: Final = 200
"""Documents up to which those that are left out are counted: more would take longer than a page of hits of a common word."""

Number = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
PLACE: Final = msgspec.json.Decoder(tuple[str, Number, Number, str])
"""Reads a catalog, a document in it, the byte to go on from, and the digest of the text that this is about."""
START: Final[tuple[str, int, int, str]] = ("", 0, 0, "")


class Grep:
    """One search for a pattern in the catalogs of a view."""

    def __init__(
        self, pattern: Pattern, output: Output, context: int, selection: Selection, documents: Sequence[str], limit: int
    ) -> None:
        self._pattern = pattern
        self._output = output
        self._context = context
        self._limit = limit
        self._found: list[dict[str, Any]] = []
        self._shown = 0
        self._scanned = self._hits = self._documents = 0
        conditions, self._values = ["true"], []
        self._is_narrow = bool(selection) or bool(documents)
        if selection:
            condition, self._values = selection.condition()
            conditions.append(condition)
        if documents:
            conditions.append("document.id IN (SELECT value FROM json_each(?))")
            self._values = [*self._values, msgspec.json.encode(list(documents)).decode()]
        self._condition = " AND ".join(conditions)

    def _candidates(self, *, has_about: bool = False, has_text: bool = True) -> tuple[str, str, list[Any]]:
        """The tables of the texts that may hold a hit, the column of their numbers, and the values of the condition.

        `has_about`: those that the index names come with the table of documents; `has_text`: and with their texts.
        """
        if self._pattern.match is None:
            if self._is_narrow:
                inner = f"SELECT document.number FROM {JOINED} WHERE {self._condition}"
                return f"content WHERE content.number IN ({inner})", "content.number", self._values
            return "content WHERE true", "content.number", []
        # the index comes first: asked for one row at a time it would begin anew for each
        tables, condition = "grams", "grams MATCH ?"
        if self._is_narrow or has_about:
            tables += f" CROSS JOIN {JOINED if self._is_narrow else 'document'}"
            condition += f" AND document.number = grams.rowid AND {self._condition}"
        if has_text:
            tables += " CROSS JOIN content ON content.number = grams.rowid"
        return f"{tables} WHERE {condition}", "grams.rowid", [self._pattern.match, *self._values]

    def run(self, view: View, cursor: str | None, ctx: ToolContext) -> dict[str, Any]:
        """Search until enough is found, the time is over, or nothing is left."""
        key, number, byte, digest = place_of(cursor, PLACE, START)
        place = None
        until = time.monotonic() + SECONDS
        counts_all = self._output == "counts" and cursor is None
        left_out = 0
        for _, partition in view.parts(key):
            if place is not None and not counts_all:
                if left_out < MOST_COUNTED:
                    left_out += self._count(partition, 0)
                continue
            begin = (number, byte, digest) if partition.key == key else (0, 0, "")
            stopped = self._search(partition, begin, until, counts_all, ctx)
            if stopped is not None:
                at, is_over, read = stopped
                place = place or (partition.key, *at)
                if is_over:
                    counts_all = False
                    left_out += self._count(partition, read + 1)
        kind = "hits" if self._output == "lines" else "documents"
        return {
            kind: self._found,
            "total": {"hits": self._hits, "documents": self._documents},
            "scanned": self._scanned,
            "left_out": min(left_out, MOST_COUNTED),
            "cursor": None if place is None else cursor_at(place),
        }

    def _search(
        self, partition: Partition, begin: tuple[int, int, str], until: float, counts_all: bool, ctx: ToolContext
    ) -> tuple[tuple[int, int, str], bool, int] | None:
        """Search one catalog: the place to go on from, whether the search ends there, and the last document that was read."""
        number, byte, digest = begin
        pattern = self._pattern
        has_about = self._output == "lines" and pattern.match is not None
        tables, column, values = self._candidates(has_about=has_about)
        about = "document.id, document.path, document.characters" if has_about else "NULL, NULL, NULL"
        asked = (
            f"SELECT {column}, length(content.text), iif(length(content.text) <= {pattern.window}, content.text, NULL), "
            f"{about} FROM {tables} AND {column} >= ? ORDER BY {column}"
        )
        full = None
        with partition.reading() as rows, closing(rows.execute(asked, (*values, number))) as candidates:
            for of, size, text, *known in candidates:
                ctx.check()
                self._scanned += 1
                is_same = of == number and byte and self._about(rows, of)[3] == digest
                start = byte if is_same else 0
                if text is not None:
                    parts = (Window((text, 0, 0, 0), size, start, pattern.window),) if size else ()
                    reached = self._search_text(rows, of, parts, known, until, ctx)
                else:
                    with closing(_Loader(rows, of)) as loader:
                        windowed = windows(loader.load, size, start, pattern, self._context)
                        reached = self._search_text(rows, of, windowed, known, until, ctx)
                if full is None:
                    if reached is not None:
                        full = (of, reached, self._about(rows, of)[3])
                    elif len(self._found) >= self._limit:
                        full = (of + 1, 0, "")
                is_over = time.monotonic() >= until
                if full is not None and (is_over or not counts_all):
                    return full, True, of
                if is_over:
                    return (of + 1, 0, ""), True, of
        return None if full is None else (full, False, 0)

    def _search_text(
        self,
        rows: sqlite3.Connection,
        number: int,
        parts: Iterable[Window],
        about: Sequence[Any],
        until: float,
        ctx: ToolContext,
    ) -> int | None:
        """Search one text; the byte to go on from, if the search stopped within it."""
        count = 0
        reached = None
        for window in parts:
            if self._output == "lines":
                found = window.spans(self._pattern, self._limit - len(self._found))
                if found:
                    about = about if about[0] is not None else self._about(rows, number)
                    count += self._add(window, found, about)
                    if len(self._found) >= self._limit or self._shown >= MOST_TEXT:
                        reached = window.reached
                        break
            elif self._output == "files":
                count = len(window.spans(self._pattern, 1))
                if count:
                    break
            else:
                count += window.count(self._pattern)
            if not window.is_last:
                ctx.check()
                if time.monotonic() >= until:
                    reached = window.reached
                    break
        if count:
            self._hits += count
            self._documents += 1
            if self._output != "lines" and len(self._found) < self._limit:
                public, path, *_ = self._about(rows, number)
                self._found.append({"document": public, "path": path} | ({"hits": count} if self._output == "counts" else {}))
        return reached

    @staticmethod
    def _about(rows: sqlite3.Connection, number: int) -> tuple[str, str, int, str]:
        asked = "SELECT id, path, characters, substr(digest, 1, 16) FROM document WHERE number = ?"
        found: tuple[str, str, int, str] = rows.execute(asked, (number,)).fetchone()
        return found

    def _add(self, window: Window, hits: Sequence[Span], about: Sequence[Any]) -> int:
        """Answer hits of a document; how many, if the text of an answer is full."""
        public, path, characters = about[:3]
        is_plain = characters == window.size
        for number, hit in enumerate(hits, 1):
            start, end = hit
            first, line = window.spot(start, is_plain=is_plain)
            behind = first + (end - start if is_plain else len(window.data[start:end].decode()))
            text = window.line(start, end)
            self._shown += len(text)
            found = {
                "document": public,
                "uri": address_of(public, first, behind),
                "path": path,
                "line": line + 1,
                "start": first,
                "end": behind,
                "text": text,
            }
            if self._context:
                found["before"], found["after"] = window.context(start, end, self._context)
                self._shown += sum(map(len, (*found["before"], *found["after"])))
            self._found.append(found)
            if self._shown >= MOST_TEXT:
                window.go_on_behind(hit)
                return number
        return len(hits)

    def _count(self, partition: Partition, number: int) -> int:
        """How many texts from a number on may hold a hit."""
        tables, column, values = self._candidates(has_text=False)
        asked = f"SELECT count(*) FROM (SELECT 1 FROM {tables} AND {column} >= ? LIMIT {MOST_COUNTED})"
        with partition.reading() as rows:
            found: int = rows.execute(asked, (*values, number)).fetchone()[0]
            return found


class _Loader:
    """Reads the text of a long document by parts."""

    def __init__(self, rows: sqlite3.Connection, number: int) -> None:
        asked = "SELECT marks, pages FROM about WHERE number = ?"
        self._spots = text_map(*rows.execute(asked, (number,)).fetchone())
        self._blob = rows.blobopen("content", "text", number, readonly=True)  # it remembers the pages that it went through

    def load(self, start: int, stop: int) -> Loaded:
        """The bytes from the last mark that is not behind `start`, to `stop`."""
        at, characters, lines = self._spots.mark_before(start)
        self._blob.seek(at)
        return self._blob.read(stop - at), at, characters, lines

    def close(self) -> None:
        self._blob.close()
