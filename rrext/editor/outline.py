"""The components of a pipeline: as an outline and lenses above its lines, and their ids: occurrences, definitions, renaming.

The outline has the sources, the chain behind them, and the components that they do not reach. The components are siblings,
although one leads to the next: editors find the symbol at the cursor by descending into nested ranges, so nested symbols must
be nested in the text. The order and the details show the chain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

import msgspec

from rrext.editor.analysis import Analysis, WrittenComponent, WrittenEdge, WrittenPipeline, member
from rrext.editor.page import readable
from rrext.editor.text import Edit
from rrext.nodes.base.node import accepted_input
from rrext.pipefile.edges import is_response
from rrext.pipefile.spec import ComponentSpec, offered_references
from rrext.pipefile.text.problems import Span, below, shown
from rrext.pipefile.text.source import parse
from rrext.pipefile.text.tree import Located
from rrext.secrets.names import is_secret, masked

MAX_OUTLINE_DEPTH: Final = 3
"""Levels of settings in the outline."""

MAX_SYMBOLS: Final = 5000
"""Symbols of one document; more are useless and slow to draw."""

SymbolKind: TypeAlias = Literal[
    "source",
    "node",
    "helper",
    "response",
    "unknown",
    "edge",
    "settings",
    "text",
    "number",
    "boolean",
    "array",
    "object",
    "null",
]


class Symbol(msgspec.Struct, frozen=True):
    """A named item. `name_span` lies inside `span`, and both lie inside the span of the parent symbol."""

    name: str
    kind: SymbolKind
    span: Span
    name_span: Span
    detail: str = ""
    children: tuple[Symbol, ...] = ()


def symbols_of(analysis: Analysis) -> list[Symbol]:
    """The symbols of all components, the sources first."""
    return _Outline(analysis).run()


class _Outline:
    """One outline of one document; `_left` is the number of further symbols that it may have."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._written = analysis.written
        self._left = MAX_SYMBOLS

    def run(self) -> list[Symbol]:
        outline, drafts = self._analysis.loaded.outline, self._analysis.by_id
        reached = dict.fromkeys(drafts[node_id].index for node_id in (*outline.sources, *outline.chain))
        components = self._written.components
        order = list(dict.fromkeys((*reached, *range(len(components)))))[: self._take(len(components))]
        return [self._component(components[index], connected=not reached or index in reached) for index in order]

    def _component(self, component: WrittenComponent, *, connected: bool) -> Symbol:
        located = component.located
        own = member(located, "id")
        name_span = (
            (own.start, own.end) if own is not None and component.id else (located.start, min(located.start + 1, located.end))
        )
        return Symbol(
            _component_name(component),
            self._kind(component),
            (located.start, located.end),
            name_span,
            readable(" · ".join(self._details(component, connected)), 120),
            self._inside(component),
        )

    def _kind(self, component: WrittenComponent) -> SymbolKind:
        node = self._written.node_of(component)
        if node is None:
            return "unknown"
        if node.is_source():
            return "source"
        if is_response(self._analysis.drafts[component.index]):
            return "response"
        return "node" if node.lanes else "helper"

    def _details(self, component: WrittenComponent, connected: bool) -> list[str]:
        said = [component.provider] if component.provider else []
        for edge in component.edges[:5]:
            said.append(f"{edge.name} from {edge.source}" if edge.kind == "input" else f"{edge.name} for {edge.source}")
        return said if connected else [*said, "not connected"]

        # symbols inside a component

    def _inside(self, component: WrittenComponent) -> tuple[Symbol, ...]:
        found = [self._edge(edge, component.edge(edge)) for edge in component.edges[: self._take(len(component.edges))]]
        config = member(component.located, "config")
        if config is not None and config.key_span is not None and self._take(1):
            found.append(self._setting(config, 0))
        return tuple(sorted(found, key=lambda symbol: symbol.span))

    def _edge(self, edge: WrittenEdge, located: Located) -> Symbol:
        own = member(located, "from") or located
        name = (
            f"{edge.name or '?'} ← {edge.source or '?'}"
            if edge.kind == "input"
            else f"{edge.name or '?'} for {edge.source or '?'}"
        )
        return Symbol(readable(name, 100), "edge", (located.start, located.end), (own.start, own.end), edge.kind)

    def _setting(self, located: Located, depth: int, secret: str = "") -> Symbol:
        key, key_span = located.key or "", located.key_span
        assert key_span is not None
        secret = key if is_secret(key) and secret != "secureParameters" else secret
        members: list[Symbol] = []
        if located.kind == "object" and depth < MAX_OUTLINE_DEPTH:
            inner = [child for child in located.children if child.key_span is not None]
            members = [self._setting(child, depth + 1, secret) for child in inner[: self._take(len(inner))]]
        detail = (
            "" if located.kind in ("object", "array", "hole") else json.dumps(masked(located.value, secret), ensure_ascii=False)
        )
        return Symbol(
            readable(key if key.strip() else f'"{key}"', 100),
            "settings" if depth == 0 else _KINDS.get(located.kind, "null"),
            (key_span[0], max(key_span[1], located.end)),
            key_span,
            readable(detail, 60),
            children=tuple(members),
        )

    def _take(self, count: int) -> int:
        """The number of symbols, of `count`, that still fit; they are deducted."""
        taken = max(min(count, self._left), 0)
        self._left -= taken
        return taken


