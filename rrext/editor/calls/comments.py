"""Comments in a pipeline's text that begin with given words."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from rrext.pipefile.text import tokens
from rrext.pipefile.text.problems import Span
from rrext.pipefile.text.source import SourceMap
from rrext.pipefile.text.tree import Located

_NEXT_LINE: Final = re.compile(r"[ \t]*+(?:\r\n|\r|\n)[ \t]*+")


class Comment:
    """The content of a comment, without its marks. A line comment may continue in the next line.

    `lines` are the lines read so far: the first comment, and those added by `go_on`.
    """

    def __init__(self, text: str, comments: Sequence[Span], index: int) -> None:
        """Make the comment with number `index` of `comments`, the comments between two values of `text`."""
        self._text = text
        self._comments = comments
        self._index = index
        line, start = _content(text, comments[index])
        self.lines = [line]
        self._starts: list[tuple[int, int]] = [(0, start)]

    @property
    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines)

    @property
    def span(self) -> Span:
        """The span in the document, from the first word to the last."""
        _, start = self._starts[-1]
        return self._starts[0][1], start + len(self.lines[-1])

    def place(self, span: Span) -> Span:
        """The span in the document of a span of `text`. It ends behind its last character."""
        start, end = span
        return self._offset(start), self._offset(end - 1) + 1 if end > start else self._offset(start)

    def go_on(self, unless: re.Pattern[str]) -> bool:
        """Add the comment on the next line; False if there is none, or if it begins with `unless`."""
        text, here, index = self._text, self._comments[self._index], self._index + 1
        if index >= len(self._comments) or not text.startswith("//", here[0]):
            return False
        there = self._comments[index]
        if not text.startswith("//", there[0]) or not _NEXT_LINE.fullmatch(text, here[1], there[0]):
            return False
        line, start = _content(text, there)
        if unless.match(line):
            return False
        self._index = index
        joint = self._starts[-1][0] + len(self.lines[-1]) + 1
        self.lines.append(line)
        self._starts.append((joint, start))
        return True

    def _offset(self, at: int) -> int:
        joint, start = self._starts[bisect_right(self._starts, at, key=lambda pair: pair[0]) - 1]
        return start + at - joint


def comments_with(words: re.Pattern[str], where: SourceMap) -> Iterator[Comment]:
    """The comments that begin with `words`, in the order of the text.

    Only the surroundings of matches are read. If the caller extends a comment by `go_on`, the next comment begins after it.
    """
    text, done = where.text, 0
    stretch = _Stretch(text, -1)
    for found in words.finditer(text):
        at = found.start()
        start = _gap(where, at) if at >= done else None
        if start is None:
            continue
        if start != stretch.start:
            stretch = _Stretch(text, start)
        index = stretch.comment_at(at)
        if index is None or _content(text, stretch.comments[index])[1] != at:
            continue
        comment = Comment(text, stretch.comments, index)
        yield comment
        done = comment.span[1]


class _Stretch:
    """The text between two values, scanned once for any number of queries."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._at = start
        self.start = start
        self.comments: list[Span] = []
        """The comments directly before the token that was reached."""

    def comment_at(self, offset: int) -> int | None:
        """The index of the comment around an offset, or None. Offsets of successive calls must not decrease."""
        while offset >= self._at:
            self._advance()
        index = bisect_right(self.comments, offset, key=lambda span: span[0]) - 1
        return index if index >= 0 and offset < self.comments[index][1] else None

    def _advance(self) -> None:
        """Go to the end of the next token."""
        found = tokens.TOKEN.match(self._text, self._at)
        assert found is not None  # one alternative fits everywhere
        kind = found.lastindex or tokens.END
        begin, end = found.span(kind)
        self.comments = [comment.span() for comment in tokens.COMMENTS.finditer(self._text, self._at, begin)]
        self._at = len(self._text) if kind in (tokens.END, tokens.COMMENT) else end  # a comment without end takes the rest


def _content(text: str, span: Span) -> tuple[str, int]:
    """The content of a comment and its offset."""
    start, end = span
    inside = text[start + 2 : end if text.startswith("//", start) else end - 2]
    bare = inside.lstrip()
    return bare.rstrip(), start + 2 + len(inside) - len(bare)


def _gap(where: SourceMap, offset: int) -> int | None:
    """The start of the stretch between values around an offset; None inside a key or a string."""
    place = where.at(offset)
    located = place.located
    if place.in_key:
        return None
    if not located.start <= offset <= located.end:  # between a key and its value, or outside of the value
        if located.key_span is not None:
            return located.key_span[1]
        return 0 if offset < located.start else located.end
    if located.kind in ("object", "array"):
        return _last_end(located, offset, where.text)
    if located.kind == "hole":
        return located.start if located.key_span is None else located.key_span[1]
    return None


def _last_end(located: Located, offset: int, text: str) -> int:
    """The end of the last child before an offset, in an object or a list."""
    index = bisect_right(located.children, offset, key=lambda child: child.end) - 1
    if index >= 0:
        return located.children[index].end
    return located.start + (text[located.start : located.start + 1] in ("{", "["))
