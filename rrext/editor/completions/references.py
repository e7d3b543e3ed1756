"""Offers where a text names something else: ids, lanes, class types and complete edges, the best first; and the parts of
references to tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from rrext.editor.analysis import WrittenComponent, text_at
from rrext.editor.completions.context import CompletionContext, CursorComponent
from rrext.editor.completions.offer import Offer, Stop, Template, inside_quotes, joined, literal
from rrext.editor.completions.settings import schema_keys, schema_values, variables_as_values
from rrext.editor.known_nodes import input_schema
from rrext.editor.page import PERMISSION_TEXTS, REFERENCE_FORMS
from rrext.editor.schemas import Schema, fields_of, kinds_of, schemas_at
from rrext.nodes.base.lanes import LANES
from rrext.nodes.base.node import Node, accepted_lanes, offered_lanes, served_types
from rrext.pipefile.shape import EDGE_KEYS, EDGE_TOOLS
from rrext.pipefile.spec import EdgeKind
from rrext.references import CONDITIONS, FORMS, OF_ONE_TOOL, PATTERNS, WHOLE, WITH_VALUES, WRAPPING, KnownConnection

FITS, PERHAPS, NOT, CIRCLE = range(4)


class EdgeTarget(msgspec.Struct, frozen=True):
    """The component that an edge leads to: its node, if known, its index in the file and its id."""

    node: type[Node] | None
    index: int
    id: str = ""


class SourceCandidate(msgspec.Struct, frozen=True):
    """A component that an edge could come from. `names` are the lanes or class types that fit; `why` is the reason in words.

    `fit` is one of `FITS`, `PERHAPS`, `NOT` and `CIRCLE`; `wanted` is 0 if the node requests such an edge, 1 if it allows it.
    """

    component: WrittenComponent
    fit: int
    names: tuple[str, ...]
    why: str
    wanted: int


_Suitability: TypeAlias = tuple[int, tuple[str, ...], str, int]
"""The `fit`, `names`, `why` and `wanted` of a node."""


class PossibleEdge(msgspec.Struct, frozen=True):
    """An edge that could be added."""

    kind: EdgeKind
    name: str
    source: str
    wanted: int = 0


def invoked_types(node: type[Node], served: Iterable[str]) -> tuple[str, ...]:
    """The class types of `served` that a node invokes. Clients can call nodes bound to a source, so sources invoke tools."""
    return tuple(name for name in served if name in node.invoke or (node.is_source() and name == "tool"))


def names_between(kind: EdgeKind, source: type[Node] | None, end: type[Node] | None) -> tuple[str, ...]:
    """The lanes or class types that both ends have; if one end is unknown, all of the other end."""
    if kind == "input":
        offered = None if source is None else offered_lanes(source)
        accepted = None if end is None else accepted_lanes(end)
        if offered is None or accepted is None:
            return accepted or offered or (LANES if offered is accepted else ())
        return tuple(lane for lane in offered if lane in accepted)
    served = None if end is None else served_types(end)
    if source is None:
        return served or ()
    return tuple(source.invoke) if served is None else invoked_types(source, served)


def source_candidates(
    context: CompletionContext, kind: EdgeKind, end: EdgeTarget, name: str = "", among: Iterable[WrittenComponent] | None = None
) -> list[SourceCandidate]:
    """The components from which an edge of a kind could come, best first; with a `name`, for that lane or class type.

    They are the other components of the pipeline, or those of `among`; the nearest come first.
    """
    behind = context.written.behind(end.id, kind)
    known: dict[type[Node] | None, _Suitability] = {}
    found: list[SourceCandidate] = []
    for component in _nearest(context, end.index) if among is None else among:
        node = context.node(component)
        if node not in known:
            known[node] = _suitability(node, kind, end.node, name)
        fit, names, why, wanted = known[node]
        if component.id in behind:
            fit, why = CIRCLE, "would make a circle"
        found.append(SourceCandidate(component, fit, names, why, wanted))
    return sorted(found, key=lambda peer: (peer.fit, peer.wanted))


def possible_edges(
    context: CompletionContext, kind: EdgeKind, end: EdgeTarget, among: Iterable[WrittenComponent] | None = None
) -> Iterator[PossibleEdge]:
    """The edges of a kind that could lead to a component, best first."""
    for peer in source_candidates(context, kind, end, among=among):
        if peer.fit == FITS:
            for name in peer.names:
                yield PossibleEdge(kind, name, peer.component.id, peer.wanted)


def best(
    context: CompletionContext, end: EdgeTarget, kind: EdgeKind | None = None, among: Iterable[WrittenComponent] | None = None
) -> PossibleEdge | None:
    """The edge that a component most likely needs: from a node that requests it, else from a source of its data."""
    if end.node is None:
        return None
    control = next(possible_edges(context, "control", end, among), None) if kind != "input" and served_types(end.node) else None
    if control is not None and (kind == "control" or control.wanted == 0):
        return control
    data = next(possible_edges(context, "input", end, among), None) if kind != "control" and accepted_lanes(end.node) else None
    return data or control


def nearest_of_each(context: CompletionContext, index: int) -> list[WrittenComponent]:
    """The nearest component of each node type: the candidates for a component without edges."""
    found: dict[str, WrittenComponent] = {}
    for component in _nearest(context, index):
        found.setdefault(component.provider, component)
    return list(found.values())


def _nearest(context: CompletionContext, index: int) -> Iterator[WrittenComponent]:
    """The other components: first those before an index, upwards, then those after it."""
    yield from (component for component in reversed(context.others) if component.index < index)
    yield from (component for component in context.others if component.index >= index)


def _suitability(node: type[Node] | None, kind: EdgeKind, end: type[Node] | None, name: str) -> _Suitability:
    names = names_between(kind, node, end)
    fitting = tuple(each for each in names if each == name) if name else names
    wanted = 0 if kind == "input" or (node is not None and any(each in node.invoke for each in fitting)) else 1
    if node is None:
        return (PERHAPS, fitting, "", wanted)
    verb = "sends" if kind == "input" else "invokes"
    if fitting:
        return (FITS, fitting, f"{verb} {', '.join(fitting)}", wanted)
    has = offered_lanes(node) if kind == "input" else invoked_types(node, dict.fromkeys((*node.invoke, "tool")))
    if not has:
        return (NOT, (), f"{verb} nothing", wanted)
    return (NOT, (), f"{verb} {f'no {name}, ' if name else ''}only {', '.join(has)}", wanted)


NAME_KEYS: Final = {kind: keys[0] for kind, keys in EDGE_KEYS.items()}
"""The key of an edge's lane or class type, by kind."""