_KINDS: Final[dict[str, SymbolKind]] = {
    "string": "text",
    "number": "number",
    "true": "boolean",
    "false": "boolean",
    "array": "array",
    "object": "object",
}


def _component_name(component: WrittenComponent) -> str:
    name = component.id or component.name or component.provider
    return readable(name, 100).strip() or f"component {component.index + 1}"


MAX_LENS_VALUE: Final = 40
"""Characters of the name of a tool in the title of a lens."""

MAX_TOOL_COMMENTS: Final = 1000
"""Comments of one document that are offered as calls; nobody writes more."""

Action: TypeAlias = Literal["run_tool", "send_file", "chat", "run_cases", "show_graph"]

_TOOL_COMMENT: Final = re.compile(r"^[ \t]*//[ \t]*(rrext tool[ \t]+([^\s{]+)[ \t]*(\{.*\})?)[ \t\r]*$", re.MULTILINE)
"""`// rrext tool NAME {…}` on a line of its own; no line of a sound string begins so."""


class Lens(msgspec.Struct, frozen=True):
    """An action at a span. `arguments` are those of the action, without the document.

    `is_comment`: the action is written in a comment with all its arguments.
    """

    span: Span
    action: Action
    title: str
    arguments: dict[str, Any] = {}
    is_comment: bool = False

    @property
    def runs(self) -> bool:
        """Whether the action runs code of the pipeline."""
        return self.action != "show_graph"


def lenses_of(analysis: Analysis, *, has_cases: bool = False) -> list[Lens]:
    """All lenses of a document, in the order of its text. `has_cases`: cases stand beside it."""
    start = analysis.map.span(analysis.base)[0]
    found = [Lens((start, start + 1), "show_graph", "Show graph")] if analysis.drafts else []
    if has_cases:
        found.append(Lens((start, start + 1), "run_cases", "Run cases"))
    offering = offered_references(analysis.drafts).nodes
    for draft in analysis.drafts:
        if draft.node is not None and (draft.node.tools or draft.node.has_dynamic_tools or draft.id in offering):
            found.append(Lens(_at(analysis, draft), "run_tool", "Run tool…", {"node": draft.id}))
    if (source := source_of(analysis, "send")) is not None:
        found.append(Lens(_at(analysis, source), "send_file", "Send file…"))
    if (source := source_of(analysis, "chat")) is not None:
        found.append(Lens(_at(analysis, source), "chat", "Chat…"))
    found += islice(_tool_comments(analysis), MAX_TOOL_COMMENTS)
    return sorted(found, key=lambda lens: lens.span)


def source_of(analysis: Analysis, kind: str) -> ComponentSpec | None:
    """The source that accepts a kind of input (`send`, `chat`); None if no source does, or several do."""
    sources = [analysis.by_id[name] for name in analysis.loaded.outline.sources]
    found = [source for source in sources if source.node is not None and kind in accepted_input(source.node)]
    return found[0] if len(found) == 1 else None


def _at(analysis: Analysis, draft: ComponentSpec) -> Span:
    """The span of a component's id, or of the component."""
    located = analysis.map.find(below(draft.path, "id")) or analysis.map.find(draft.path)
    return (0, 0) if located is None else (located.start, located.end)


def _tool_comments(analysis: Analysis) -> Iterator[Lens]:
    """The calls in comments: a tool of the component around the comment, else of the first component that has it."""
    for found in _TOOL_COMMENT.finditer(analysis.text):
        source = parse(found[3] or "{}", limits=analysis.settings.limits)
        if source.problems or not isinstance(source.value, dict):
            continue
        around = analysis.component_at(found.start(1))
        node = {"node": around.id} if around is not None and around.id else {}
        title = f"Run {readable(found[2], MAX_LENS_VALUE)}"
        yield Lens(found.span(1), "run_tool", title, {**node, "tool": found[2], "input": source.value}, is_comment=True)


Use: TypeAlias = Literal["id", "from", "source", "node"]


class NotRenamed(Exception):
    """A rename is refused; the text says why."""


