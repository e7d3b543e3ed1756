"""Reads a text: its value, its problems, and the positions of its values."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.limits import DEFAULTS, MAX_SCANNED_MEMBERS, Limits
from rrext.pipefile.text.problems import CODES, Problem, Problems, Span, below, parts_of

if TYPE_CHECKING:
    from rrext.pipefile.text.tree import Located

_STRING_THEN_COLON: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"[ \t\r\n]*+(:?)')
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class ValueAt(msgspec.Struct, frozen=True):
    """The innermost value at an offset, and its pointer. `in_key`: the offset is in the value's key."""

    pointer: str
    located: Located
    in_key: bool


class ParsedText(msgspec.Struct, frozen=True):
    """The result of reading a text. `complete` is false if the value lacks a part of the text.

    `map` is None if the text is strict JSON and no positions were asked for.
    """

    value: Any
    problems: tuple[Problem, ...] = ()
    complete: bool = True
    map: SourceMap | None = None


class SourceMap:
    """The positions of the values and keys of a text. Offsets are code points from 0, lines and columns count from 1."""

    __slots__ = ("_line_starts", "_members", "root", "text")

    def __init__(self, text: str, root: Located) -> None:
        self.text = text
        self.root = root
        self._line_starts: list[int] | None = None
        self._members: dict[int, tuple[Located, dict[str, Located]]] = {}

    def find(self, path: str) -> Located | None:
        """The value at a pointer, or None."""
        located: Located | None = self.root
        for part in parts_of(path):
            located = None if located is None else self._child(located, part)
        return located

    def nearest(self, path: str) -> Located:
        """The value at a pointer; if it is missing, the innermost existing value around it."""
        located = self.root
        for part in parts_of(path):
            child = self._child(located, part)
            if child is None:
                break
            located = child
        return located

    def span(self, path: str, *, key: bool = False) -> Span:
        """The span of the value at a pointer, or of its key. For a missing value, the opening bracket of the value around
        it.
        """
        located = self.find(path)
        if located is not None:
            return located.key_span if key and located.key_span is not None else (located.start, located.end)
        around = self.nearest(path)
        if around.kind in ("object", "array"):
            return around.start, around.start + 1
        return around.start, around.end

    def span_of(self, problem: Problem) -> Span:
        """The span of a problem."""
        if problem.span is not None:
            return problem.span
        start, end = self.span(problem.path, key=problem.on == "key")
        at = self.text.find(problem.part, start, end) if problem.part else -1
        return (start, end) if at < 0 else (at, at + len(problem.part))

    def is_hole(self, path: str) -> bool:
        """Whether the text has a place for this value without a usable value; a problem reports that."""
        located = self.find(path)
        return located is not None and located.kind == "hole"

    def at(self, offset: int) -> ValueAt:
        """The value at an offset, its end included, because a cursor there touches it."""
        located, path = self.root, ""
        while True:
            inner = _touched(located.children, offset)
            if inner is None:
                return ValueAt(path, located, False)
            index, child = inner
            path = below(path, index if child.key is None else child.key)
            if child.key_span is not None and child.key_span[0] <= offset <= child.key_span[1]:
                return ValueAt(path, child, True)
            if not child.start <= offset <= child.end:
                return ValueAt(path, child, False)
            located = child

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset."""
        starts = self._starts()
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """The offset of a line and column, moved to the nearest place inside the text."""
        starts = self._starts()
        if line < 1:
            return 0
        if line > len(starts):
            return len(self.text)
        start = starts[line - 1]
        return min(start + max(column, 1) - 1, start + len(self.line(line)))

    def line(self, line: int) -> str:
        """The text of a line, without its end."""
        starts = self._starts()
        end = starts[line] if line < len(starts) else len(self.text)
        return self.text[starts[line - 1] : end].rstrip("\r\n")

    def _child(self, located: Located, part: str) -> Located | None:
        children = located.children
        if located.kind == "array":
            index = int(part) if part.isascii() and part.isdecimal() and len(part) < 10 else -1
            return children[index] if 0 <= index < len(children) else None
        if len(children) > MAX_SCANNED_MEMBERS:
            return self._members_of(located).get(part)
        for child in reversed(children):  # of a key that stands twice, the last one counts
            if child.key == part:
                return child
        return None

    def _members_of(self, located: Located) -> dict[str, Located]:
        """The members of a large object by key: a thousand problems may each need one of 100,000 members."""
        known = self._members.get(id(located))
        if known is None:  # with the object itself, so that no other one gets its id
            members = {child.key: child for child in located.children if child.key is not None}
            known = self._members[id(located)] = located, members
        return known[1]

    def _starts(self) -> list[int]:
        if self._line_starts is None:
            self._line_starts = [0, *(match.end() for match in _LINE_END.finditer(self.text))]
        return self._line_starts


def read(text: str | bytes, *, limits: Limits = DEFAULTS, positions: bool = False) -> ParsedText:
    """Read a pipeline file: strict JSON with the fast decoder; other text, and text whose `positions` are needed, with
    `parse`.

    Never raises for the content of the text.
    """
    if not positions and len(text) <= limits.max_pipeline:
        try:
            value = msgspec.json.decode(text)
        except (ValueError, RecursionError):  # no JSON, no UTF-8, too deep: the scanner tells them apart
            return parse(text, limits=limits)
        if is_plain(value, text, limits.max_depth):
            return ParsedText(value)
    return parse(text, limits=limits)


def parse(text: str | bytes, *, limits: Limits = DEFAULTS) -> ParsedText:
    """Read JSON with comments and trailing commas, with the position of every value. Never raises."""
    from rrext.pipefile.text.fast_objects import FastObjects
    from rrext.pipefile.text.scanner import Scanner  # strict JSON need not pay for these and their patterns
    from rrext.pipefile.text.tree import Located

    problems = Problems(limits.max_problems)
    if len(text) > limits.max_pipeline:
        message = f"The file is larger than {limits.max_pipeline} bytes (max_pipeline)."
        problems.append(Problem("too_large", "error", message, span=(0, 0)))
        return ParsedText(None, problems.listing(), False, SourceMap("", Located("hole", None, 0, 0)))
    text = _decoded(text, problems)
    scanner = Scanner(text, problems, limits.max_depth, FastObjects(text, limits.max_depth))
    root = scanner.run()
    return ParsedText(root.value, problems.listing(), scanner.complete, SourceMap(text, root))


def _decoded(text: str | bytes, problems: Problems) -> str:
    """The text, with U+FFFD for invalid Unicode."""
    if isinstance(text, str):
        try:
            text.encode()  # much faster than to search
        except UnicodeEncodeError as error:
            problems.append(_not_utf8("There is a lone surrogate here: the text is no Unicode.", error.start))
            return _SURROGATE.sub("\ufffd", text)
        return text
    try:
        return str(text, "utf-8")
    except UnicodeDecodeError as error:
        at = len(text[: error.start].decode("utf-8"))
        problems.append(_not_utf8(f"This byte (0x{text[error.start]:02x}) is no UTF-8.", at))
        return text.decode("utf-8", "replace")


def _not_utf8(message: str, at: int) -> Problem:
    return Problem("not_utf8", CODES["not_utf8"][0], message, span=(at, at + 1))


def is_plain(value: Any, text: str | bytes, max_depth: int) -> bool:
    """Whether strict JSON has no duplicate keys and is not too deep; the fast decoder does not check that."""
    keys, level, depth = 0, [value], 0
    while level:
        depth += 1
        inside: list[Any] = []
        for item in level:
            if type(item) is dict:
                keys += len(item)
                inside.extend(item.values())
            elif type(item) is list:
                inside.extend(item)
        level = [item for item in inside if type(item) is dict or type(item) is list]
        if depth > max_depth:
            return False
    colons = text.count(":") if isinstance(text, str) else text.count(b":")
    return keys == colons or keys == _count_keys(text)


def _count_keys(text: str | bytes) -> int:
    """The number of keys in strict JSON: colons outside of strings."""
    text = text if isinstance(text, str) else text.decode("utf-8")
    return _STRING_THEN_COLON.findall(text).count(":")


def _touched(children: list[Located], offset: int) -> tuple[int, Located] | None:
    index = bisect_right(children, offset, key=_begin) - 1
    if index < 0:
        return None
    child = children[index]
    return (index, child) if offset <= child.end else None


def _begin(located: Located) -> int:
    return located.key_span[0] if located.key_span is not None else located.start
