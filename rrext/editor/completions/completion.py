"""Completion: the texts that can be inserted at an offset of a pipeline file, with the documentation of each; for components:
provider names, ids, keys, complete components with a fitting edge, and values that are the same in every pipeline.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from rrext.editor.analysis import Analysis
from rrext.editor.completions.context import CompletionContext, CursorComponent
from rrext.editor.completions.cursor import Gap, gap_at
from rrext.editor.completions.offer import (
    About,
    CompletionItem,
    Indent,
    Offer,
    Stop,
    Template,
    Wrapping,
    block,
    completion_item,
    inside_quotes,
    literal,
    ranked,
)
from rrext.editor.completions.references import (
    NAME_KEYS,
    EdgeTarget,
    PossibleEdge,
    best,
    connection_names,
    edge_keys,
    edge_snippets,
    edge_template,
    edge_values,
    nearest_of_each,
    reference_at,
)
from rrext.editor.completions.settings import (
    config_keys,
    config_values,
    path_offers,
    required_settings,
    takes_texts,
    variables_as_values,
    variables_in_text,
)
from rrext.editor.formatting import Style, margin_of, style_of
from rrext.editor.hover import add_lanes, listed
from rrext.editor.known_nodes import KnownNode, KnownNodes, input_schema
from rrext.editor.page import (
    COMPONENT_TEXTS,
    CONFIG_TEXTS,
    EDGE_TEXTS,
    LANE_TEXTS,
    REFERENCE_TEXTS,
    ROOT_TEXTS,
    Code,
    Page,
    inlines_of,
    json_text,
)
from rrext.editor.schemas import Schema, bounds_text, field_at, signature_of, type_text
from rrext.editor.setting_page import profile_page
from rrext.editor.workspace_files import WorkspaceFiles
from rrext.nodes.base.node import accepted_lanes, served_types
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.catalog.services import definition_of
from rrext.pipefile.shape import COMPONENT_KEYS, ROOT_KEYS, VERSION
from rrext.pipefile.spec import EdgeKind
from rrext.pipefile.text.problems import below
from rrext.pipefile.text.source import SourceMap
from rrext.pipefile.text.tree import Located
from rrext.secrets.names import masked

# completions
MAX_OFFERS: Final = 200
"""The number of offers that are listed; of more, those that match the typed text."""

STYLE_COMPONENTS: Final = 10
"""The number of components from which the style of a document is derived."""

TRIGGERS: Final = ('"', ":", "{", "/")
"""Characters after which an editor may ask unprompted; `Completer.complete` answers only in helpful positions."""


class Completion(msgspec.Struct, frozen=True):
    """The offers, best first, and the indentation of their lines. `cut`: more offers match, so the editor must ask again."""

    items: tuple[CompletionItem, ...] = ()
    indent: Indent = Indent()
    cut: bool = False


class Completer:
    """Computes completions. It reads the nodes of a catalog once; one thread at a time may use it.

    The first query may take long, because it imports the code of every node.
    """

    def __init__(self) -> None:
        self._known_nodes: KnownNodes | None = None

    def complete(
        self, analysis: Analysis, offset: int, trigger: str | None = None, files: WorkspaceFiles | None = None
    ) -> Completion:
        """The completions at an offset; `trigger` is the character after which the editor asked unprompted."""
        gap = gap_at(analysis.map, offset)
        if gap.place == "nowhere" or not _is_wanted(gap, analysis.text, offset, trigger):
            return Completion()
        known_nodes, style = self._nodes_of(analysis.settings.catalog), _style(analysis)
        context = CompletionContext(analysis, gap, known_nodes, files)
        offers = variables_in_text(context, offset) if _takes_variables(context) else []
        offers = ranked(offers or _offers(context))
        kept = offers if len(offers) <= MAX_OFFERS else [offer for offer in offers if _resembles(offer, gap)][:MAX_OFFERS]
        items = tuple(completion_item(offer, gap, analysis.text, style) for offer in kept)
        return Completion(items, Indent(margin_of(analysis.text, gap.start), style.indent), len(kept) < len(offers))

    def explain(self, about: About, catalog: Catalog) -> Page | None:
        """The documentation of an offer; None if there is none."""
        return page_about(self._nodes_of(catalog), about)

    def _nodes_of(self, catalog: Catalog) -> KnownNodes:
        if self._known_nodes is None or self._known_nodes.catalog is not catalog:
            self._known_nodes = KnownNodes(catalog)
        return self._known_nodes


def _style(analysis: Analysis) -> Style:
    """The style of the document, from its first components; reading all of them takes long."""
    where = analysis.map
    listed = where.find(below(analysis.base, "components"))
    if listed is None or len(listed.children) <= STYLE_COMPONENTS:
        return style_of(where)
    return style_of(
        SourceMap(where.text, Located("array", None, listed.start, listed.end, inside=listed.children[:STYLE_COMPONENTS]))
    )


def _is_wanted(gap: Gap, text: str, offset: int, trigger: str | None) -> bool:
    """Whether to answer an unprompted query: not behind a closing quote, nor at an opening brace."""
    if trigger == '"':
        return gap.typed == '"'
    if trigger == ":":
        return gap.place == "value" and not gap.typed and text[offset - 1 : offset] == ":"
    if trigger == "/":
        return gap.quote == '"' and gap.place in ("value", "element")
    if trigger == "{":
        return gap.typed.endswith("${")
    return True


def _takes_variables(context: CompletionContext) -> bool:
    component = context.component
    if component is None or context.gap.place not in ("value", "element"):
        return False
    reference = reference_at(component)
    return component.parts[:1] == ("config",) if reference is None else reference.takes_variables


def _resembles(offer: Offer, gap: Gap) -> bool:
    """Whether the typed characters appear in an offer in their order, as in the filters of editors."""
    letters = iter((offer.finds or offer.label).casefold())
    return all(letter in letters for letter in gap.typed[len(gap.quote) :].casefold())


def _offers(context: CompletionContext) -> Iterator[Offer]:
    parts, gap, component = context.parts, context.gap, context.component
    if parts is None:
        return
    if component is not None:
        yield from _in_component(context, component)
    elif parts and parts[0] == "components" and gap.place == "element" and len(parts) == 2:
        yield from component_snippets(context, int(parts[1]))
    elif not parts and gap.place == "key":
        yield from root_keys(context)
    elif parts == ("source",) and gap.place == "value":
        yield from source_ids(context)
    elif len(parts) == 1 and gap.place == "value":
        yield from root_values(context, parts[0])


def _in_component(context: CompletionContext, component: CursorComponent) -> Iterator[Offer]:
    parts, is_key = component.parts, context.gap.place == "key"
    reference = reference_at(component)
    match parts:
        case _ if reference is not None:
            yield from reference.offers(context)
        case ():
            yield from component_keys(context, component) if is_key else ()
            if is_key and not component.keys() and context.gap.colon == "none":
                yield from component_snippets(context, component.index)
        case ("config", *_):
            yield from _in_config(context, component)
        case ("provider",):
            yield from provider_names(context)
        case ("id",):
            yield from suggested_ids(context, component)
        case ("input" | "control" as kind, _):
            yield from edge_keys(context, component, kind) if is_key else edge_snippets(context, component, kind)
        case ("input" | "control" as kind, _, _):
            yield from edge_values(context, component, kind) if not is_key else ()
        case (key,) if not is_key:
            yield from component_values(context, component, key)
        case _:
            return


def _in_config(context: CompletionContext, component: CursorComponent) -> Iterator[Offer]:
    if context.gap.place == "key":
        yield from config_keys(context, component)
        return
    if component.node is not None and len(component.parts) == 2 and component.parts[1] in component.node.connections:
        yield from connection_names(context, component.node.connections[component.parts[1]])
    yield from path_offers(context, component)
    yield from config_values(context, component)
    if takes_texts(context, component):
        yield from variables_as_values(context)


_TEXTS: Final[Mapping[str, Mapping[str, str]]] = {
    "pipeline": ROOT_TEXTS,
    "component": COMPONENT_TEXTS,
    "config": CONFIG_TEXTS,
    "edge": EDGE_TEXTS,
    "reference": REFERENCE_TEXTS,
}


def page_about(known_nodes: KnownNodes, about: About) -> Page | None:
    """The documentation of an offer; None if there is none, or if `about` is invalid."""
    match about:
        case ("provider", name):
            entry = known_nodes.entry(name)
            return None if entry is None else _node_page(known_nodes, entry)
        case ("key", where, key):
            text = _TEXTS.get(where, {}).get(key)
            return None if text is None else Page().prose(text)
        case ("lane", lane):
            return Page().text("Carries ", *inlines_of(LANE_TEXTS[lane]), ".") if lane in LANE_TEXTS else None
        case ("profile", provider, name):
            return profile_page(known_nodes.node(provider), name)
        case ("tool", provider, name):
            return _tool_page(known_nodes, provider, name)
        case ("setting", provider, profile, *parts):
            return _setting_page(known_nodes, provider, profile, tuple(parts))
        case ("variable", name):
            return Page().text("What the environment variable ", Code(name), " says when the pipeline runs.")
        case _:
            return None


def _node_page(known_nodes: KnownNodes, entry: KnownNode) -> Page:
    node = entry.node
    page = Page().title(entry.title)
    if node is None:
        return page.text(entry.reason)
    try:
        definition = definition_of(node, None, entry.aliases)
    except Exception as error:  # descriptions are code of node authors
        return page.text(f"{type(error).__name__}: {error}")
    page.prose(definition["description"].partition("\n\n")[0])
    add_lanes(page, definition)
    if entry.aliases:
        page.text("Also called ", *listed(entry.aliases), ".")
    if node.tools:
        page.text("Tools: ", *listed(tuple(node.tools)), ".")
    return page


def _tool_page(known_nodes: KnownNodes, provider: str, name: str) -> Page | None:
    node = known_nodes.node(provider)
    spec = None if node is None else node.tools.get(name)
    schema = None if spec is None else input_schema(spec)
    if spec is None or schema is None:
        return None
    page = Page().text(Code(signature_of(name, schema)))
    return page.prose(str(spec.describe(None).get("description", "")))


def _setting_page(known_nodes: KnownNodes, provider: str, profile: str, parts: tuple[str, ...]) -> Page | None:
    node = known_nodes.node(provider)
    root = None if node is None else known_nodes.schema(node)
    if node is None or root is None:
        return None
    chosen = profile or node.default_profile or ""
    return _field_page(root, parts, chosen, node.profiles.get(chosen, {}) if len(parts) == 1 else {})


def _field_page(root: Schema, parts: tuple[str, ...], profile: str, given: Mapping[str, Any]) -> Page | None:
    """The page of a key of an object; `given` holds the values that a profile sets."""
    while parts and parts[-1].isdecimal():  # the text of a list describes its elements
        parts = parts[:-1]
    field = field_at(root, parts)
    if field is None:
        return None
    text = [text for text in (type_text(field.schema, root), bounds_text(field.schema)) if text]
    page = Page().text(Code(field.name), ": ", ", ".join(text), ", required." if field.required else ".")
    text = field.schema.get("description")
    if text:
        page.prose(str(text))
    if given.get(field.name) is not None:
        value = json_text(masked(given[field.name], field.name))
        page.text("The profile ", Code(profile), " sets ", Code(value), ".")
    elif field.default is not None:
        page.text("If it is left out: ", Code(json_text(masked(field.default, field.name))), ".")
    return page


SOURCES_FIRST, USUAL, SOURCES_LAST, BROKEN, ALIASES = range(5)


def provider_names(context: CompletionContext) -> Iterator[Offer]:
    """All providers; sources first until the pipeline has one, aliases last."""
    has_source = _has_source(context)
    for entry in context.known_nodes.entries():
        rank = _rank(entry, has_source)
        yield Offer(entry.name, "provider", (literal(entry.name),), node_detail(entry), ("provider", entry.name), rank)
        for alias in entry.aliases:
            detail = f"another name of {entry.name} · {node_detail(entry)}"
            yield Offer(alias, "provider", (literal(alias),), detail, ("provider", entry.name), ALIASES)


def node_detail(entry: KnownNode) -> str:
    """A node in one line: its title and its role."""
    node = entry.node
    if node is None:
        return entry.reason
    kinds = "source" if node.is_source() else ", ".join(served_types(node))
    return f"{entry.title} · {kinds}" if kinds else entry.title


def suggested_ids(context: CompletionContext, component: CursorComponent) -> Iterator[Offer]:
    """An unused id."""
    node_id = free_id(context, component.provider or "node", own=component)
    yield Offer(node_id, "name", (literal(node_id),), "a new id", ("key", "component", "id"))


def source_ids(context: CompletionContext) -> Iterator[Offer]:
    """The components as values of `source`: sources first, then unknown nodes, then the others."""
    for other in context.others:
        node = context.node(other)
        is_source = other.is_marked_source or (node is not None and node.is_source())
        rank = 0 if is_source else 1 if node is None else 2
        detail = other.provider if is_source or node is None else f"{other.provider} · no source"
        yield Offer(other.id, "node", (literal(other.id),), detail, ("provider", other.provider), rank)


def component_snippets(context: CompletionContext, index: int) -> Iterator[Offer]:
    """One component for each provider; those that an edge of the pipeline can reach come first."""
    has_source = _has_source(context)
    near = nearest_of_each(context, index)
    for entry in context.known_nodes.entries():
        fit = best(context, EdgeTarget(entry.node, index), among=near)
        rank = _rank(entry, has_source)
        if rank == USUAL and has_source and fit is None:
            rank = SOURCES_LAST
        template = component_template(context, entry, free_id(context, entry.name), fit, context.wrapping)
        detail = node_detail(entry) if fit is None else f"{node_detail(entry)} · {fit.name} from {fit.source}"
        yield Offer(entry.name, "snippet", template, detail, ("provider", entry.name), rank)


def component_template(
    context: CompletionContext, entry: KnownNode, node_id: str, fit: PossibleEdge | None, wrapping: Wrapping
) -> Template:
    """A component over several lines, with its settings and an edge."""
    members: list[Template] = [
        ('"id": "', Stop(inside_quotes(node_id)), '"'),
        (f'"provider": {literal(entry.name)}',),
        ('"config": ', *required_settings(context, entry.node)),
    ]
    if fit is not None:
        edge = edge_template(NAME_KEYS[fit.kind], fit.name, fit.source)
        members.append((f"{literal(fit.kind)}: [", *edge, "]"))
    return block(members, wrapping)


def free_id(context: CompletionContext, provider: str, own: CursorComponent | None = None) -> str:
    """`provider_1`, or with the next unused number."""
    index = -1 if own is None else own.index
    known = {other.id for other in context.written.components if other.index != index}
    number = 1
    while f"{provider}_{number}" in known:
        number += 1
    return f"{provider}_{number}"


def _has_source(context: CompletionContext) -> bool:
    nodes = (context.node(other) for other in context.others)
    return any(node is not None and node.is_source() for node in nodes)


def _rank(entry: KnownNode, has_source: bool) -> int:
    if entry.node is None:
        return BROKEN
    if not entry.is_source:
        return USUAL
    return SOURCES_LAST if has_source else SOURCES_FIRST


TEXT: Final[Template] = ('"', Stop(), '"')
_IN_ORDER: Final = ("id", "provider", "config", "input", "control")


def root_keys(context: CompletionContext) -> Iterator[Offer]:
    """The missing keys of the pipeline."""
    present = context.keys()
    for rank, key in enumerate(ROOT_KEYS):
        if key not in present:
            about = ("key", "pipeline", key)
            yield Offer(key, "key", (literal(key),), "", about, rank, value=_root_value(context, key))


def root_values(context: CompletionContext, key: str) -> Iterator[Offer]:
    """Predictable values of the pipeline's own keys, except `source`."""
    about = ("key", "pipeline", key)
    if key == "version":
        yield Offer(str(VERSION), "value", (str(VERSION),), "the only version", about)
    elif key == "project_id":
        new = str(uuid.uuid4())
        yield Offer(new, "value", (literal(new),), "a new id", about, finds=f"new {new}")
    elif key == "resources":
        yield Offer("{ }", "value", ("{ ", Stop(), " }"), "an object of resources", about, finds="{")
    elif key == "components":
        yield Offer("[ ]", "value", ("[", Stop(), "]"), "a list of components", about, finds="[")


