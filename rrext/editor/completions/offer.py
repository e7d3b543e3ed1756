"""Offers for the place of a cursor: templates with stops at which a person continues typing, and the edits that insert them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

import msgspec

from rrext.editor.completions.cursor import Gap, is_closed
from rrext.editor.formatting import Style
from rrext.editor.text import Edit
from rrext.pipefile.text.problems import Span


class Stop(msgspec.Struct, frozen=True):
    """A stop with its initial text; with `choices`, the first of them."""

    text: str = ""
    choices: tuple[str, ...] = ()

    @property
    def first(self) -> str:
        """The initial text."""
        return self.choices[0] if self.choices else self.text


Wrapping: TypeAlias = Literal["braces", "lines", "none"]
"""The text around the members of an object: braces with line breaks, line breaks alone, or none."""

Template: TypeAlias = tuple[str | Stop, ...]
"""Pieces in order. Each tab after a line break in a piece stands for one level of indentation."""


class Indent(msgspec.Struct, frozen=True):
    """The indentation of the lines after the first: `margin`, and `unit` for each level."""

    margin: str = ""
    unit: str = "  "

    def laid(self, piece: str) -> str:
        """A piece with indented lines."""
        return re.sub(r"\n(\t*)", self._start, piece) if "\n" in piece else piece

    def _start(self, match: re.Match[str]) -> str:
        return f"\n{self.margin}{self.unit * len(match[1])}"


_SPECIAL: Final = "\\$"  # the backslash first, as the others get one
_SPECIAL_IN_STOP: Final = "\\$}"
_SPECIAL_IN_CHOICE: Final = "\\$},|"


def as_plain(template: Template, indent: Indent) -> str:
    """The template as text, with the initial text of every stop."""
    return "".join(indent.laid(piece if isinstance(piece, str) else piece.first) for piece in template)


def as_snippet(template: Template, indent: Indent) -> str:
    """The template in the snippet syntax of the Language Server Protocol."""
    pieces: list[str] = []
    number = 0
    for piece in template:
        if isinstance(piece, str):
            pieces.append(_escaped(indent.laid(piece), _SPECIAL))
            continue
        number += 1
        if len(piece.choices) > 1:
            choices = ",".join(_escaped(choice, _SPECIAL_IN_CHOICE) for choice in piece.choices)
            pieces.append(f"${{{number}|{choices}|}}")
        else:
            text = _escaped(indent.laid(piece.first), _SPECIAL_IN_STOP)
            pieces.append(f"${{{number}:{text}}}" if text else f"${{{number}}}")
    return "".join(pieces)


def _escaped(text: str, signs: str) -> str:
    for sign in signs:
        text = text.replace(sign, f"\\{sign}")
    return text


def has_stops(template: Template) -> bool:
    """Whether a template has stops."""
    return any(isinstance(piece, Stop) for piece in template)


def joined(templates: Iterable[Template], between: str) -> Template:
    """Templates one after the other, with `between` between them."""
    pieces: list[str | Stop] = []
    for template in templates:
        if pieces:
            pieces.append(between)
        pieces.extend(template)
    return tuple(pieces)


def deeper(template: Template, levels: int) -> Template:
    """A template with more indentation after its first line."""
    tabs = "\t" * levels
    return tuple(piece.replace("\n", f"\n{tabs}") if isinstance(piece, str) else piece for piece in template)


def block(members: Iterable[Template], wrapping: Wrapping) -> Template:
    """The members of an object, one per line, inside `wrapping`."""
    if wrapping == "none":
        return joined(members, ",\n")
    inner = deeper(joined(members, ",\n"), 1)
    return ("{\n\t", *inner, "\n}") if wrapping == "braces" else ("\n\t", *inner, "\n")


def literal(value: Any) -> str:
    """A value as JSON; `null` for a value that JSON cannot hold."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return "null"


def inside_quotes(text: str) -> str:
    """A text in JSON, without its quotes."""
    return literal(text)[1:-1]


Kind: TypeAlias = Literal[
    "provider", "node", "lane", "class_type", "key", "value", "profile", "tool", "variable", "snippet", "name", "file", "folder"
]
About: TypeAlias = tuple[str, ...]
"""The key of an offer's documentation, for `page_about`."""


class Offer(msgspec.Struct, frozen=True):
    """A text that can be inserted at a gap. Offers with a low `rank` come first, then those made first.

    `template` is complete JSON, or complete members of an object; for a `key` it is the key, and `value` the text after it.
    Editors compare the typed text with `finds`, or with the label if it is empty. `span` is the replaced text if it differs
    from the gap; then `template` is plain text.
    """

    label: str
    kind: Kind
    template: Template
    detail: str = ""
    about: About = ()
    rank: int = 0
    finds: str = ""
    value: Template = ()
    span: Span | None = None


class CompletionItem(msgspec.Struct, frozen=True):
    """An offer as edits: `template` in place of a span, and `before` further up. `finds` begins like the typed text."""

    offer: Offer
    start: int
    end: int
    template: Template
    finds: str
    before: tuple[Edit, ...] = ()


def completion_item(offer: Offer, gap: Gap, text: str, style: Style) -> CompletionItem:
    """The edits that make an offer valid JSON in the gap."""
    if offer.span is not None:
        start, end = offer.span
        return CompletionItem(offer, start, end, offer.template, offer.finds or offer.label)
    template = offer.template
    if offer.kind == "key" and gap.colon == "missing":
        template = (*template, ":")
    elif offer.kind == "key" and gap.colon == "none":
        template = (*template, style.colon, *offer.value)
    if gap.lead:
        template = (gap.lead, *template)
    elif gap.start == gap.end and text[gap.start - 1 : gap.start] == ":" and style.colon.endswith(" "):
        template = (" ", *template)
    if gap.comma:
        template = (*template, "," if text[gap.end : gap.end + 1].isspace() else style.comma)
    finds = offer.finds or offer.label
    before = () if gap.before is None else (gap.before,)
    if gap.quote != '"' or not _begins_quoted(template):
        return CompletionItem(offer, gap.start, gap.end, template, gap.quote + finds + gap.quote, before)
    template, end = _inside_quotes(template, gap, text)
    return CompletionItem(offer, gap.start + 1, end, template, finds, before)


def _begins_quoted(template: Template) -> bool:
    return bool(template) and isinstance(template[0], str) and template[0].startswith('"')


def _inside_quotes(template: Template, gap: Gap, text: str) -> tuple[Template, int]:
    """The template without the opening quote, and without the closing one if the text has it; and the end of its span.

    Simple editors replace the word at the cursor, regardless of the range, so existing quotes stay.
    """
    template = (str(template[0])[1:], *template[1:])
    last = template[-1]
    cursor = gap.start + len(gap.typed)
    if isinstance(last, str) and last.endswith('"') and cursor < gap.end and is_closed(text[gap.start : gap.end]):
        return (*template[:-1], last[:-1]), gap.end - 1
    return template, gap.end


def ranked(offers: Iterable[Offer]) -> list[Offer]:
    """The offers in display order."""
    return sorted(offers, key=lambda offer: offer.rank)