def target_of(component: CursorComponent) -> EdgeTarget:
    """The component around the cursor, as the target of an edge."""
    return EdgeTarget(component.node, component.index, component.id)


def edge_template(name_key: str, name: str, source: str, *, braces: bool = True) -> Template:
    """A complete edge, with its values as stops."""
    inner: Template = (
        f'{literal(name_key)}: "',
        Stop(inside_quotes(name)),
        '", "from": "',
        Stop(inside_quotes(source)),
        '"',
    )
    return ("{ ", *inner, " }") if braces else inner


def edge_values(context: CompletionContext, component: CursorComponent, kind: EdgeKind) -> Iterator[Offer]:
    """The values after a key of an edge."""
    _, place, key = component.parts
    if key == "from":
        yield from _sources(context, component, kind, component.text(kind, place, NAME_KEYS[kind]))
    elif key == NAME_KEYS[kind]:
        source = _node_of(context, component.text(kind, place, "from"))
        yield from _names(component, kind, place, source)


def edge_keys(context: CompletionContext, component: CursorComponent, kind: EdgeKind) -> Iterator[Offer]:
    """The keys of an edge; for an empty one, also complete edges."""
    present = component.keys(*component.parts)
    for rank, key in enumerate(EDGE_KEYS[kind]):
        if key not in present:
            value = _begun(context, component, kind, key)
            about = ("key", "edge", key)
            yield Offer(key, "key", (literal(key),), rank=rank - 10, about=about, value=('"', Stop(value), '"'))
    if kind == "control" and EDGE_TOOLS not in present and component.node is not None and component.node.tools:
        value = ("[", Stop(), "]")
        yield Offer(EDGE_TOOLS, "key", (literal(EDGE_TOOLS),), rank=0, about=("key", "edge", EDGE_TOOLS), value=value)
    if not present and context.gap.colon == "none":
        yield from edge_snippets(context, component, kind, braces=False)


def edge_snippets(
    context: CompletionContext, component: CursorComponent, kind: EdgeKind, *, braces: bool = True
) -> Iterator[Offer]:
    """One edge for each way to connect the component; missing ones come first."""
    there = {(text_at(edge, NAME_KEYS[kind]), text_at(edge, "from")) for edge in component.items(kind)}
    found = list(possible_edges(context, kind, target_of(component)))
    for fit in found:
        rank = 5 if (fit.name, fit.source) in there else fit.wanted
        yield _edge_snippet(fit, rank, braces=braces)
    if not found:
        label = f'"{NAME_KEYS[kind]}": …, "from": …'
        template = edge_template(NAME_KEYS[kind], "", "", braces=braces)
        yield Offer(label, "snippet", template, "a new edge", about=("key", "component", kind))