class Name(msgspec.Struct, frozen=True):
    """One occurrence of an id. `span` is the text between the quotes, `outer` includes them.

    `component` is the index of the component that holds it; None for the pipeline's `source`. `sound`: it is a valid JSON
    string.
    """

    value: str
    use: Use
    span: Span
    outer: Span
    component: int | None
    sound: bool


class Names:
    """All ids in one state of a document, in file order.

    A duplicate id means the first component that has it, as in the engine; only its own `id` names the other component.
    """

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self.written = analysis.written
        self._names = sorted(_names(self.written, analysis.text), key=lambda name: name.span)

    def __iter__(self) -> Iterator[Name]:
        return iter(self._names)

    def at(self, offset: int) -> Name | None:
        """The id at an offset, quotes included."""
        for name in self._names:
            if name.outer[0] <= offset <= name.outer[1]:
                return name
        return None

    def declaration(self, name: Name) -> Name | None:
        """The `id` member that an occurrence refers to; None if no component has it."""
        if name.use == "id":
            return name
        component = self.written.by_id.get(name.value)
        index = None if component is None else component.index
        return next((other for other in self._names if other.use == "id" and other.component == index), None)

    def of_tool(self, offset: int) -> Name | None:
        """The component whose tool a reference at an offset means, as a name that stands there."""
        for reference in self.written.references():
            located = reference.located if not reference.kind else member(reference.located, "tool")
            if located is not None and located.start <= offset <= located.end:
                owner, span = self.written.owner_of(reference), (located.start, located.end)
                return None if owner is None else Name(owner.id, "node", span, span, reference.holder, False)
        return None

    def meaning(self, name: Name) -> list[Name]:
        """All occurrences that name the same component, its `id` included. For an undeclared id, all its uses."""
        declared = self.declaration(name)
        if declared is not None and not self._is_first(declared):
            return [declared]
        return [other for other in self._names if other.value == name.value and (other.use != "id" or other == declared)]

    def _is_first(self, declared: Name) -> bool:
        return self.written.by_id[declared.value].index == declared.component

    # renaming

    def renamed(self, name: Name, new: str) -> list[Edit]:
        """The edits that rename a component everywhere. Raises `NotRenamed`."""
        places = self.meaning(name)
        self._refuse(name, new, places)
        if new == name.value:
            return []
        text = json.dumps(new, ensure_ascii=False)[1:-1]
        return [Edit(*place.span, text) for place in places]

    def check_renameable(self, name: Name) -> None:
        """Raise `NotRenamed` if the id cannot be renamed at all."""
        self._refuse_text(self.meaning(name))

    def _refuse(self, name: Name, new: str, places: list[Name]) -> None:
        self._refuse_text(places)
        if not new.strip():
            raise NotRenamed("An id may not be empty.")
        if "${" in new:
            raise NotRenamed("An id must be literal: variables are replaced in config alone.")
        if new.encode("utf-8", "replace").decode("utf-8") != new:
            raise NotRenamed("This id is no Unicode: it holds half of a character.")
        if new == name.value:
            return
        if new in self.written.by_id:
            raise NotRenamed(f"The id {shown(new)} is taken: every component needs its own.")
        if any(other.value == new for other in self._names):
            raise NotRenamed(f"{shown(new)} is used already, as the id of no component: renaming would connect what is not.")

    def _refuse_text(self, places: list[Name]) -> None:
        broken = next((place for place in places if not place.sound), None)
        if broken is not None:
            raise NotRenamed(f"The id {self._where(broken)} has no proper quotes: mend that first.")

    def _where(self, name: Name) -> str:
        line, column = self._analysis.map.position(name.span[0])
        return f"in line {line}, column {column}"


def _names(written: WrittenPipeline, text: str) -> Iterator[Name]:
    if written.source is not None:
        yield from _name(written.source, "source", None, text)
    for component in written.components:
        yield from _name(member(component.located, "id"), "id", component.index, text)
        for edge in component.edges:
            yield from _name(member(component.edge(edge), "from"), "from", component.index, text)
    for reference in written.references():
        if reference.kind == "node":
            yield from _name(member(reference.located, "node"), "node", reference.holder, text)


def _name(located: Located | None, use: Use, component: int | None, text: str) -> Iterator[Name]:
    if located is None or not isinstance(located.value, str) or not located.value:
        return
    start, end = located.start, located.end
    raw = text[start:end]
    sound = len(raw) > 1 and raw[0] == raw[-1] == '"'
    if sound:
        try:
            sound = json.loads(raw) == located.value
        except ValueError:
            sound = False
    quoted = raw[:1] in ('"', "'")
    closed = quoted and len(raw) > 1 and raw[-1] == raw[0]
    yield Name(located.value, use, (start + quoted, end - closed), (start, end), component, sound)
