"""Handler of `grep_documents`: the index names the texts that may hold a hit, and RE2 searches those, on bytes.

A hit is within one line. Texts are searched by windows of whole lines, so a document takes as much memory as a window.
"""

from __future__ import annotations

import re
import sqlite3
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Annotated, Any, Final, Literal

import msgspec

from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.knowledge.addresses import address_of
from rrext.nodes.knowledge.grams import match_of, reason_of
from rrext.nodes.knowledge.library import View
from rrext.nodes.knowledge.partition import JOINED, MARK, Partition
from rrext.nodes.knowledge.required_literals import match_of_regex
from rrext.nodes.knowledge.selection import Selection
from rrext.nodes.vectors.checked_input import cursor_at, place_of
from rrext.tools.context import ToolContext

Output = Literal["lines", "counts", "files"]

LONGEST_PATTERN: Final = 2000
"""Characters of a pattern."""
MOST_INSTRUCTIONS: Final = 5000
"""Instructions that RE2 makes of a pattern: at worst each byte of a text takes time in proportion."""
MEMORY: Final = 8 << 20
"""Bytes that RE2 may use for a pattern."""
WINDOW: Final = (1 << 16, 1 << 20)
"""Bytes of a text that are searched between two looks at the clock; less for patterns of more instructions."""
WORK: Final = WINDOW[0] * MOST_INSTRUCTIONS
"""Bytes times instructions in a window."""
LONG_LITERAL: Final = 4
"""Bytes from which on a literal is searched without RE2, which finds shorter literals faster."""
OVERLAP: Final = 4096
"""Bytes that a hit has at most that crosses the end of a window within a line longer than the window."""
LINE: Final = 500
"""Characters of a line that an answer shows."""
MOST_CONTEXT: Final = 20
"""Lines before and after a hit."""
MOST_TEXT: Final = 200_000
"""Characters of lines in one answer."""
SECONDS: Final = 2.0
"""How long one call searches; its cursor goes on from there."""

MOST_COUNTED: Final = 1000
"""Documents up to which those that are left out are counted: a page of hits of a common word takes less time than that."""

Number = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
PLACE: Final = msgspec.json.Decoder(tuple[str, Number, Number, str])
"""Reads a catalog, a document in it, the byte to go on from, and the digest of the text that this is about."""
START: Final[tuple[str, int, int, str]] = ("", 0, 0, "")


