"""The page of a component: its node, its settings and its edges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rrext.editor.analysis import Analysis
from rrext.editor.pages.effective_settings import Resolved, resolved_of, settings_of
from rrext.editor.pages.node import add_lanes, add_tools
from rrext.editor.pages.page import Code, Inline, Item, Page, json_text
from rrext.editor.written_pipeline import WrittenComponent, WrittenEdge, WrittenPipeline
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.plugins import PluginError
from rrext.pipefile.catalog.services import definition_of
from rrext.secrets.names import masked

# pages
MAX_PAGE_EDGES: Final = 12
"""The number of edges of one kind that a page lists."""


def component_page(analysis: Analysis, component: WrittenComponent) -> Page:
    """The full page of a component: its node, its effective settings, and its edges in both directions."""
    page, written = Page(), analysis.written
    node = written.node_of(component)
    definition = None if node is None else defined(analysis, node)
    _add_head(page, component, definition, analysis)
    if definition is not None:
        page.prose(definition["description"])
        add_lanes(page, definition)
    _add_edges(page, [*_edges_in(component, written), *_edges_out(component, written)])
    if node is not None:
        _add_config(page, resolved_of(analysis, component, node))
    if definition is not None:
        before = component.config.get("tool_description")
        add_tools(page, definition["tools"], before if isinstance(before, str) else "")
    return page


def add_short(page: Page, analysis: Analysis, component: WrittenComponent) -> None:
    """Add a short description of a component."""
    node = analysis.written.node_of(component)
    definition = None if node is None else defined(analysis, node)
    _add_head(page, component, definition, analysis)
    if definition is not None:
        page.prose(definition["description"].partition("\n\n")[0])
        add_lanes(page, definition)
    _add_edges(page, _edges_in(component, analysis.written))


def defined(analysis: Analysis, node: type[Node]) -> dict[str, Any] | None:
    """The definition of a node, as in `rrext_services`; None if its class is unusable."""
    try:
        return definition_of(node, settings_of(analysis, node), analysis.settings.catalog.aliases_of(node.provider))
    except PluginError:
        return None


def _add_head(page: Page, component: WrittenComponent, definition: Mapping[str, Any] | None, analysis: Analysis) -> None:
    called: list[Inline] = [Code(component.id)] if component.id else [f"Component {component.index + 1}"]
    if definition is not None:
        called += [" · ", str(definition["title"])]
    page.title(*called)
    said: list[Inline] = [Code(component.provider)] if component.provider else ["It has no provider."]
    if "${" in component.provider:
        said.append(" is no name of a node: variables are replaced in config alone.")
    elif component.provider and definition is None:
        foreign = analysis.settings.catalog.foreign(component.provider)
        said = [*said, " is not known here."] if foreign is None else [foreign.message]
        if not analysis.settings.trusted:
            said.append(" Nodes of one's own are loaded only if the client says that they are trusted.")
    if component.name:
        said.append(f" – {component.name}")
    page.text(*said)
    if component.description:
        page.prose(component.description)


def _add_edges(page: Page, edges: list[Item]) -> None:
    if edges:
        page.text("In this pipeline it").items(edges)


def _edges_in(component: WrittenComponent, written: WrittenPipeline) -> list[Item]:
    found: list[Item] = []
    for edge in component.edges[:MAX_PAGE_EDGES]:
        source = _named(edge.source, written)
        if edge.kind == "input":
            found.append((0, ["receives ", *_lane(edge.name), " from ", *source]))
        else:
            found.append((0, ["is invoked by ", *source, *([" as ", Code(edge.name)] if edge.name else [])]))
    return [*found, *_rest(len(component.edges) - MAX_PAGE_EDGES)]


def _edges_out(component: WrittenComponent, written: WrittenPipeline) -> list[Item]:
    edges: list[WrittenEdge] = written.edges_from.get(component.id, []) if component.id and written.is_first(component) else []
    found: list[Item] = []
    for edge in edges[:MAX_PAGE_EDGES]:
        holder = written.components[edge.holder]
        target: list[Inline] = [Code(holder.id)] if holder.id else [f"component {holder.index + 1}"]
        if edge.kind == "input":
            found.append((0, ["sends ", *_lane(edge.name), " to ", *target]))
        else:
            found.append((0, ["invokes ", *target, *([" as ", Code(edge.name)] if edge.name else [])]))
    return [*found, *_rest(len(edges) - MAX_PAGE_EDGES)]


def _lane(name: str) -> list[Inline]:
    return [Code(name)] if name else ["something"]


def _named(node_id: str, written: WrittenPipeline) -> list[Inline]:
    if not node_id:
        return ["nowhere"]
    return [Code(node_id)] if node_id in written.by_id or "${" in node_id else [Code(node_id), ", which is not there"]


def _rest(count: int) -> Iterable[Item]:
    return [(0, [f"and {count} more"])] if count > 0 else []


def _add_config(page: Page, resolved: Resolved | None) -> None:
    if resolved is None:
        return
    if not resolved.values:
        page.text("It has no settings.")
        return
    said: list[Inline] = ["Settings, with defaults"]
    if resolved.profile:
        said = [*said, " of the profile ", Code(resolved.profile), "" if resolved.chosen else ", the default one"]
    page.text(*said, ":")
    page.block(json_text(masked(resolved.values)), "json")
