"""The formatting of a document, and edits of values in the style of its author.

Formatting changes blanks only. A list or object that the author spread over lines gets a line for each element; another one
stays on its line if it fits. Comments keep their place: on a line of their own, at the end of a line, or before a value. Single
blank lines stay. A text formatted twice is a text formatted once.

Insertion, removal and move of members and elements keep the commas, lines, indentation and comments around the edit. Near
broken text no edit is made, because the owner of a comma there is uncertain.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, Final, Literal, TypeAlias

import msgspec

from rrext.columns import columns
from rrext.editor.text import Edit
from rrext.pipefile.text import tokens
from rrext.pipefile.text.problems import Span
from rrext.pipefile.text.source import SourceMap, parse
from rrext.pipefile.text.tree import Located

FORMAT_WIDTH: Final = 120
"""Columns of a line up to which a formatted list or object stays on it; components of one line have about a hundred."""

Kind: TypeAlias = Literal["open", "close", "comma", "colon", "value", "line", "block"]

_TOKEN: Final = re.compile(
    r'(?P<value>"(?:[^"\\]|\\.)*+"|[^\s{}\[\],:"/]++)|(?P<line>//[^\r\n]*+)|(?P<block>/\*(?:[^*]++|\*(?!/))*+\*/)'
    r"|(?P<open>[{\[])|(?P<close>[}\]])|(?P<comma>,)|(?P<colon>:)"
)
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


MAX_STYLE_CONTAINERS: Final = 300
"""The number of objects and lists that are examined; authors write consistently."""

BLANKS: Final = " \t\r\n"

_NEWLINE: Final = re.compile(r"\r\n|\r|\n")
_COLON: Final = re.compile(r"[ \t]*:[ \t]*")


class Style(msgspec.Struct, frozen=True):
    """A style of JSON. `padded`: spaces inside braces; `trailing`: a comma after the last of several lines.

    `wide`: the outermost object has one line per member.
    """

    newline: str = "\n"
    indent: str = "  "
    colon: str = ": "
    comma: str = ", "
    padded: bool = False
    trailing: bool = False
    wide: bool = False

    def flat(self, value: Any) -> str:
        """A value on one line."""
        if isinstance(value, dict) and value:
            pad = " " if self.padded else ""
            return (
                "{" + pad + self.comma.join(self.member(str(key), self.flat(item)) for key, item in value.items()) + pad + "}"
            )
        if isinstance(value, list) and value:
            return "[" + self.comma.join(self.flat(item) for item in value) + "]"
        return quoted(value)

    def block(self, value: dict[str, Any], margin: str) -> str:
        """An object with one line per member. `margin` precedes its braces; the first line is not indented."""
        lines = [margin + self.indent + self.member(key, self.flat(item)) for key, item in value.items()]
        end = "," if self.trailing else ""
        return "{" + self.newline + ("," + self.newline).join(lines) + end + self.newline + margin + "}"

    def member(self, key: str, text: str) -> str:
        """A member with a value in JSON."""
        return f"{quoted(key)}{self.colon}{text}"


def quoted(value: Any) -> str:
    """A JSON value with minimal spaces; non-ASCII letters stay."""
    return json.dumps(value, ensure_ascii=False)


def begin_of(located: Located) -> int:
    """The start of a member or element: its key if it has one."""
    return located.key_span[0] if located.key_span is not None else located.start


def line_start(text: str, offset: int) -> int:
    """The start of an offset's line."""
    return max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1


def margin_of(text: str, offset: int) -> str:
    """The indentation of an offset's line."""
    start = line_start(text, offset)
    end = start
    while end < len(text) and text[end] in " \t":
        end += 1
    return text[start:end]


def style_of(where: SourceMap) -> Style:
    """The style of a document; the usual one for undetermined traits."""
    text = where.text
    some = list(islice(_containers(where.root), MAX_STYLE_CONTAINERS))
    newline = _NEWLINE.search(text)
    colon = _first(_colon(text, child) for holder in some for child in holder.children[:1])
    wide = [holder for holder in some if _is_wide(text, holder)]
    return Style(
        newline=newline[0] if newline else "\n",
        indent=_first(_indent(text, holder) for holder in wide) or "  ",
        colon=colon or ": ",
        comma=_first(_comma(text, holder) for holder in some) or ("," if colon == ":" else ", "),
        padded=any(text.startswith("{ ", holder.start) for holder in some if not _is_wide(text, holder)),
        trailing=any(_has_last_comma(text, holder) for holder in wide[:3]),
        wide=bool(wide) and wide[0] is where.root,
    )


def _first(found: Iterator[str]) -> str:
    return next(filter(None, found), "")


