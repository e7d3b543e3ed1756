"""The place of a cursor in incomplete text: the values that fit there, the text they replace, and the missing punctuation
around it.

The parser repairs broken text with the text after the cursor, which may be wrong. So its tree only gives a starting point close
before the cursor; from there a walk reads tokens: the open brackets, and the expected next token.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Final, Literal, TypeAlias

import msgspec

from rrext.editor.formatting import begin_of
from rrext.editor.text import Edit
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


Place: TypeAlias = Literal["key", "value", "element", "nowhere"]

_LINE_END: Final = re.compile(r"[\r\n]")
_LAST_QUOTE: Final = re.compile(r"\"[ \t]*+(?:[:,}\]\r\n]|\Z)")
_REST_OF_VARIABLE: Final = re.compile(r"(?<=\$)\{\w*+\}")
_REST_OF_NAME: Final = re.compile(r"[\w.$-]*+")
_REST_OF_TEXT: Final = re.compile(r"(?:[^\"':,{}\[\]/\r\n$]++|\$(?:\{\w*+\}?+)?+)*+")
"""The end of a line without structural characters belongs to a string without its closing quote."""


class Gap(msgspec.Struct, frozen=True):
    """The span from `start` to `end` that an offer replaces; the cursor is inside it.

    `path` leads to the new value, or for a key to its object. `brackets` are the offsets of the objects and lists around it,
    outermost first: the first `n` parts of the path lead to `brackets[n]`. `typed` is the text before the cursor. `lead` must
    precede the new text, `before` is an edit further up; both add forgotten punctuation. `comma`: a comma must follow. `colon`:
    a colon follows already, or a value whose colon is missing.
    """

    place: Place
    path: tuple[str, ...] = ()
    brackets: tuple[int, ...] = ()
    start: int = 0
    end: int = 0
    typed: str = ""
    lead: str = ""
    before: Edit | None = None
    comma: bool = False
    colon: Literal["none", "there", "missing"] = "none"

    @property
    def quote(self) -> str:
        """The quote at the start of the typed text; empty if there is none."""
        return self.typed[:1] if self.typed[:1] in ('"', "'") else ""


NOWHERE: Final = Gap("nowhere")

_PLACES: Final[dict[int, Place]] = {
    ROOT: "nowhere",
    KEY: "key",
    AFTER_VALUE: "key",
    VALUE: "value",
    COLON: "value",
    ELEMENT: "element",
    AFTER_ELEMENT: "element",
    NOTHING: "nowhere",
}


def gap_at(where: SourceMap, cursor: int) -> Gap:
    """The gap at an offset. `place` is `nowhere` outside of the root value, in a comment, and where a value stands already."""
    text = where.text
    if not 0 <= cursor <= len(text):
        return NOWHERE
    walk = Walk(where, cursor)
    place = _place(walk)
    start, end = (cursor, cursor) if walk.touched is None else _span(text, walk.touched, cursor)
    if place == "value" and walk.touched is None:
        end = _value_on_line(text, cursor)
    following = _Following(text, end)
    if place == "nowhere" or _is_closed_off(walk, place, text[max(walk.stray, 0) : start], following, empty=start == end):
        return NOWHERE
    lead, before = _missing_before(walk, place, start)
    colon = following.colon(place, touched=walk.touched is not None)
    return Gap(
        place,
        _path(walk, place),
        tuple(frame.start for frame in walk.frames),
        start,
        end,
        text[start:cursor],
        lead,
        before,
        colon == "none" and following.needs_comma(place),
        colon,
    )


def _place(walk: Walk) -> Place:
    """The kind of position at the cursor."""
    place = _PLACES[walk.expect]
    if walk.touched is None or walk.touched.kind != tokens.KEY or place == "key":
        return place
    in_object = bool(walk.frames) and walk.frames[-1].kind == "object"
    return "key" if in_object else "nowhere"  # the value before the key is missing


def _is_closed_off(walk: Walk, place: Place, between: str, following: _Following, *, empty: bool) -> bool:
    """Whether the gap can hold no value; `between` is the text from a stray word to the gap."""
    if walk.stray >= 0 and not _LINE_END.search(between):
        return True  # the line is no JSON: a new text would get into the middle of something else
    return place == "value" and walk.touched is None and empty and following.opens  # the value stands there already


def _path(walk: Walk, place: Place) -> tuple[str, ...]:
    if place == "value":
        return (*walk.path, walk.frames[-1].name)
    return (*walk.path, str(walk.frames[-1].count)) if place == "element" else walk.path


def _missing_before(walk: Walk, place: Place, start: int) -> tuple[str, Edit | None]:
    """The forgotten comma or colon: as a prefix of the new text, or as an edit further up."""
    sign = ""
    if walk.expect in (AFTER_VALUE, AFTER_ELEMENT):
        sign = ","
    elif walk.expect == COLON and place == "value":
        sign = ":"
    if not sign:
        return "", None
    return (f"{sign} ", None) if walk.last == start else ("", Edit(walk.last, walk.last, sign))


def _span(text: str, token: Token, cursor: int) -> tuple[int, int]:
    """The replaced part of the token at the cursor."""
    start, end = token.start, token.end
    if token.kind == tokens.WORD:
        return start, _word_end(text, end)
    if token.kind == tokens.KEY or (cursor == end and is_closed(text[start:end])):
        return start, end
    if is_closed(text[start:end]):
        # A newly typed quote pairs with the next quote in the text; the rest of that string is then not JSON.
        return (start, end) if _goes_on(text, end) else (start, _name_end(text, cursor))
    rest = _REST_OF_TEXT.match(text, cursor)
    stop = cursor if rest is None else rest.end()
    if text[stop : stop + 1] in ("", "\r", "\n"):
        return start, max(cursor, len(text[:stop].rstrip(" \t")))
    return start, max(min(_name_end(text, cursor), end), cursor)


def _word_end(text: str, end: int) -> int:
    """The end of a word; for a string without its first quote, behind its last."""
    variable = _REST_OF_VARIABLE.match(text, end)
    end = end if variable is None else variable.end()
    return end if _LAST_QUOTE.match(text, end) is None else end + 1


def _name_end(text: str, cursor: int) -> int:
    rest = _REST_OF_NAME.match(text, cursor)
    return cursor if rest is None else rest.end()


def _goes_on(text: str, end: int) -> bool:
    """Whether valid text follows a quoted string, perhaps without its comma or colon."""
    found = tokens.TOKEN.match(text, end)
    assert found is not None
    kind = found.lastindex or tokens.END
    if kind == tokens.WORD:
        word = found[kind]
        return word in tokens.WORDS or tokens.NUMBER.fullmatch(word) is not None
    if kind in (tokens.QUOTED, tokens.SINGLE):
        return is_closed(found[kind])
    return kind != tokens.OTHER


def _value_on_line(text: str, cursor: int) -> int:
    """The end of the string, number or word behind the cursor in the same line; the cursor if there is none."""
    found = tokens.TOKEN.match(text, cursor)
    assert found is not None
    kind = found.lastindex or tokens.END
    start, end = found.span(kind)
    if kind not in tokens.VALUES or _LINE_END.search(text, cursor, start):
        return cursor
    if "/" in text[cursor:start] or tokens.COLON.match(text, end) is not None:
        return cursor  # a comment stands between, or it is the next key
    if kind == tokens.WORD:
        return _word_end(text, end)
    return end if is_closed(text[start:end]) else cursor


class _Following:
    """The token after a gap."""

    def __init__(self, text: str, end: int) -> None:
        found = tokens.TOKEN.match(text, end)
        assert found is not None
        self._kind = found.lastindex or tokens.END
        start, stop = found.span(self._kind)
        self._sign = text[start:stop] if self._kind == tokens.PUNCTUATION else ""
        self._on_line = _LINE_END.search(text, end, start) is None
        is_key = self._kind in tokens.VALUES and tokens.COLON.match(text, stop) is not None
        self._is_text = self._kind in (tokens.STRING, tokens.QUOTED, tokens.SINGLE) and _goes_on(text, stop)
        self._then_colon = self._kind == tokens.KEY or is_key

    @property
    def opens(self) -> bool:
        """Whether a bracket opens."""
        return self._sign in ("{", "[")

    def colon(self, place: Place, *, touched: bool) -> Literal["none", "there", "missing"]:
        """Whether a colon follows a key, or a value without one."""
        if place != "key":
            return "none"
        if self._sign == ":":
            return "there"
        is_value = self.opens or (self._kind in tokens.VALUES and not self._then_colon)
        return "missing" if touched and is_value and self._on_line else "none"

    def needs_comma(self, place: Place) -> bool:
        """Whether the next member or element follows without a comma before it."""
        if place == "value":
            return self._then_colon or self._is_text
        if place == "element" and self.opens:
            return True
        return self._then_colon or self._kind in tokens.VALUES
