"""Offers inside references to tools: their forms, keys, nodes, tools, connections and arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rrext.editor.analysis import WrittenComponent
from rrext.editor.completions.context import CompletionContext, CursorComponent
from rrext.editor.completions.offer import Offer, Stop, Template, inside_quotes, joined, literal
from rrext.editor.completions.settings import schema_keys, schema_values, variables_as_values
from rrext.editor.known_nodes import input_schema
from rrext.editor.page import PERMISSION_TEXTS, REFERENCE_FORMS
from rrext.editor.schemas import Schema, fields_of, kinds_of, schemas_at
from rrext.nodes.base.node import Node
from rrext.pipefile.shape import EDGE_TOOLS
from rrext.references import CONDITIONS, FORMS, OF_ONE_TOOL, PATTERNS, WHOLE, WITH_VALUES, WRAPPING, KnownConnection

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