def _containers(root: Located) -> Iterator[Located]:
    """Non-empty objects and lists, outer ones first."""
    waiting = deque([root])
    while waiting:
        located = waiting.popleft()
        if located.kind in ("object", "array") and located.children:
            yield located
            waiting.extend(located.children)


def _is_wide(text: str, holder: Located) -> bool:
    return _NEWLINE.search(text, holder.start, begin_of(holder.children[0])) is not None


def _indent(text: str, holder: Located) -> str:
    outer, inner = margin_of(text, holder.start), margin_of(text, begin_of(holder.children[0]))
    return inner[len(outer) :] if inner.startswith(outer) else ""


def _colon(text: str, child: Located) -> str:
    between = text[child.key_span[1] : child.start] if child.key_span is not None and child.kind != "hole" else ""
    return between if _COLON.fullmatch(between) else ""


def _comma(text: str, holder: Located) -> str:
    for one, other in pairwise(holder.children[:10]):
        between = text[one.end : begin_of(other)]
        if between.rstrip(" ") == ",":
            return between
    return ""


def _has_last_comma(text: str, holder: Located) -> bool:
    return text[holder.children[-1].end : holder.end].lstrip(BLANKS).startswith(",")


Edits: TypeAlias = tuple[Edit, ...] | None
"""Edits that belong together; None if they cannot be made."""

Writing: TypeAlias = Callable[[str], str]
"""A function from the indentation of a value's first line to the text of the value."""

_BRACKETS: Final = {"object": "{}", "array": "[]"}
_REST: Final = re.compile(r"(?:[ \t]*+(?://[^\r\n]*+|/\*(?:[^*\r\n]++|\*(?!/))*+\*/))*+")
"""Comments that end on the line on which they begin."""

_QUOTED: Final = re.compile(r""""(?:[^"\\\r\n]++|\\.)*+"|'(?:[^'\\\r\n]++|\\.)*+'""")
_COMMENT: Final = re.compile(r"/\*(?:[^*]++|\*(?!/))*+\*/|//(.*)")
_LINE_END: Final = re.compile(r"[ \t]*+(?:\r\n|\r|\n)")
_LINES: Final = re.compile(r"(\r\n|\r|\n)[ \t]*+")


class RemovedText(msgspec.Struct, frozen=True):
    """A child removed from an object or list: its text, the indentation of its line, and the comment after it."""

    text: str
    margin: str
    note: str
    edits: tuple[Edit, ...]