def component_keys(context: CompletionContext, component: CursorComponent) -> Iterator[Offer]:
    """The missing keys of a component; edges that its node cannot have come last."""
    present = component.keys()
    for rank, key in enumerate((*_IN_ORDER, *(key for key in COMPONENT_KEYS if key not in _IN_ORDER))):
        if key in present:
            continue
        senseless = (key == "input" or key == "control") and component.node is not None and not _names(component, key)
        detail = f"{component.provider} takes none" if senseless else ""
        value = _component_value(context, component, key)
        yield Offer(key, "key", (literal(key),), detail, ("key", "component", key), 90 if senseless else rank - 10, value=value)


def component_values(context: CompletionContext, component: CursorComponent, key: str) -> Iterator[Offer]:
    """Values of a component's keys that are lists or objects."""
    if key in ("input", "control", "ui"):
        label = "{ }" if key == "ui" else "[ ]"
        yield Offer(label, "value", _component_value(context, component, key), "", ("key", "component", key), finds=label[0])


def _names(component: CursorComponent, kind: str) -> tuple[str, ...]:
    assert component.node is not None
    return accepted_lanes(component.node) if kind == "input" else served_types(component.node)


def _root_value(context: CompletionContext, key: str) -> Template:
    if key == "components":
        return ("[\n\t", Stop(), "\n]")
    if key == "version":
        return (str(VERSION),)
    if key == "resources":
        return ("{ ", Stop(), " }")
    if key == "project_id":
        return (f'"{uuid.uuid4()}"',)
    if key == "source":
        nodes = ((other, context.node(other)) for other in context.written.components)
        first = next((other.id for other, node in nodes if other.id and node is not None and node.is_source()), "")
        return ('"', Stop(inside_quotes(first)), '"')
    return TEXT


def _component_value(context: CompletionContext, component: CursorComponent, key: str) -> Template:
    if key == "id":
        return ('"', Stop(inside_quotes(free_id(context, component.provider or "node", own=component))), '"')
    if key == "config":
        return required_settings(context, component.node)
    if key == "input" or key == "control":
        return _edges(context, component, key)
    return ("{", Stop(), "}") if key == "ui" else TEXT


def _edges(context: CompletionContext, component: CursorComponent, kind: EdgeKind) -> Template:
    fit = best(context, EdgeTarget(component.node, component.index, component.id), kind)
    name, source = ("", "") if fit is None else (fit.name, fit.source)
    return ("[", *edge_template(NAME_KEYS[kind], name, source), "]")
