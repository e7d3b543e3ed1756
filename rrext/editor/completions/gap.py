"""The gap at a cursor in incomplete text: the values it can hold, the text they replace, and the missing punctuation
around it."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

import msgspec

from rrext.editor.completions.walk import COLON, Token, Walk, is_closed
from rrext.editor.edits import Edit
from rrext.pipefile.text import tokens
from rrext.pipefile.text.source import SourceMap
from rrext.pipefile.text.tree import AFTER_ELEMENT, AFTER_VALUE, ELEMENT, KEY, NOTHING, ROOT, VALUE

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
