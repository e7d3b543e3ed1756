"""The formatting of a document: other blanks between its tokens, and nothing else.

A list or object that the author spread over lines gets a line for each element; another one stays on its line if it fits.
Comments keep their place: on a line of their own, at the end of a line, or before a value. Single blank lines stay. A text
formatted twice is a text formatted once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from rrext.columns import columns
from rrext.editor.edits import Edit
from rrext.pipefile.text.problems import Span
from rrext.pipefile.text.source import parse

FORMAT_WIDTH: Final = 120
"""Columns of a line up to which a formatted list or object stays on it; components of one line have about a hundred."""

Kind: TypeAlias = Literal["open", "close", "comma", "colon", "value", "line", "block"]

_TOKEN: Final = re.compile(
    r'(?P<value>"(?:[^"\\]|\\.)*+"|[^\s{}\[\],:"/]++)|(?P<line>//[^\r\n]*+)|(?P<block>/\*(?:[^*]++|\*(?!/))*+\*/)'
    r"|(?P<open>[{\[])|(?P<close>[}\]])|(?P<comma>,)|(?P<colon>:)"
)
_NEWLINE: Final = re.compile(r"\r\n|\r|\n")
_COMMENTS: Final = ("line", "block")
_MEANT: Final = frozenset({"duplicate_key"})
"""Codes of problems of a text that is well-formed."""


class _Token(msgspec.Struct, frozen=True, gc=False):
    kind: Kind
    start: int
    end: int


def formatted(text: str, indent: str, within: Span | None = None) -> list[Edit]:
    """The edits that format a text; none for a text that is not well-formed. Each replaces the blanks before one token.

    With `within`, only the tokens in a span get other blanks, as they would have in the whole text.
    """
    read = parse(text)
    if not read.complete or any(problem.code not in _MEANT for problem in read.problems):
        return []
    found = [edit for edit in _Formatter(text, indent).gaps() if text[edit.start : edit.end] != edit.text]
    return found if within is None else [edit for edit in found if within[0] <= edit.end <= within[1]]


class _Formatter:
    """One run over the tokens of a well-formed text."""

    def __init__(self, text: str, indent: str) -> None:
        self._text = text
        self._indent = indent
        self._tokens = [_Token(match.lastgroup, *match.span()) for match in _TOKEN.finditer(text)]  # pyright: ignore[reportArgumentType]
        self._ends = self._partners()
        self._newline = self._usual_newline()
        self._pad = " " if self._is_padded() else ""
        self._widths = self._inline_widths()
        self._next = self._next_solids()
        self._lines: list[bool] = []
        """Of each open list or object: whether its elements stand on lines of their own."""

    def gaps(self) -> Iterator[Edit]:
        """The blanks before each token as they should be, and those at the end."""
        column, end, solid = 0, 0, None
        for index, token in enumerate(self._tokens):
            gap = self._gap(index, solid)
            yield Edit(end, token.start, gap)
            column = self._column(column, gap)
            if token.kind == "open":
                self._lines.append(self._is_spread(index, column))
            elif token.kind == "close":
                self._lines.pop()
            column = self._column(column, self._text[token.start : token.end])
            end = token.end
            if token.kind not in _COMMENTS:
                solid = token.kind
        if self._tokens:
            yield Edit(end, len(self._text), self._newline)

    # one gap

    def _gap(self, index: int, solid: Kind | None) -> str:
        """The blanks before a token; `solid` is the last kind before it that is no comment."""
        if index == 0:
            return ""
        token, before = self._tokens[index], self._tokens[index - 1]
        if self._lines and not self._lines[-1]:
            return self._inline(index)
        breaks = len(_NEWLINE.findall(self._text, before.end, token.start))
        if token.kind in _COMMENTS:
            return self._before_comment(index, breaks, solid)
        if token.kind == "close":
            return self._line(len(self._lines) - 1)
        if solid in ("comma", "open", None):
            if before.kind in _COMMENTS and not breaks:
                return " "
            return self._line(len(self._lines), blank=breaks > 1 and before.kind != "open")
        if before.kind == "line":  # among the parts of a member
            return self._line(len(self._lines) + (token.kind != "comma"))
        return " " if solid == "colon" else ""

    def _before_comment(self, index: int, breaks: int, solid: Kind | None) -> str:
        before = self._tokens[index - 1]
        if not breaks and not (solid in ("comma", "open") and before.kind != "block" and self._leads(index)):
            return " "
        is_inside = solid == "colon" or (self._next[index] == "colon")
        blank = breaks > 1 and before.kind != "open" and not is_inside
        return self._line(len(self._lines) + is_inside, blank=blank)

    def _leads(self, index: int) -> bool:
        """Whether a value follows a comment on its line."""
        text, tokens = self._text, self._tokens
        while tokens[index].kind == "block":
            if _NEWLINE.search(text, tokens[index].end, tokens[index + 1].start):
                return False
            index += 1
        return tokens[index].kind in ("value", "open")

    def _line(self, depth: int, *, blank: bool = False) -> str:
        return self._newline * (1 + blank) + self._indent * depth

    def _column(self, column: int, piece: str) -> int:
        ends = [match.end() for match in _NEWLINE.finditer(piece)]
        return columns(piece[ends[-1] :]) if ends else column + columns(piece)

    # lists and objects

    def _is_spread(self, index: int, column: int) -> bool:
        """Whether the elements of a list or object that begins in a column need lines of their own."""
        if self._lines and not self._lines[-1]:
            return False
        end = self._ends[index]
        if end == index + 1:
            return False
        if _NEWLINE.search(self._text, self._tokens[index].start, self._tokens[end].start):
            return True
        return column + self._widths[end] - self._widths[index] + 2 > FORMAT_WIDTH

    def _inline_widths(self) -> list[int]:
        """The columns from the begin of the text to the begin of each token, were everything on one line."""
        widths, width = list[int](), 0
        for index, token in enumerate(self._tokens):
            if index:
                width += len(self._inline(index))
            widths.append(width)
            width += columns(self._text[token.start : token.end])
        return widths

    def _partners(self) -> dict[int, int]:
        """The closing bracket of each opening one, by their indexes."""
        found: dict[int, int] = {}
        opened: list[int] = []
        for index, token in enumerate(self._tokens):
            if token.kind == "open":
                opened.append(index)
            elif token.kind == "close":
                found[opened.pop()] = index
        return found

    def _next_solids(self) -> list[Kind | None]:
        """The next kind after each token that is no comment."""
        found: list[Kind | None] = []
        solid: Kind | None = None
        for token in reversed(self._tokens):
            found.append(solid)
            if token.kind not in _COMMENTS:
                solid = token.kind
        return found[::-1]

    # what the author prefers

    def _usual_newline(self) -> str:
        """The most frequent line end after a token."""
        starts = [*(token.start for token in self._tokens[1:]), len(self._text)]
        gaps = zip((token.end for token in self._tokens), starts, strict=True)
        found = Counter(newline for gap in gaps for newline in _NEWLINE.findall(self._text, *gap))
        return found.most_common(1)[0][0] if found else "\n"

    def _is_padded(self) -> bool:
        """Whether most objects of one line have spaces inside their braces."""
        votes = 0
        for index, end in self._ends.items():
            start = self._tokens[index].start
            inside = self._text[start + 1 : self._tokens[end].start]
            if self._text[start] == "{" and inside and _NEWLINE.search(inside) is None:
                votes += 1 if inside[0] == " " else -1
        return votes > 0

    def _inline(self, index: int) -> str:
        """The blanks between a token and the one before it, on one line."""
        before, token = self._tokens[index - 1], self._tokens[index]
        if before.kind == "open" or token.kind == "close":
            is_brace = self._text[token.start if token.kind == "close" else before.start] in "{}"
            return self._pad if is_brace and (before.kind, token.kind) != ("open", "close") else ""
        return "" if token.kind in ("comma", "colon") else " "
