"""The style of hand-written JSON: line ends, indentation, spaces; and new values in that style."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Any, Final

import msgspec

from rrext.pipefile.text.source import SourceMap
from rrext.pipefile.text.tree import Located

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
