"""Text into pieces while it arrives: each piece goes out as soon as it is final, and the memory stays bounded.

The positions of cuts depend on the text alone, not on the parts in which it arrived. Without overlap the pieces joined are
the text again, but for pieces of white space alone, which are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from rrext.nodes.documents.boundaries import LOOKAHEAD, Cut, by_characters, by_code, by_sentences, safe_cut
from rrext.nodes.documents.measures import Measure
from rrext.nodes.documents.outline import Outline
from rrext.nodes.documents.tables import is_rule

HEADER_LINES: Final = 2
"""A Markdown table begins with its columns' names and a rule."""

STRATEGIES: dict[str, Cut] = {
    "characters": by_characters,
    "sentences": by_sentences,
    "markdown": by_characters,
    "code": by_code,
}
"""Strategy -> its cuts in texts that are too long. `markdown` also cuts before every heading."""


class Passage(msgspec.Struct, frozen=True):
    """A piece of a text. `start` is where it begins, in characters from 0, and `line` the line there, from 1.

    `headings` are those that it stands under, the highest first; of Markdown alone.
    """

    text: str
    start: int
    line: int
    headings: tuple[str, ...] = ()


class Splitter:
    """Splits one text. `overlap` units of each piece stand again before the next one, but never across a heading."""

    def __init__(self, strategy: str, measure: Measure, overlap: int = 0) -> None:
        self._cut = STRATEGIES[strategy]
        self._measure = measure
        self._overlap = overlap
        self._outline = Outline() if strategy == "markdown" else None
        self._parts: list[str] = []  # parts that arrived and are not yet joined to the text
        self._waiting = 0
        self._text = ""
        self._at = 0
        self._prefix = ""
        self._start = 0
        self._line = 1

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings above the next piece."""
        if self._outline is None:
            return ()
        rest = self._text[self._at :] + "".join(self._parts)
        outline = self._outline.copy()
        outline.advance(rest, len(rest))
        return outline.headings

    def feed(self, text: str) -> Iterator[Passage]:
        """Add text and return the pieces that are final now. Take them before the next call."""
        self._parts.append(text)
        self._waiting += len(text)
        window = self._measure.reach + LOOKAHEAD
        if self._waiting <= window:
            return
        self._join()
        while len(self._text) - self._at > window:
            yield from self._next(self._text[self._at : self._at + window], is_end=False)
        self._trim()

    def finish(self) -> Iterator[Passage]:
        """Return the rest. The splitter is not used again."""
        self._join()
        window = self._measure.reach + LOOKAHEAD
        while self._at < len(self._text):
            is_end = len(self._text) - self._at <= window
            yield from self._next(self._text[self._at : self._at + window], is_end=is_end)

    def _join(self) -> None:
        self._text = self._text[self._at :] + "".join(self._parts)
        self._at = 0
        self._parts.clear()

    def _trim(self) -> None:
        self._text = self._text[self._at :]
        self._at = 0
        self._waiting = len(self._text)

    def _next(self, window: str, *, is_end: bool) -> Iterator[Passage]:
        cut, ends_section = self._where(window, is_end=is_end)
        body = window[:cut]
        if self._outline is not None:
            self._outline.advance(window, cut)
        text = self._prefix + body
        if body.strip():
            before = len(self._prefix)
            line = self._line - self._prefix.count("\n")
            yield Passage(text, self._start - before, line, self._outline.headings if self._outline else ())
        self._at += cut
        self._start += cut
        self._line += body.count("\n")
        self._prefix = "" if ends_section else self._tail(body)

    def _where(self, window: str, *, is_end: bool) -> tuple[int, bool]:
        """The position of the next cut, and whether a section ends there."""
        limit = self._measure.fit(self._prefix + window) - len(self._prefix)
        if limit < 1:  # a tokenizer may see more in a text that something stands before
            self._prefix = ""
            limit = self._measure.fit(window)
        while True:
            section = self._outline.section_end(window, min(limit, len(window) - 1)) if self._outline else 0
            if section:
                cut = section
            elif is_end and len(window) <= limit:
                cut = len(window)
            else:
                cut = self._cut(window, min(limit, len(window)))
            if cut == 1 or self._measure.fits(self._prefix + window[:cut]):
                return cut, section > 0
            limit = cut - max(cut // 16, 1)  # the tokens of a part are not always part of the tokens

    def _tail(self, body: str) -> str:
        """The end of a piece that is repeated before the next one: whole lines of code, whole words, if there are any."""
        if not self._overlap:
            return ""
        begin = len(body) - self._measure.tail(body, self._overlap)
        line = body.find("\n", max(begin - 1, 0), -1) + 1 if self._cut is by_code else 0
        if line:
            begin = line
        elif begin and not body[begin - 1].isspace():
            blank = next((n for n in range(begin, len(body) - 1) if body[n].isspace()), None)
            begin = blank + 1 if blank is not None else _next_cut(body, begin)
        return body[begin:]


def _next_cut(text: str, begin: int) -> int:
    """The first position from `begin` on that is between two visible characters."""
    return next((cut for cut in range(begin, len(text)) if safe_cut(text, cut) == cut), len(text))


def table_parts(table: str, measure: Measure) -> Iterator[str]:
    """Split a Markdown table into tables within the size, each with the columns' names; a longer row is cut as text."""
    if measure.fits(table):
        yield table
        return
    lines = [line for line in table.splitlines(keepends=True) if line.strip()]
    has_header = len(lines) >= HEADER_LINES and is_rule(lines[1])
    header = "".join(lines[:HEADER_LINES]) if has_header else ""
    if not measure.fits(header):
        header = ""
    part, is_named = header, not header
    for line in lines[HEADER_LINES if header else 0 :]:
        if part != header and not measure.fits(part + line):
            yield part
            part, is_named = header, True
        if measure.fits(part + line):
            part += line
            continue
        if not is_named:
            yield header
            is_named = True
        yield from _row_parts(line, measure)
    if part != header or not is_named:
        yield part


def _row_parts(line: str, measure: Measure) -> Iterator[str]:
    splitter = Splitter("characters", measure)
    for passage in (*splitter.feed(line), *splitter.finish()):
        yield passage.text