def _edge_snippet(fit: PossibleEdge, rank: int, *, braces: bool) -> Offer:
    verb = "sends" if fit.kind == "input" else "invokes as"
    return Offer(
        f"{fit.source} → {fit.name}",
        "snippet",
        edge_template(NAME_KEYS[fit.kind], fit.name, fit.source, braces=braces),
        f"{fit.source} {verb} {fit.name}",
        about=("lane", fit.name) if fit.kind == "input" else ("key", "edge", "classType"),
        rank=rank,
        finds=f"{fit.source} {fit.name}",
    )


def _sources(context: CompletionContext, component: CursorComponent, kind: EdgeKind, name: str) -> Iterator[Offer]:
    for peer in source_candidates(context, kind, target_of(component), name):
        other = peer.component
        detail = " · ".join(text for text in (other.provider, peer.why) if text)
        about = ("provider", other.provider)
        yield Offer(other.id, "node", (literal(other.id),), detail, about, rank=peer.fit)


def _names(component: CursorComponent, kind: EdgeKind, place: str, source: type[Node] | None) -> Iterator[Offer]:
    """The lanes or class types of an edge; those that both ends have come first."""
    node, name_key = component.node, NAME_KEYS[kind]
    from_id = component.text(kind, place, "from")
    sender, receiver = from_id or "the other end", component.id or "this node"
    if kind == "input":
        sent, taken = None if source is None else offered_lanes(source), None if node is None else accepted_lanes(node)
        ends = ((sender, "sends it", "does not send it", sent), (receiver, "accepts it", "does not accept it", taken))
    else:
        sent = None if source is None else invoked_types(source, dict.fromkeys((*source.invoke, "tool")))
        taken = None if node is None else served_types(node)
        ends = (
            (receiver, "serves as it", "does not serve as it", taken),
            (sender, "invokes it", "does not invoke it", sent),
        )
    there = {text_at(edge, name_key) for edge in component.items(kind) if from_id and text_at(edge, "from") == from_id}
    fitting = names_between(kind, source, node)
    for name in dict.fromkeys((*fitting, *(taken or ()), *(sent or ()))):
        detail = "; ".join(f"{who} {yes if name in known else no}" for who, yes, no, known in ends if known is not None)
        rank = (0 if name in fitting else 2) + (name in there)
        is_lane = kind == "input"
        about = ("lane", name) if is_lane else ("key", "edge", "classType")
        yield Offer(name, "lane" if is_lane else "class_type", (literal(name),), detail, about, rank)


def _begun(context: CompletionContext, component: CursorComponent, kind: EdgeKind, key: str) -> str:
    """The most likely value of a key of an edge, given its other key."""
    place = component.parts[1]
    other = component.text(kind, place, NAME_KEYS[kind] if key == "from" else "from")
    for fit in possible_edges(context, kind, target_of(component)):
        if not other or other == (fit.name if key == "from" else fit.source):
            return inside_quotes(fit.source if key == "from" else fit.name)
    return ""


def _node_of(context: CompletionContext, node_id: str) -> type[Node] | None:
    other = context.written.by_id.get(node_id)
    return None if other is None else context.node(other)


_EMPTY: Final[Template] = ("{", Stop(), "}")
_TEXT: Final[Template] = ('"', Stop(), '"')
_PERMISSION: Final[Template] = (Stop(choices=('"ask"', '"deny"', '"allow"')),)
_VALUES: Final[Mapping[str, Template]] = {
    "arguments": _EMPTY,
    "parameters": _EMPTY,
    "available": _EMPTY,
    "permission": _PERMISSION,
    "timeout": (Stop("30"),),
    "users": ("[", Stop(), "]"),
    "include": ('["', Stop(), '"]'),
    "exclude": ('["', Stop(), '"]'),
    "space": ('"required"',),
}
"""Key → a new value, if it is not any text."""


def reference_at(component: CursorComponent) -> ReferencePlace | None:
    """The list of references around the cursor; None elsewhere."""
    match component.parts:
        case ("config", "tools", *inner) if component.node is not None and component.node.takes_references:
            return ReferencePlace(component, ("config", "tools"), tuple(inner), is_edge=False)
        case ("control", place, key, *inner) if key == EDGE_TOOLS:
            return ReferencePlace(component, ("control", place, EDGE_TOOLS), tuple(inner), is_edge=True)
        case _:
            return None