class Pattern:
    """A compiled pattern, and the query for the texts that it may fit."""

    def __init__(self, pattern: str, *, is_regex: bool, ignores_case: bool) -> None:
        """Raises `InvalidArguments` for what is no pattern, `ToolError` (`pattern_too_expensive`) for a costly one."""
        import re2

        at = "/input/pattern"
        if not pattern or len(pattern) > LONGEST_PATTERN:
            raise InvalidArguments.at(at, f"expected 1 to {LONGEST_PATTERN:,} characters")
        try:
            encoded = pattern.encode()
        except UnicodeEncodeError:
            raise InvalidArguments.at(at, "holds half of a surrogate pair, which is no text") from None
        if "\n" in pattern:
            raise InvalidArguments.at(at, "holds the end of a line", hint="A hit is within one line: search for one of them.")
        options = re2.Options()
        options.log_errors = False
        options.never_nl = True
        options.never_capture = True
        options.max_mem = MEMORY
        options.case_sensitive = not ignores_case
        options.literal = not is_regex
        try:
            compiled = re2.compile(encoded, options)
            if is_regex:
                self._check(pattern)
                compiled = re2.compile(b"(?m)" + encoded, options)
            instructions = compiled.programsize
        except re2.error as error:
            told = reason_of(error)
            if "too large" in told:
                raise _too_expensive(told) from None
            raise InvalidArguments.at(at, told, hint="The syntax is that of RE2, without look-around and \\1.") from None
        if instructions > MOST_INSTRUCTIONS:
            raise _too_expensive(f"{instructions:,} instructions, at most {MOST_INSTRUCTIONS:,}")
        self._compiled = compiled
        self._literal = encoded if len(encoded) >= LONG_LITERAL and not is_regex and not ignores_case else None
        self.match = match_of_regex(pattern) if is_regex else match_of([pattern])
        self.window = min(WINDOW[1], max(WINDOW[0], WORK // max(1, instructions)))

    def find(self, data: bytes, start: int = 0, stop: int = sys.maxsize) -> tuple[int, int] | None:
        """Where the first hit from `start` on begins and ends, if it ends by `stop`."""
        if self._literal is not None:  # a tenth of the time of a call of RE2
            at = data.find(self._literal, start, stop)
            return None if at < 0 else (at, at + len(self._literal))
        found = self._compiled.search(data, start, stop)
        return None if found is None else found.span()

    @staticmethod
    def _check(pattern: str) -> None:
        escapes = {found[1] for found in re.finditer(r"\\Q.*?(?:\\E|\Z)|\\(.)", pattern, re.DOTALL)}
        if strange := escapes & {"A", "z", "C"}:
            raise InvalidArguments.at(
                "/input/pattern", f'"\\{min(strange)}" is not supported', hint="^ and $ are the ends of a line."
            )
        if re.search(r"\(\?[a-zA-Z]*-[a-zA-Z]*m", pattern):
            raise InvalidArguments.at("/input/pattern", "^ and $ are always the ends of a line: leave out the flag -m")


def _too_expensive(why: str) -> ToolError:
    return ToolError(
        f"The pattern is too expensive: {why}",
        code="pattern_too_expensive",
        hint="Use smaller repetitions and fewer classes such as \\pL.",
        data={"limit": "MOST_INSTRUCTIONS", "maximum": MOST_INSTRUCTIONS},
    )


class DocumentText:
    """The text of a document, a window at a time."""

    __slots__ = ("_blob", "_counted", "_is_whole", "_marked", "_rows", "at", "data", "number", "reached", "size")

    def __init__(self, rows: sqlite3.Connection | None, number: int, size: int, text: bytes | None) -> None:
        """`text` is given if it is no longer than a window, or is in memory anyway."""
        self._rows = rows
        self.number = number
        self.size = size
        self._is_whole = text is not None
        self.data = text or b""
        self.at = 0
        """The byte at which the data begin."""
        self.reached = 0
        """The byte from which to go on."""
        self._blob: sqlite3.Blob | None = None
        self._marked = (0, 0)
        self._counted: tuple[int, int, int] = (0, 0, 0)

    def hits(
        self, pattern: Pattern, begin: int, margin: int, found: tuple[int, int] | None = None
    ) -> Generator[tuple[int, int] | None, None, None]:
        """The hits from a byte on, as places in `data`; None at the end of each window. `margin` bytes around are loaded.

        `found` is the first hit in a text of one window, if it is known.
        """
        self.reached = begin
        end = -1
        try:
            while end < self.size - self.at and self.reached <= self.size > 0:
                first, end, stop = self._load(pattern.window, margin)
                is_closed = self.data[end - 1 : end] == b"\n" or stop > end
                found = found or pattern.find(self.data, first, stop)
                while found is not None:
                    start, behind = found
                    if start >= end and (is_closed or start > end):
                        break
                    first = behind if behind > start else self._after(start)
                    self.reached = self.at + first
                    yield found
                    found = pattern.find(self.data, first, stop) if first <= stop else None
                found = None
                self.reached = max(self.reached, self.at + end)
                yield None
        finally:
            if self._blob is not None:
                self._blob.close()

    def _after(self, at: int) -> int:
        """The place of the next character."""
        at += 1
        while at < len(self.data) and self.data[at] & 0xC0 == 0x80:
            at += 1
        return at

    def _load(self, window: int, margin: int) -> tuple[int, int, int]:
        """Load what is around `reached`: where the window begins and ends in it, and where its last hit may end."""
        if not self._is_whole:
            assert self._rows is not None, "who has no rows has the text"
            if self._blob is None:  # one for all windows: it remembers the pages that it went through
                self._blob = self._rows.blobopen("content", "text", self.number, readonly=True)
            found = self._rows.execute("SELECT marks FROM about WHERE number = ?", (self.number,)).fetchone()
            marks = memoryview(found[0]).cast("Q")
            mark = (len(marks) // 2 - 1) if self.reached else 0
            low = 0
            while low < mark:  # the last mark that is not behind the margin
                middle = (low + mark + 1) // 2
                low, mark = (middle, mark) if marks[2 * middle] <= max(0, self.reached - margin - 4) else (low, middle - 1)
            self.at, newlines = marks[2 * low], marks[2 * low + 1]
            self._marked = (low * MARK, newlines)
            self._blob.seek(self.at)
            self.data = self._blob.read(min(self.size, self.reached + window + OVERLAP + margin) - self.at)
        self._counted = (0, self._marked[0], self._marked[1])
        first = self._character(self.reached - self.at)
        end = self.size - self.at
        if end - first <= window:
            return first, end, end
        end = self.data.rfind(b"\n", first, first + window) + 1
        if end:
            return first, end, end
        end = self._character(first + window)
        line_end = self.data.find(b"\n", end, end + OVERLAP)
        return first, end, line_end + 1 if line_end >= 0 else self._character(min(len(self.data), end + OVERLAP))

    def _character(self, at: int) -> int:
        """The beginning of the character at a place."""
        while 0 < at < len(self.data) and self.data[at] & 0xC0 == 0x80:
            at -= 1
        return at

    def spot(self, at: int, *, is_plain: bool) -> tuple[int, int]:
        """The character and the line, from 0, of a place in the data. Places are asked from left to right."""
        last, characters, lines = self._counted
        characters += at - last if is_plain else len(self.data[last:at].decode())
        lines += self.data.count(b"\n", last, at)
        self._counted = (at, characters, lines)
        return characters, lines

    def line(self, start: int, end: int) -> str:
        """The line of a hit, of a long one the part around it."""
        line_start = self.data.rfind(b"\n", 0, start) + 1
        line_end = self.data.find(b"\n", end)
        if 0 <= line_end <= line_start + LINE and (line_start or not self.at):
            return self.data[line_start:line_end].decode().removesuffix("\r")
        reach = 4 * LINE
        hit = self.data[start : min(end, start + reach)].decode(errors="ignore")
        line_start = self.data.rfind(b"\n", max(0, start - reach), start) + 1 or max(0, start - reach)
        line_end = self.data.find(b"\n", end, end + reach)
        if line_end < 0:
            line_end = min(len(self.data), end + reach)
        before = self.data[line_start:start].decode(errors="ignore")
        after = self.data[end:line_end].decode(errors="ignore").removesuffix("\r")
        room = max(0, LINE - len(hit))
        kept = before[max(0, len(before) - max(room // 2, room - len(after))) :] if room else ""
        shown = f"{kept}{hit}{after}"[:LINE]
        is_begun = len(kept) < len(before) or (self.at + line_start > 0 and self.data[line_start - 1 : line_start] != b"\n")
        is_cut = len(kept) + (end - start and len(hit)) + len(after) > LINE or not self._ends(line_end)
        return f"{'…' if is_begun else ''}{shown}{'…' if is_cut else ''}"

    def _ends(self, at: int) -> bool:
        return self.data[at : at + 1] == b"\n" or self.at + at >= self.size

    def context(self, start: int, end: int, count: int) -> tuple[list[str], list[str]]:
        """So many lines before the line of a hit and after it, as far as they are loaded."""
        before: list[str] = []
        edge = self.data.rfind(b"\n", 0, start) + 1
        while len(before) < count and edge > 0:
            above = self.data.rfind(b"\n", 0, edge - 1) + 1
            before.append(self._shown(above, edge - 1))
            edge = above
        after: list[str] = []
        edge = self.data.find(b"\n", end) + 1
        while len(after) < count and 0 < edge < len(self.data):
            below = self.data.find(b"\n", edge)
            after.append(self._shown(edge, below if below >= 0 else len(self.data)))
            edge = below + 1
        return before[::-1], after

    def _shown(self, start: int, end: int) -> str:
        text = self.data[start : min(end, start + 4 * LINE + 4)].decode(errors="ignore").removesuffix("\r")
        return text if len(text) <= LINE else f"{text[:LINE]}…"


class Grep:
    """One search for a pattern in the catalogs of a view."""

    def __init__(
        self, pattern: Pattern, output: Output, context: int, selection: Selection, documents: Sequence[str], limit: int
    ) -> None:
        self._pattern = pattern
        self._output = output
        self._context = context
        self._limit = limit
        self._margin = (context + 1) * (4 * LINE + 4)
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

    def _candidates(self, *, is_about: bool = False) -> tuple[str, str, list[Any]]:
        """The tables of the texts that may hold a hit, the column of their numbers, and the values of the condition.

        `is_about`: those that the index names come with the table of documents.
        """
        if self._pattern.match is None:
            if self._is_narrow:
                inner = f"SELECT document.number FROM {JOINED} WHERE {self._condition}"
                return f"content WHERE content.number IN ({inner})", "content.number", self._values
            return "content WHERE true", "content.number", []
        joined = f"CROSS JOIN {JOINED}" if self._is_narrow else "CROSS JOIN document" if is_about else ""
        narrowed = f"document.number = grams.rowid AND {self._condition}" if joined else "true"
        # the index comes first: asked for one row at a time it would begin anew for each
        tables = f"grams {joined} CROSS JOIN content ON content.number = grams.rowid WHERE grams MATCH ? AND {narrowed}"
        return tables, "grams.rowid", [self._pattern.match, *self._values]

    def run(self, view: View, cursor: str | None, ctx: ToolContext) -> dict[str, Any]:
        """Search until enough is found, the time is over, or nothing is left."""
        key, number, byte, digest = place_of(cursor, PLACE, START)
        place = None
        until = time.monotonic() + SECONDS
        counts_all = self._output == "counts" and cursor is None
        partitions = [*view.behind(key)]
        left_out = 0
        for partition in partitions:
            if place is not None and not counts_all:
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
        is_about = self._output == "lines" and self._pattern.match is not None
        tables, column, values = self._candidates(is_about=is_about)
        about = "document.id, document.path, document.characters" if is_about else "NULL, NULL, NULL"
        asked = (
            f"SELECT {column}, length(content.text), iif(length(content.text) <= {self._pattern.window}, content.text, NULL), "
            f"{about} FROM {tables} AND {column} >= ? ORDER BY {column}"
        )
        full = None
        with partition.reading() as rows, closing(rows.execute(asked, (*values, number))) as candidates:
            for of, size, text, *known in candidates:
                ctx.check()
                hit = None
                if text is not None and of != number:
                    hit = self._pattern.find(text)
                    if hit is None and time.monotonic() < until:
                        self._scanned += 1  # most of what the index named wrongly ends here
                        continue
                document = DocumentText(rows, of, size, text)
                is_same = of == number and byte and self._digest(rows, of) == digest
                self._scanned += 1
                stopped = self._search_text(rows, document, byte if is_same else 0, hit, known, until, ctx)
                if stopped and full is None:
                    full = (of, document.reached, self._digest(rows, of))
                elif full is None and len(self._found) >= self._limit:
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
        document: DocumentText,
        begin: int,
        found: tuple[int, int] | None,
        about: Sequence[Any],
        until: float,
        ctx: ToolContext,
    ) -> bool:
        """Search one text, whose first hit is `found` if that is known; whether the search stopped within it."""
        count = 0
        is_stopped = False
        with closing(document.hits(self._pattern, begin, self._margin, found)) as hits:
            for hit in hits:
                if hit is None:
                    ctx.check()
                    if document.reached < document.size and time.monotonic() >= until:
                        is_stopped = True
                        break
                    continue
                count += 1
                if self._output == "files":
                    break
                if self._output == "lines":
                    if about[0] is None:
                        about = self._about(rows, document.number)
                    self._add(document, hit, about)
                    if len(self._found) >= self._limit or self._shown >= MOST_TEXT:
                        is_stopped = True
                        break
        self._hits += count
        self._documents += bool(count)
        if count and self._output != "lines" and len(self._found) < self._limit:
            public, path, _ = self._about(rows, document.number)
            self._found.append({"document": public, "path": path} | ({"hits": count} if self._output == "counts" else {}))
        return is_stopped

    @staticmethod
    def _about(rows: sqlite3.Connection, number: int) -> tuple[str, str, int]:
        asked = "SELECT id, path, characters FROM document WHERE number = ?"
        found: tuple[str, str, int] = rows.execute(asked, (number,)).fetchone()
        return found

    @staticmethod
    def _digest(rows: sqlite3.Connection, number: int) -> str:
        found: tuple[str] = rows.execute("SELECT substr(digest, 1, 16) FROM document WHERE number = ?", (number,)).fetchone()
        return found[0]

    def _add(self, document: DocumentText, hit: tuple[int, int], about: Sequence[Any]) -> None:
        start, end = hit
        public, path, characters = about
        is_plain = characters == document.size
        first, line = document.spot(start, is_plain=is_plain)
        behind = first + (end - start if is_plain else len(document.data[start:end].decode()))
        text = document.line(start, end)
        self._shown += len(text)
        found = {"document": public, "uri": address_of(public, first, behind), "path": path, "line": line + 1}
        found |= {"start": first, "end": behind, "text": text}
        if self._context:
            found["before"], found["after"] = document.context(start, end, self._context)
            self._shown += sum(map(len, (*found["before"], *found["after"])))
        self._found.append(found)

    def _count(self, partition: Partition, number: int) -> int:
        """How many texts from a number on may hold a hit."""
        tables, column, values = self._candidates()
        if self._pattern.match is not None:
            tables = tables.replace("CROSS JOIN content ON content.number = grams.rowid ", "")
        asked = f"SELECT count(*) FROM (SELECT 1 FROM {tables} AND {column} >= ? LIMIT {MOST_COUNTED})"
        with partition.reading() as rows:
            found: int = rows.execute(asked, (*values, number)).fetchone()[0]
            return found
