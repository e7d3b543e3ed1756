"""Offers for a gap, and the edits that insert them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from rrext.editor.completions.gap import Gap
from rrext.editor.completions.template import Template
from rrext.editor.completions.walk import is_closed
from rrext.editor.edits import Edit
from rrext.editor.style import Style
from rrext.pipefile.text.problems import Span

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