class ReferencePlace:
    """A place in a list of references. `inner` is the path from the list; those on an edge mean tools of their component."""

    def __init__(self, component: CursorComponent, base: tuple[str, ...], inner: tuple[str, ...], *, is_edge: bool) -> None:
        self.component = component
        self.inner = inner
        self.is_edge = is_edge
        self._base = base

    @property
    def takes_variables(self) -> bool:
        """Whether the value of a variable is put in here."""
        return len(self.inner) > 2 and self.inner[1] in WITH_VALUES

    def offers(self, context: CompletionContext) -> Iterator[Offer]:
        """All offers at the place."""
        is_key = context.gap.place == "key"
        match self.inner:
            case ():
                about = ("key", "edge" if self.is_edge else "reference", "tools")
                yield Offer("[ ]", "value", ("[", Stop(), "]"), "references to tools", about, finds="[")
            case (_,):
                yield from self._keys() if is_key else self._whole(context)
            case (_, "arguments" | "parameters" | "available") if not is_key:
                yield Offer("{ }", "value", _EMPTY, "", ("key", "reference", self.inner[1]), finds="{")
            case (_, key) if not is_key:
                yield from self._values(context, key)
            case (_, "available"):
                present = self.keys("available")
                yield from (_key(key, rank) for rank, key in enumerate(CONDITIONS) if key not in present)
            case (_, "available", key):
                yield from self._conditions(context, key)
            case (_, "arguments" | "parameters" as part, *path):
                yield from self._parts(context, part, tuple(path), is_key=is_key)
            case _:
                return

    def text(self, key: str) -> str:
        """A text of the reference around the cursor; empty if there is none."""
        return self.component.text(*self._base, self.inner[0], key)

    @property
    def kind(self) -> str:
        """The type of the reference around the cursor."""
        return "node" if self.is_edge else self.text("type")

    def keys(self, *parts: str) -> frozenset[str]:
        """The keys of an object of the reference, without the incomplete one."""
        return self.component.keys(*self._base, self.inner[0], *parts)

    # whole references

    def _whole(self, context: CompletionContext) -> Iterator[Offer]:
        if self.is_edge:
            for tool in () if self.component.node is None else self.component.node.tools:
                yield _snippet({"tool": tool}, tool, f"a tool of {self.component.id}", ("name",))
            return
        for part, node in _with_tools(context):
            for tool in node.tools:
                yield Offer(tool, "tool", (literal(tool),), f"{part.id} ({part.provider})", ("tool", part.provider, tool))
        for part, node in _with_tools(context):
            for tool in node.tools:
                form = {"type": "node", "node": part.id, "tool": tool}
                yield _snippet(form, f"{part.id}.{tool}", "a tool of a component", rank=1)
            if node.has_dynamic_tools:
                yield _snippet({"type": "node", "node": part.id}, part.id, "a tool of a component", ("tool",), rank=1)
        known = context.analysis.settings.connections or ()
        for connection in known:
            yield _of_connection(connection)
        for kind in FORMS:
            if kind not in ("node", "gateway") and not any(connection.provider == kind for connection in known):
                yield _snippet({"type": kind}, kind, REFERENCE_FORMS[kind], FORMS[kind], rank=3)

    def _keys(self) -> Iterator[Offer]:
        present, form = self.keys(), FORMS.get(self.kind, ())
        own = ("tool",) if self.is_edge else ("type", *form)
        is_whole = self.kind in WHOLE and "tool" not in present
        more = (*PATTERNS, *(key for key in WRAPPING if key not in OF_ONE_TOOL)) if is_whole else WRAPPING
        for rank, key in enumerate((*own, *more)):
            if key not in present and not (key == "tool" and present & {*PATTERNS}):
                value: Template = (Stop(choices=tuple(map(literal, FORMS))),) if key == "type" else _VALUES.get(key, _TEXT)
                yield _key(key, rank, "required" if key in own and not (is_whole and key == "tool") else "", value)

    # values

    def _values(self, context: CompletionContext, key: str) -> Iterator[Offer]:
        match key:
            case "type":
                for rank, kind in enumerate(("node",) if self.is_edge else FORMS):
                    yield Offer(kind, "value", (literal(kind),), REFERENCE_FORMS[kind], rank=rank)
            case "permission":
                for rank, (name, text) in enumerate(PERMISSION_TEXTS.items()):
                    yield Offer(name, "value", (literal(name),), text, ("key", "reference", key), rank)
            case "node":
                for part, node in _with_tools(context):
                    detail = f"{part.provider} · {', '.join(node.tools) or 'tools from outside'}"
                    yield Offer(part.id, "node", (literal(part.id),), detail, ("provider", part.provider))
            case "tool" if self.kind == "node":
                provider, node = self._meant(context)
                for tool in () if node is None else node.tools:
                    yield Offer(tool, "tool", (literal(tool),), provider, ("tool", provider, tool))
            case "server" | "connection" | "integration":
                yield from self._connections(context, key)
            case _:
                return

    def _connections(self, context: CompletionContext, key: str) -> Iterator[Offer]:
        provider = "composio" if self.kind == "gateway" else self.kind
        if key != "integration":
            yield from connection_names(context, provider, self.text("integration"))
            return
        known = (each.integration for each in context.analysis.settings.connections or () if each.provider == provider)
        for name in dict.fromkeys(filter(None, known)):
            yield Offer(name, "value", (literal(name),), "an integration of a connection")

    def _conditions(self, context: CompletionContext, key: str) -> Iterator[Offer]:
        if key == "space":
            yield Offer("required", "value", ('"required"',), "the caller has a space", ("key", "reference", key))
        elif key == "users":
            yield Offer("[ ]", "value", _VALUES[key], "user ids", ("key", "reference", key), finds="[")
        elif key == "when":
            for rank, word in enumerate(("true", "false")):
                yield Offer(word, "value", (word,), "", ("key", "reference", key), rank)
            yield from variables_as_values(context)

    # arguments

    def _parts(self, context: CompletionContext, part: str, path: tuple[str, ...], *, is_key: bool) -> Iterator[Offer]:
        root = self._schema(context)
        if root is None:
            return
        if part == "arguments":
            schemas = schemas_at(root, path)
            if is_key:
                yield from schema_keys(root, fields_of(root, schemas), self.keys(part, *path), (), {})
                return
            yield from schema_values(root, schemas, ())
            if "string" in kinds_of(schemas):
                yield from variables_as_values(context)
        elif not path and is_key:
            for offer in schema_keys(root, fields_of(root, (root,)), self.keys(part), (), {}):
                yield Offer(offer.label, "key", offer.template, offer.detail, rank=offer.rank, value=_EMPTY)

    def _schema(self, context: CompletionContext) -> Schema | None:
        _, node = self._meant(context)
        spec = None if node is None else node.tools.get(self.text("tool"))
        return None if spec is None else input_schema(spec)

    def _meant(self, context: CompletionContext) -> tuple[str, type[Node] | None]:
        """The provider and the class of the node whose tool is meant."""
        if self.is_edge:
            return self.component.provider, self.component.node
        other = context.written.by_id.get(self.text("node")) if self.kind == "node" else None
        return ("", None) if other is None else (other.provider, context.node(other))


