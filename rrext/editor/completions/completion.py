"""Completion: the texts that can be inserted at an offset of a pipeline file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from rrext.editor.analysis import Analysis
from rrext.editor.completions.configs import config_keys, config_values, path_offers, takes_texts
from rrext.editor.completions.context import CompletionContext, CursorComponent
from rrext.editor.completions.documentation import page_about
from rrext.editor.completions.edges import edge_keys, edge_snippets, edge_values
from rrext.editor.completions.gap import Gap, gap_at
from rrext.editor.completions.keys import component_keys, component_values, root_keys, root_values
from rrext.editor.completions.nodes import component_snippets, provider_names, source_ids, suggested_ids
from rrext.editor.completions.offer import About, CompletionItem, Offer, completion_item, ranked
from rrext.editor.completions.references import connection_names, reference_at
from rrext.editor.completions.template import Indent
from rrext.editor.completions.variables import variables_as_values, variables_in_text
from rrext.editor.known_nodes import KnownNodes
from rrext.editor.pages.page import Page
from rrext.editor.style import Style, margin_of, style_of
from rrext.editor.workspace_files import WorkspaceFiles
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.text.pointer import below
from rrext.pipefile.text.source import SourceMap
from rrext.pipefile.text.tree import Located

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
