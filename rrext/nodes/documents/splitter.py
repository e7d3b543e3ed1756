"""Text into pieces while it arrives: each piece goes out as soon as it is final, and the memory stays bounded.

The positions of cuts depend on the text alone, not on the parts in which it arrived. Without overlap the pieces joined
are the text again, but for pieces of white space alone, which are left out.

A cut stands between paragraphs, lines, sentences, words or blocks of code, before every heading of Markdown, and never
inside a character. Every function that finds one gets a window of text and the last position allowed, and reads nothing
else; `LOOKAHEAD` characters after the last position are enough for all. Pieces are measured in characters, tokens of a
tokenizer, or estimated tokens.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import msgspec

from rrext.nodes.documents.formats import is_rule

if TYPE_CHECKING:
    from tokenizers import Tokenizer


HEADER_LINES: Final = 2
"""A Markdown table begins with its columns' names and a rule."""


def by_characters(window: str, limit: int) -> int:
    """Cut at the best position of the second half: after a paragraph, else a line, else a sentence, else a word."""
    least = max(limit // 2, 1)
    return (
        _last(_BLANK_LINE, window, least, limit)
        or _last_line(window, least, limit)
        or _last_sentence(window, least, limit)
        or by_words(window, limit)
    )


def by_sentences(window: str, limit: int) -> int:
    """Cut after the last sentence within the limit; a single longer sentence is cut between words."""
    return _last_sentence(window, 1, limit) or by_words(window, limit)


def by_code(window: str, limit: int) -> int:
    """Cut before an unindented line after a blank one, so between definitions; else as text, without sentences."""
    return (
        _last(_BLOCK, window, max(limit // 4, 1), limit)
        or _last(_BLANK_LINE, window, max(limit // 2, 1), limit)
        or _last_line(window, 1, limit)
        or by_words(window, limit)
    )


STRATEGIES: dict[str, Cut] = {
    "characters": by_characters,
    "sentences": by_sentences,
    "markdown": by_characters,
    "code": by_code,
}
"""Strategy -> its cuts in texts that are too long. `markdown` also cuts before every heading."""


class Passage(msgspec.Struct, frozen=True):
    """A piece of a text: its characters from `start` to `end`, from 0, which begin on the line `line`, from 1.

    `headings` are those that it stands under, the highest first; of Markdown alone.
    """

    text: str
    start: int
    end: int
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
            start, line = self._start - len(self._prefix), self._line - self._prefix.count("\n")
            yield Passage(text, start, self._start + cut, line, self._outline.headings if self._outline else ())
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


LOOKAHEAD: Final = 256
"""Characters that are looked at behind a cut: the next word's begin, a heading's line."""

LONGEST_CLUSTER: Final = 64
"""Characters that may make up one that a person sees; a flag has 2, a family 11. Longer ones are cut."""

Cut: TypeAlias = Callable[[str, int], int]
"""(window, limit) -> position of the cut, from 1 to limit. The window is longer than limit: shorter texts are not cut."""

_JOINER: Final = "\u200d"
_SENTENCE_END: Final = re.compile(r"""[.!?…]{1,8}["'”’»)\]]{0,4}\s+|[。！？]{1,8}[」』”’）]{0,4}\s*|\n[ \t]{0,80}\n\s*""")
_BLOCK: Final = re.compile(r"\n[ \t]{0,80}\n(?=[^\s})\]])")
_BLANK_LINE: Final = re.compile(r"\n[ \t]{0,80}\n+")
_BLANK: Final = re.compile(r"\s(?=\S)")


def by_words(window: str, limit: int) -> int:
    """Cut after the last blank of the second half, else between two characters."""
    return _last(_BLANK, window, max(limit // 2, 1), limit) or safe_cut(window, limit)


def safe_cut(window: str, limit: int) -> int:
    """The last position up to `limit` that is between two visible characters, if there is one near."""
    for cut in range(limit, max(limit - LONGEST_CLUSTER, 0), -1):
        if not _joins(window, cut):
            return cut
    return limit


def _joins(text: str, at: int) -> bool:
    """Whether the code points before and after a position form one visible character."""
    if not 0 < at < len(text):
        return False
    before, behind = text[at - 1], text[at]
    if behind < "\u0300":
        return before == "\r" and behind == "\n"
    if before == _JOINER or behind == _JOINER or unicodedata.category(behind) in ("Mn", "Me", "Mc"):
        return True
    if "\U0001f3fb" <= behind <= "\U0001f3ff":  # colours of skin
        return True
    return _is_regional(behind) and _regional_before(text, at) % 2 == 1


def _is_regional(character: str) -> bool:
    """Whether a code point is half of a flag."""
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _regional_before(text: str, at: int) -> int:
    count = 0
    while count < at and _is_regional(text[at - count - 1]):
        count += 1
    return count


def _last(pattern: re.Pattern[str], window: str, least: int, limit: int) -> int:
    """The end of the last match from `least` to `limit`; 0 if there is none."""
    found = 0
    for match in pattern.finditer(window, max(least - 2, 0), min(limit + 2, len(window))):
        if least <= match.end() <= limit:
            found = match.end()
    return found


def _last_line(window: str, least: int, limit: int) -> int:
    end = window.rfind("\n", least - 1, limit)
    return end + 1


def _last_sentence(window: str, least: int, limit: int) -> int:
    found = 0
    for end in _sentence_ends(window, limit):
        if least <= end <= limit:
            found = end
    return found


def _sentence_ends(window: str, limit: int) -> Iterator[int]:
    """The ends of sentences. A small letter after a dot shows that the dot belongs to an abbreviation."""
    for match in _SENTENCE_END.finditer(window, 0, min(limit + LOOKAHEAD, len(window))):
        end = match.end()
        if not (match[0][0] in ".…" and window[end : end + 1].islower()):
            yield end


LONGEST_TITLE: Final = 200
"""Characters of a heading that are kept; more is no heading, and would stand in every chunk below it."""

_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+|$)([^\n]*)")
_FENCE: Final = re.compile(r" {0,3}(```|~~~)")
_CLOSING: Final = re.compile(r"[ \t]+#+[ \t]*$")

assert LONGEST_TITLE < LOOKAHEAD


class Outline:
    """Follows a Markdown text piece by piece. `headings` are those above the end of what was passed."""

    def __init__(self) -> None:
        self._fence = ""
        self._is_line_begin = True
        self._stack: list[tuple[int, str]] = []

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings above the current position, the highest first."""
        return tuple(title for _, title in self._stack)

    def section_end(self, window: str, limit: int) -> int:
        """The end of the first section of the window, up to `limit`; 0 if it goes on. Headings in a row are one section."""
        fence, has_text = self._fence, not self._is_line_begin and bool(window[: window.find("\n")].strip())
        for begin, end in self._lines(window, limit):
            line = window[begin:end]
            if not fence and _HEADING.match(line):
                if has_text:
                    return begin
                continue
            fence = _after(fence, line)
            has_text = has_text or bool(line.strip())
        return 0

    def advance(self, window: str, cut: int) -> None:
        """Advance by `cut` characters. The window shows the text after them, in case a heading is cut."""
        for begin, end in self._lines(window, cut - 1):
            line = window[begin:end]
            heading = None if self._fence else _HEADING.match(line)
            if heading is not None:
                self._enter(len(heading[1]), _CLOSING.sub("", heading[2])[:LONGEST_TITLE].strip())
            else:
                self._fence = _after(self._fence, line)
        if cut:
            self._is_line_begin = window[cut - 1] == "\n"

    def copy(self) -> Outline:
        """Make another outline at the same position."""
        other = Outline()
        other._fence, other._is_line_begin, other._stack = self._fence, self._is_line_begin, list(self._stack)
        return other

    def _lines(self, window: str, last: int) -> Iterator[tuple[int, int]]:
        """Begin and end of each line that begins in the window, up to `last`; of a long line, only the relevant part."""
        begin = 0 if self._is_line_begin else window.find("\n") + 1
        if begin == 0 and not self._is_line_begin:
            return
        while begin <= last and begin < len(window):
            end = window.find("\n", begin)
            end = len(window) if end < 0 else end
            yield begin, min(end, begin + LOOKAHEAD)
            begin = end + 1

    def _enter(self, level: int, title: str) -> None:
        while self._stack and self._stack[-1][0] >= level:
            self._stack.pop()
        self._stack.append((level, title))


def _after(fence: str, line: str) -> str:
    """The fence that is open after a line: its mark, or "" for none."""
    mark = _FENCE.match(line)
    if mark is None:
        return fence
    if not fence:
        return mark[1]
    return "" if mark[1] == fence else fence


LONGEST: Final = 200_000
"""Characters of one piece, whatever its size in tokens: a store takes no more."""

BYTES_PER_TOKEN: Final = 4
"""UTF-8 bytes of an estimated token: what common vocabularies need for English prose, and more than for most else."""

CHARACTERS_PER_TOKEN: Final = 16
"""Characters of text that are looked at for each token of the size. Prose has 4; long runs of blanks have more."""


class Measure(Protocol):
    """A unit of size and its maximum."""

    @property
    def reach(self) -> int: ...

    def fit(self, text: str) -> int:
        """The length of the longest prefix within the size."""
        ...

    def fits(self, text: str) -> bool:
        """Whether the text is within the size."""
        ...

    def tail(self, text: str, overlap: int) -> int:
        """The length of the longest suffix within `overlap` units."""
        ...


class Characters:
    """Sizes in characters, as Python counts them: code points."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.reach = min(size, LONGEST)

    def fit(self, text: str) -> int:
        return min(len(text), self.reach)

    def fits(self, text: str) -> bool:
        return len(text) <= self.reach

    def tail(self, text: str, overlap: int) -> int:
        return min(len(text), overlap)


class EstimatedTokens:
    """Sizes in estimated tokens, for want of a tokenizer: four bytes of UTF-8 each."""

    def __init__(self, size: int) -> None:
        self._bytes = size * BYTES_PER_TOKEN
        self.reach = min(self._bytes, LONGEST)

    def fit(self, text: str) -> int:
        return len(text[: self.reach].encode("utf-8")[: self._bytes].decode("utf-8", "ignore"))

    def fits(self, text: str) -> bool:
        return len(text) <= self.reach and len(text.encode("utf-8")) <= self._bytes

    def tail(self, text: str, overlap: int) -> int:
        count = overlap * BYTES_PER_TOKEN
        if not count:
            return 0
        return len(text[-count:].encode("utf-8")[-count:].decode("utf-8", "ignore"))


class Tokens:
    """Sizes in tokens of a tokenizer, without the special ones that a model adds to each text."""

    def __init__(self, size: int, tokenizer: Tokenizer) -> None:
        self._size = size
        self._tokenizer = tokenizer
        self.reach = min(size * CHARACTERS_PER_TOKEN, LONGEST)

    def fit(self, text: str) -> int:
        text = text[: self.reach]
        starts = self._starts(text)
        return len(text) if len(starts) <= self._size else max(starts[self._size], 1)

    def fits(self, text: str) -> bool:
        return len(text) <= self.reach and len(self._starts(text)) <= self._size

    def tail(self, text: str, overlap: int) -> int:
        if not overlap:
            return 0
        text = text[-overlap * CHARACTERS_PER_TOKEN :]
        starts = self._starts(text)
        return len(text) if len(starts) <= overlap else len(text) - starts[-overlap]

    def _starts(self, text: str) -> list[int]:
        """The start of each token."""
        return [start for start, _ in self._tokenizer.encode(text, add_special_tokens=False).offsets]