def connection_names(context: CompletionContext, provider: str, integration: str = "") -> Iterator[Offer]:
    """The connections for a provider; those for an integration, and those that can be used, come first."""
    for each in context.analysis.settings.connections or ():
        if each.provider == provider:
            fits = not (integration and each.integration) or each.integration == integration
            detail = each.reason or (f"for {each.integration}" if each.integration else provider)
            yield Offer(each.name, "value", (literal(each.name),), detail, rank=bool(each.reason) + 2 * (not fits))


def _with_tools(context: CompletionContext) -> Iterator[tuple[WrittenComponent, type[Node]]]:
    """The other components that have tools."""
    for part in context.others:
        node = context.node(part)
        if part.id and node is not None and (node.tools or node.has_dynamic_tools):
            yield part, node


def _key(key: str, rank: int, detail: str = "", value: Template | None = None) -> Offer:
    return Offer(key, "key", (literal(key),), detail, ("key", "reference", key), rank, value=value or _VALUES.get(key, _TEXT))


def _of_connection(connection: KnownConnection) -> Offer:
    form: dict[str, Any] = {"type": connection.provider, "server": connection.name}
    missing = "tool"
    if connection.provider == "composio":
        form = {"type": "composio", "integration": connection.integration, "connection": connection.name}
        missing = "action"
    what = connection.reason or f"a tool behind a connection for {connection.integration or connection.provider}"
    return _snippet(form, connection.name, what, (missing,), rank=3 if connection.reason else 2)


def _snippet(form: Mapping[str, str], label: str, detail: str, stops: tuple[str, ...] = (), *, rank: int = 0) -> Offer:
    """A whole reference with some texts, and some texts that a person gives."""
    members: list[Template] = [(f'{literal(key)}: "', Stop(inside_quotes(value)), '"') for key, value in form.items()]
    members += [(f'{literal(key)}: "', Stop(), '"') for key in stops]
    template: Template = ("{ ", *joined(members, ", "), " }")
    return Offer(f"{label} → {{ }}", "snippet", template, detail, rank=rank, finds=label)
