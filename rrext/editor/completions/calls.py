"""Offers in call lines: `// rrext tool read_file {"path": "a.txt"}`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from rrext.editor.analysis import Analysis
from rrext.editor.completions.fields import schema_keys, schema_values
from rrext.editor.completions.gap import Gap, gap_at
from rrext.editor.completions.offer import CompletionItem, Offer, completion_item, ranked
from rrext.editor.completions.summaries import ComponentSummaries, ComponentSummary
from rrext.editor.completions.template import Template, has_stops
from rrext.editor.completions.values import template_of
from rrext.editor.known_nodes import KnownNodes, input_schema
from rrext.editor.schemas.lookup import Schema, fields_of, schemas_at
from rrext.editor.style import Style
from rrext.pipefile.text.pointer import below
from rrext.pipefile.text.source import SourceMap, parse
from rrext.tools.spec import ToolSpec

_BEGUN: Final = re.compile(r"(?://|/\*)[ \t]*(rr\w*(?:[ \t]+\w*)?)\Z")
_CALL: Final = re.compile(r"(?://|/\*)[ \t]*rrext[ \t]+tool[ \t]+")
_NODE: Final = re.compile(r"--node[ \t]+(\S*)\Z")
_NAME: Final = re.compile(r"(?:--node[ \t]+(\S+)[ \t]+)?([\w-]*)\Z")
_INPUT: Final = re.compile(r"(?:--node[ \t]+(\S+)[ \t]+)?([\w-]+)[ \t]+(?:--node[ \t]+(\S+)[ \t]+)?(?=\{)")
_WORD: Final = re.compile(r"[\w-]*")
_REST: Final = re.compile(r"[^\r\n]*")
_KINDS: Final = {
    "tool": "calls a tool of this pipeline",
    "send": "sends files into this pipeline",
    "chat": "asks this pipeline a question",
}


class Owner(msgspec.Struct, frozen=True):
    """A component that has tools."""

    summary: ComponentSummary
    tools: dict[str, ToolSpec]


def call_offers(
    analysis: Analysis, gap: Gap, summaries: ComponentSummaries, known_nodes: KnownNodes, cursor: int, style: Style
) -> list[CompletionItem]:
    """The completions of a call line at the cursor; none in a comment that is not a call line."""
    call = _CALL.match(gap.typed)
    if call is None:
        begun = _BEGUN.match(gap.typed)
        return [] if begun is None else _kinds(gap, cursor - len(begun[1]), cursor, style)
    text, at = gap.typed[call.end() :], gap.start + call.end()
    owners = [
        Owner(summary, dict(node.tools))
        for summary in summaries.all
        if (node := known_nodes.node(summary.provider)) and node.tools
    ]
    given = _INPUT.match(text)
    if given is not None:
        owner = _owner(owners, given[2], given[1] or given[3] or "")
        return [] if owner is None else _inside(analysis.text, owner, given[2], at + given.end(), cursor, style)
    offers: Iterator[Offer] = iter(())
    if (node := _NODE.search(text)) is not None:
        offers = _ids(owners, (at + node.start(1), cursor))
    elif (name := _NAME.match(text)) is not None:
        offers = _names(analysis.text, owners, name[1] or "", (at + name.start(2), cursor))
    return [completion_item(offer, gap, analysis.text, style) for offer in ranked(offers)]


def _kinds(gap: Gap, start: int, cursor: int, style: Style) -> list[CompletionItem]:
    found: list[CompletionItem] = []
    for name, detail in _KINDS.items():
        offer = Offer(f"rrext {name}", "snippet", (f"rrext {name} ",), detail, span=(start, cursor))
        found.append(completion_item(offer, gap, "", style))
    return found


def _ids(owners: list[Owner], span: tuple[int, int]) -> Iterator[Offer]:
    for owner in owners:
        if owner.summary.id:
            detail = f"{owner.summary.provider} · {', '.join(owner.tools)}"
            yield Offer(owner.summary.id, "node", (owner.summary.id,), detail, ("provider", owner.summary.provider), span=span)


def _names(text: str, owners: list[Owner], node_id: str, span: tuple[int, int]) -> Iterator[Offer]:
    """The tools, with an input to fill in if no text follows the cursor."""
    word = _WORD.match(text, span[1])
    end = span[1] if word is None else word.end()
    rest = _REST.match(text, end)
    is_last = rest is None or not rest[0].replace("*/", "").strip()
    for owner in owners:
        if node_id and owner.summary.id != node_id:
            continue
        for name, spec in owner.tools.items():
            about = ("tool", owner.summary.provider, name)
            written: Template = (name, *_input(spec)) if is_last else (name,)
            detail = f"{owner.summary.id} ({owner.summary.provider})"
            yield Offer(name, "tool", written, detail, about, span=(span[0], end))


def _input(spec: ToolSpec) -> Template:
    schema = input_schema(spec)
    begun: Template = () if schema is None else template_of(schema, schemas_at(schema, ()))
    return (" ", *begun) if has_stops(begun) and len(begun) > 3 else ()


def _inside(text: str, owner: Owner, name: str, start: int, cursor: int, style: Style) -> list[CompletionItem]:
    """The completions inside an input: JSON of its own, in one line."""
    schema = input_schema(owner.tools[name])
    rest = _REST.match(text, start)
    if schema is None or rest is None:
        return []
    written = rest[0].partition("*/")[0]
    where = parse(written).map
    assert where is not None  # parse always makes it
    gap = gap_at(where, cursor - start)
    offers = _in_input(schema, where, gap, ("argument", owner.summary.provider, name))
    return [_moved(completion_item(offer, gap, written, style), start) for offer in ranked(offers)]


def _in_input(schema: Schema, where: SourceMap, gap: Gap, about: tuple[str, ...]) -> Iterator[Offer]:
    schemas = schemas_at(schema, gap.path)
    if gap.place in ("value", "element"):
        yield from schema_values(schema, schemas, (*about, *gap.path))
    elif gap.place == "key":
        located = where.find(below("", *gap.path))
        children = [] if located is None else located.children
        present = {child.key for child in children if child.key_span is not None and child.key_span[0] != gap.start}
        yield from schema_keys(schema, fields_of(schema, schemas), present, (*about, *gap.path), {})


def _moved(item: CompletionItem, by: int) -> CompletionItem:
    before = tuple(msgspec.structs.replace(edit, start=edit.start + by, end=edit.end + by) for edit in item.before)
    return msgspec.structs.replace(item, start=item.start + by, end=item.end + by, before=before)


def _owner(owners: list[Owner], name: str, node_id: str) -> Owner | None:
    return next((owner for owner in owners if name in owner.tools and node_id in ("", owner.summary.id)), None)
