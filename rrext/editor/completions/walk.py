"""A walk over the tokens before a cursor: the open brackets, and the expected next token.

The parser repairs broken text with the text after the cursor, which may be wrong. So its tree only gives a starting point close
before the cursor; from there the walk reads tokens.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Final

import msgspec

from rrext.editor.style import begin_of
from rrext.pipefile.text import tokens
from rrext.pipefile.text.scanner import KINDS
from rrext.pipefile.text.source import SourceMap
from rrext.pipefile.text.tree import AFTER_ELEMENT, AFTER_VALUE, ELEMENT, KEY, NOTHING, ROOT, VALUE, Located

MAX_WALK_TOKENS: Final = 20_000
"""The number of tokens that are read; only a text in which the parser gave up needs more."""

COLON: Final = 7
"""An expectation besides those of a `Tree`: the colon after a key."""


_CLOSED: Final = {
    '"': re.compile(r'"(?:[^"\\\r\n]++|\\[^\r\n])*+"'),
    "'": re.compile(r"'(?:[^'\\\r\n]++|\\[^\r\n])*+'"),
}


class OpenBracket:
    """An open bracket. `part` is its key or index in its holder; in an object, `name` is the key whose value comes next.

    In a list, `count` is the number of elements that have begun. `implied`: the bracket itself is missing.
    """

    def __init__(self, kind: str, start: int, part: str, *, implied: bool = False) -> None:
        self.kind = kind
        self.start = start
        self.part = part
        self.implied = implied
        self.name = ""
        self.count = 0


class Token(msgspec.Struct, frozen=True):
    """A key, string, number or word. `end` is the end of the token itself, `next` the end of a key's colon."""

    kind: int
    start: int
    end: int
    next: int


