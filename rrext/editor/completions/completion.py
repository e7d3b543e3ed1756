"""Completion: the texts that can be inserted at an offset of a pipeline file, and the documentation beside each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from rrext.editor.analysis import Analysis
from rrext.editor.completions.context import CompletionContext, CursorComponent
from rrext.editor.completions.cursor import Gap, gap_at
from rrext.editor.completions.edges import edge_keys, edge_snippets, edge_values
from rrext.editor.completions.nodes import (
    component_keys,
    component_snippets,
    component_values,
    provider_names,
    root_keys,
    root_values,
    source_ids,
    suggested_ids,
)
from rrext.editor.completions.offer import About, CompletionItem, Indent, Offer, completion_item, ranked
from rrext.editor.completions.references import connection_names, reference_at
from rrext.editor.completions.settings import (
    config_keys,
    config_values,
    path_offers,
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
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.catalog.services import definition_of
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