class TextLayout:
    """Edits of one document."""

    def __init__(self, where: SourceMap) -> None:
        self._text = where.text
        self.style = style_of(where)

        # insertion

    def add_member(self, holder: Located, key: str, write: Writing, order: Collection[str] = (), note: str = "") -> Edits:
        """Insert a member, behind those before it in `order`, or at the end. `write` gives its value."""
        if holder.kind != "object" or any(child.key == key for child in holder.children):
            return None
        before = [*order][: [*order].index(key)] if key in order else [child.key for child in holder.children]
        place = max((index + 1 for index, child in enumerate(holder.children) if child.key in before), default=0)
        return self.insert(holder, [lambda margin: self.style.member(key, write(margin))], place, note=note)

    def add_elements(
        self, holder: Located, values: Sequence[dict[str, Any]], place: int | None = None, *, wide: bool = False
    ) -> Edits:
        """Insert objects in a list, each over several lines if the last element is, or if the list is empty and `wide`."""
        if holder.kind != "array":
            return None
        if holder.children:
            last = holder.children[-1]
            wide = "\n" in self._text[last.start : last.end] or "\r" in self._text[last.start : last.end]

        def writing(value: dict[str, Any]) -> Writing:
            return lambda margin: self.style.block(value, margin) if wide else self.style.flat(value)

        return self.insert(holder, [writing(value) for value in values], place, wide=wide)

    def insert(
        self, holder: Located, writes: Sequence[Writing], place: int | None = None, *, wide: bool = False, note: str = ""
    ) -> Edits:
        """Insert children into a holder, from index `place` on, or at the end. `wide`: on lines of their own if it is empty.

        `note` is a comment to follow them.
        """
        children = holder.children
        place = len(children) if place is None else place
        if not self._is_closed(holder):
            return None
        if place > 0 and not self._is_complete(children[place - 1]):
            return None
        if not children:
            return self._fill(holder, writes, wide, note)
        start = holder.start + 1 if place == 0 else children[place - 1].end
        stop = begin_of(children[place]) if place < len(children) else holder.end - 1
        comma = self._comma(start, stop)
        if comma is None or (place == 0 and comma >= 0) or (0 < place < len(children) and comma < 0):
            return None
        if self._is_wide(holder):
            return self._insert_lines(holder, writes, place, start, comma, note)
        return self._insert_flat(holder, writes, place, start, comma, note)

    def _insert_lines(self, holder: Located, writes: Sequence[Writing], place: int, start: int, comma: int, note: str) -> Edits:
        last = place == len(holder.children)
        before = "," if last and comma < 0 else ""
        after = "" if before else ","
        at = self._after_notes(comma + 1 if comma >= 0 else start)
        if _LINE_END.match(self._text, at) is None:
            note = _inline(note)
        lines = self._lines(writes, margin_of(self._text, begin_of(holder.children[0]))) + after + (f" {note}" if note else "")
        if at == start:
            return (Edit(at, at, before + lines),)
        return (*((Edit(start, start, before),) if before else ()), Edit(at, at, lines))

    def _insert_flat(self, holder: Located, writes: Sequence[Writing], place: int, start: int, comma: int, note: str) -> Edits:
        margin, between = margin_of(self._text, start), self.style.comma
        pieces = between.join(write(margin) for write in writes) + (f" {_inline(note)}" if note else "")
        if place == 0:
            at = begin_of(holder.children[0])
            return (Edit(at, at, pieces + between),)
        if comma < 0:
            return (Edit(start, start, between + pieces),)
        return (Edit(comma + 1, comma + 1, f"{between[1:]}{pieces},"),)

    def _fill(self, holder: Located, writes: Sequence[Writing], wide: bool, note: str) -> Edits:
        """Insert the first children of an empty holder."""
        start, end = holder.start + 1, holder.end - 1
        if self._comma(start, end) != -1:
            return None
        inside = self._text[start:end].rstrip(BLANKS)
        margin = margin_of(self._text, holder.start)
        if not inside and not wide:
            pad = " " if self.style.padded and holder.kind == "object" else ""
            pieces = self.style.comma.join(write(margin) for write in writes)
            return (Edit(start, end, pad + pieces + (f" {_inline(note)}" if note else "") + pad),)
        lines = self._lines(writes, margin + self.style.indent) + (f" {note}" if note else "")
        return (Edit(start + len(inside), end, lines + self.style.newline + margin),)

    def _lines(self, writes: Sequence[Writing], margin: str) -> str:
        return ",".join(self.style.newline + margin + write(margin) for write in writes)

        # removal

    def remove(self, holder: Located, places: Collection[int]) -> Edits:
        """Remove children. A comment after one on its last line goes with it; others stay."""
        children = holder.children
        kept = [place for place in range(len(children)) if place not in places]
        if not self._is_closed(holder) or not self._are_sound(holder, places):
            return None
        if not kept and self.is_bare(holder):
            return (Edit(holder.start + 1, holder.end - 1, ""),)
        last, ends_at = len(children) - 1, max(kept, default=-1)
        edits = [edit for place in sorted(places) for edit in self._cut(holder, place, is_tail=place > ends_at)]
        if 0 <= ends_at < last and self._comma_after(holder, last) == -1:
            comma = self._comma_after(holder, ends_at)
            assert comma is not None  # it is next to a removed child
            edits.append(Edit(comma, comma + 1, ""))
        return tuple(sorted(edits))

    def take(self, holder: Located, place: int) -> RemovedText | None:
        """Remove a child to insert it elsewhere. None if its own text is broken."""
        child = holder.children[place]
        text = self._text[begin_of(child) : child.end]
        if parse("{" + text + "}" if child.key is not None else text).problems:
            return None
        edits = self.remove(holder, [place])
        if edits is None:
            return None
        end = self._end_of(holder, place)
        note = self._text[end : self._after_notes(end)].strip() if self._has_own_lines(begin_of(child), end) else ""
        return RemovedText(text, margin_of(self._text, begin_of(child)), note, edits)

    def _cut(self, holder: Located, place: int, *, is_tail: bool) -> list[Edit]:
        """The edits that remove one child and its comma. `is_tail`: no child stays behind it."""
        text, child = self._text, holder.children[place]
        start, end = begin_of(child), self._end_of(holder, place)
        if text[child.end : end].strip(BLANKS + ","):  # keep a comment between a value and its comma
            return [Edit(start, child.end, ""), Edit(end - 1, end, "")]
        if self._has_own_lines(start, end):
            following = _LINE_END.match(text, self._after_notes(end))
            assert following is not None
            return [Edit(line_start(text, start), following.end(), "")]
        blanks = len(text) - end - len(text[end:].lstrip(" \t"))
        if not is_tail and _LINE_END.match(text, end) is None:
            return [Edit(start, end + blanks, "")]
        while text[start - 1] in " \t":
            start -= 1
        return [Edit(start, end, "")]

        # queries

    def is_bare(self, holder: Located) -> bool:
        """Whether no comments stand between the children."""
        at = holder.start + 1
        for child in holder.children:
            if self._text[at : begin_of(child)].strip(BLANKS + ","):
                return False
            at = child.end
        return not self._text[at : holder.end - 1].strip(BLANKS + ",")

    def moved(self, taken: RemovedText, margin: str) -> str:
        """The text of a removed child, for a line with another indentation."""
        return _LINES.sub(lambda found: _shifted(found[0], found[1], taken.margin, margin), taken.text)

    def _is_closed(self, holder: Located) -> bool:
        """Whether both brackets exist, and only blanks, comments and commas precede the last one."""
        brackets = _BRACKETS.get(holder.kind)
        if brackets is None or holder.end - holder.start < 2:
            return False
        if self._text[holder.start] != brackets[0] or self._text[holder.end - 1] != brackets[1]:
            return False
        last = holder.children[-1].end if holder.children else holder.start + 1
        return last < holder.end and self._comma(last, holder.end - 1) is not None

    def _is_complete(self, located: Located) -> bool:
        """Whether a value ends where the parser says; a missing bracket or quote would include text after it."""
        key_span = located.key_span
        if key_span is not None and not self._has_its_quotes(*key_span):
            return False
        if located.kind == "string":
            return self._has_its_quotes(located.start, located.end)
        if located.kind not in _BRACKETS:
            return True
        return self._is_closed(located) and (not located.children or self._is_complete(located.children[-1]))

    def _has_its_quotes(self, start: int, end: int) -> bool:
        return self._text[start : start + 1] not in ('"', "'") or _QUOTED.fullmatch(self._text, start, end) is not None

    def _are_sound(self, holder: Located, places: Collection[int]) -> bool:
        """Whether the commas around children are in place."""
        last = len(holder.children) - 1
        for place in places:
            after = self._comma_after(holder, place)
            before = self._comma_after(holder, place - 1)
            if after is None or (after < 0 and place < last) or before is None or (before < 0) != (place == 0):
                return False
            if place > 0 and not self._is_complete(holder.children[place - 1]):
                return False
        return True

    def _comma_after(self, holder: Located, place: int) -> int | None:
        children = holder.children
        start = children[place].end if place >= 0 else holder.start + 1
        stop = begin_of(children[place + 1]) if place + 1 < len(children) else holder.end - 1
        return self._comma(start, stop)

    def _comma(self, start: int, stop: int) -> int | None:
        """The offset of the comma between two offsets, or -1; None for several commas or other tokens."""
        comma = -1
        while True:
            found = tokens.TOKEN.match(self._text, start)
            assert found is not None  # one alternative fits everywhere
            begin, start = found.span(found.lastindex or 0)
            if begin >= stop:
                return comma
            if comma >= 0 or self._text[begin] != ",":
                return None
            comma = begin

    def _end_of(self, holder: Located, place: int) -> int:
        """The end of a child, with the comma after it."""
        comma = self._comma_after(holder, place)
        return holder.children[place].end if comma is None or comma < 0 else comma + 1

    def _after_notes(self, offset: int) -> int:
        """The end of the comments on the rest of a line."""
        found = _REST.match(self._text, offset)
        assert found is not None  # it matches the empty string too
        return found.end()

    def _has_own_lines(self, start: int, end: int) -> bool:
        text = self._text
        before = text[line_start(text, start) : start]
        return not before.strip(" \t") and _LINE_END.match(text, self._after_notes(end)) is not None

    def _is_wide(self, holder: Located) -> bool:
        before = self._text[holder.start : begin_of(holder.children[0])]
        return "\n" in before or "\r" in before


def joined(*changes: Edits) -> Edits:
    """Several groups of edits as one; None if one of them is None, or if they overlap."""
    found: list[Edit] = []
    for edits in changes:
        if edits is None:
            return None
        found += edits
    found.sort(key=lambda edit: (edit.start, edit.end))
    overlap = any(one.end > other.start for one, other in pairwise(found))
    return None if overlap else tuple(found)


def _inline(note: str) -> str:
    """The comments in a form that leaves the rest of the line usable."""

    def closed(found: re.Match[str]) -> str:
        return found[0] if found[1] is None else f"/* {found[1].replace('*/', '* /').strip()} */"

    return _COMMENT.sub(closed, note)


def _shifted(line: str, newline: str, old: str, new: str) -> str:
    blanks = line[len(newline) :]
    return newline + new + blanks[len(old) :] if blanks.startswith(old) else line