class Walk:
    """The state at the cursor: `frames` are the open brackets, outermost first, `expect` is the expected token, `last` the end
    of the last token, and `touched` the token in or before the cursor, which is not counted.

    `stray` is the end of a last word that is neither JSON nor a key; -1 if there is none.
    """

    def __init__(self, where: SourceMap, cursor: int) -> None:
        self._text = where.text
        self._at = 1 if where.text.startswith("\ufeff") else 0
        self.expect = ROOT
        self.frames: list[OpenBracket] = []
        self.touched: Token | None = None
        self._begin(where.root, cursor)
        self.last = self._at
        self.stray = -1
        self._run(cursor)

    @property
    def path(self) -> tuple[str, ...]:
        """The path to the innermost open bracket."""
        return tuple(frame.part for frame in self.frames[1:])

        # the starting point

    def _begin(self, located: Located, cursor: int) -> None:
        """Descend in the tree to the last value before the cursor, and start shortly before it."""
        part = ""
        while self._is_open(located, cursor):
            frame = OpenBracket(located.kind, located.start, part)
            self.frames.append(frame)
            children = located.children
            index = bisect_left(children, cursor, key=begin_of) - 1
            if index < 0:
                return self._begin_at(located.start + 1, frame, 0)
            child = children[index]
            if not self._is_open(child, cursor):
                before = max(index - 1, 0)
                return self._begin_at(begin_of(children[before]), frame, before)
            frame.count = index + 1
            frame.name = child.key or ""
            part = frame.name if frame.kind == "object" else str(index)
            located = child
        return None

    def _begin_at(self, at: int, frame: OpenBracket, count: int) -> None:
        self._at = at
        frame.count = count
        self.expect = KEY if frame.kind == "object" else ELEMENT

    def _is_open(self, located: Located, cursor: int) -> bool:
        """Whether a bracket stands there, before the cursor. An object that the parser implied has none."""
        return located.start < cursor and KINDS.get(self._text[located.start : located.start + 1]) == located.kind

    # the tokens

    def _run(self, cursor: int) -> None:
        match, text = tokens.TOKEN.match, self._text
        for _ in range(MAX_WALK_TOKENS):
            found = match(text, self._at)
            assert found is not None  # one alternative fits everywhere
            kind = found.lastindex or tokens.END
            start, end = found.span(kind)
            if kind == tokens.END or start >= cursor:
                if self._is_in_comment(start, cursor):
                    break
                return
            if kind == tokens.COMMENT:
                break
            token = Token(kind, start, self._end(kind, start, end, cursor), end)
            if cursor <= token.end and kind not in (tokens.PUNCTUATION, tokens.OTHER):
                self.touched = token
                return
            if kind == tokens.KEY and cursor < token.next:
                break  # before its colon
            if kind == tokens.QUOTED and token.end < token.next and cursor <= token.next:
                break  # in the line of a string without closing quote
            self._take(token)
        self.expect = NOTHING

    def _is_in_comment(self, end: int, cursor: int) -> bool:
        """Whether the cursor is in a comment before an offset. The end of a line comment belongs to it."""
        return any(
            comment.start() < cursor < comment.end() + comment[0].startswith("//")
            for comment in tokens.COMMENTS.finditer(self._text, self._at, end)
        )

    def _end(self, kind: int, start: int, end: int, cursor: int) -> int:
        """The end of a token: of a key before its colon, of a string without closing quote where the parser ends it."""
        if kind == tokens.KEY:
            return self._text.index('"', start + 1) + 1
        if kind == tokens.QUOTED and not is_closed(self._text[start:end]):
            stop = start + 1 + len(self._text[start + 1 : end].rstrip(" \t,]}"))
            return cursor if stop < cursor <= end and self._text[stop:cursor].isspace() else stop
        return end

    def _take(self, token: Token) -> None:
        if self.stray == token.start and self.expect == COLON and token.kind in (tokens.STRING, tokens.QUOTED):
            self._at = self.stray = token.end  # the opening quote of a key is missing: this is its closing one
            return
        self._at = token.next
        if token.kind == tokens.PUNCTUATION:
            self._take_sign(token)
        elif token.kind == tokens.KEY:
            self._take_key(self._text[token.start + 1 : token.end - 1], token.start)
        elif token.kind != tokens.OTHER:
            self._at = token.end
            self._take_text(token)
        self.last = self._at
        is_stray = token.kind == tokens.WORD and self._at == token.end and not _is_json(self._text[token.start : token.end])
        self.stray = token.end if is_stray else -1

    def _take_sign(self, token: Token) -> None:
        sign = self._text[token.start]
        if sign == ",":
            self.expect = {VALUE: KEY, AFTER_VALUE: KEY, COLON: KEY, AFTER_ELEMENT: ELEMENT}.get(self.expect, self.expect)
        elif sign == ":":
            self.expect = VALUE if self.expect == COLON else self.expect
        elif sign in "{[":
            self._open(KINDS[sign], token.start)
        else:
            self._close(KINDS[sign])

    def _take_key(self, name: str, start: int) -> None:
        if self.expect in (ROOT, ELEMENT, AFTER_ELEMENT):
            self._open("object", start, implied=True)
        if self.expect != NOTHING:
            self.frames[-1].name = name
            self.expect = VALUE

    def _take_text(self, token: Token) -> None:
        expect = self.expect
        if expect in (KEY, AFTER_VALUE, COLON):
            colon = tokens.COLON.match(self._text, token.end)
            if colon is not None or expect != COLON:
                self.frames[-1].name = self._name(token)
                self.expect = COLON if colon is None else VALUE
                self._at = token.end if colon is None else colon.end()
                return
        if expect in (ELEMENT, AFTER_ELEMENT):
            self.frames[-1].count += 1
        self.expect = {ROOT: NOTHING, ELEMENT: AFTER_ELEMENT, AFTER_ELEMENT: AFTER_ELEMENT, NOTHING: NOTHING}.get(
            expect, AFTER_VALUE
        )

    def _name(self, token: Token) -> str:
        text = self._text[token.start : token.end]
        return text if token.kind == tokens.WORD else tokens.unescape(text[1:].rstrip(text[0]))[0]

    # brackets

    def _open(self, kind: str, start: int, *, implied: bool = False) -> None:
        if self.expect in (KEY, AFTER_VALUE):
            if len(self.frames) > 1 and self.frames[-2].kind == "array":
                self._pop()  # the object before the bracket was not closed
            else:
                self.frames[-1].name = ""
        if self.expect == NOTHING:
            return
        part = ""
        if self.frames:
            around = self.frames[-1]
            part = around.name if around.kind == "object" else str(around.count)
            around.count += 1
        self.frames.append(OpenBracket(kind, start, part, implied=implied))
        self.expect = KEY if kind == "object" else ELEMENT

    def _close(self, kind: str) -> None:
        """Close the innermost bracket of a kind. An object without a brace ends with its holder."""
        while any(frame.kind == kind for frame in self.frames):
            while self.frames[-1].kind != kind:
                self._pop()
            was_implied = self.frames[-1].implied
            self._pop()
            if not was_implied:
                return

    def _pop(self) -> None:
        self.frames.pop()
        if not self.frames:
            self.expect = NOTHING
        else:
            self.expect = AFTER_VALUE if self.frames[-1].kind == "object" else AFTER_ELEMENT


def is_closed(text: str) -> bool:
    """Whether a quoted string has its closing quote."""
    return _CLOSED[text[0]].fullmatch(text) is not None


def _is_json(word: str) -> bool:
    return word in tokens.WORDS or tokens.NUMBER.fullmatch(word) is not None
