"""Hover: the page about the text under the pointer: a component, a node, an edge, a reference to a tool, or a setting."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from rrext.editor.analysis import Analysis, WrittenComponent, WrittenEdge, WrittenPipeline, WrittenReference, text_of
from rrext.editor.known_nodes import input_schema
from rrext.editor.page import (
    COMPONENT_TEXTS,
    EDGE_TEXTS,
    LANE_TEXTS,
    PERMISSION_TEXTS,
    REFERENCE_FORMS,
    REFERENCE_TEXTS,
    ROOT_TEXTS,
    Code,
    Inline,
    Item,
    Page,
    inlines_of,
    json_text,
)
from rrext.editor.schemas import SchemaParameter, parameters_of, signature_of
from rrext.editor.setting_page import Resolved, profile_page, resolved_of, setting_page, settings_of
from rrext.nodes.base.node import Node, accepted_lanes, offered_lanes, served_types
from rrext.pipefile.catalog.plugins import PluginError
from rrext.pipefile.catalog.services import definition_of
from rrext.pipefile.environment import NEVER, PREFIX, Environment
from rrext.pipefile.text.problems import Span
from rrext.pipefile.text.source import ValueAt
from rrext.pipefile.text.tree import Located
from rrext.secrets.names import PLACEHOLDER, masked

_VARIABLE: Final = re.compile(PLACEHOLDER)


class Hover(msgspec.Struct, frozen=True):
    """A page, and the span that it is about."""

    span: Span
    page: Page


def hover_at(analysis: Analysis, offset: int) -> Hover | None:
    """The hover at an offset. It never contains a variable's value or a secret of the file."""
    place = analysis.map.at(offset)
    parts = analysis.loaded.parts(place.pointer)
    variable = _variable_at(analysis.text, place.located, offset) if parts and not place.in_key else None
    if variable is not None:
        is_replaced = parts[0] == "components" and parts[2:3] == ["config"] and len(parts) > 3
        return Hover(variable.span(), _variable_page(analysis.settings.environment, variable[1], is_replaced=is_replaced))
    span = _span(analysis, place, offset)
    if span is None or span[0] == span[1] or not span[0] <= offset <= span[1]:  # the value may be missing
        return None
    page = _page(analysis, place, parts)
    return None if page is None else Hover(span, page)


def _span(analysis: Analysis, place: ValueAt, offset: int) -> Span | None:
    """The key or value at an offset; of an object or list its bracket, because the space between brackets has no hover."""
    located = place.located
    start, end = located.start, located.end
    if place.in_key:
        return located.key_span
    if located.kind not in ("object", "array"):
        return start, end
    if start <= offset <= start + 1 and analysis.text[start : start + 1] in ("{", "["):
        return start, start + 1
    if end - 1 <= offset <= end and analysis.text[end - 1 : end] in ("}", "]"):
        return end - 1, end
    return None


def _page(analysis: Analysis, place: ValueAt, parts: list[str]) -> Page | None:
    """The page about the value, or the key, at a path in the pipeline."""
    written, draft = analysis.written, analysis.loaded.component_of(place.pointer)
    if draft is not None and draft.index < len(written.components):
        return _component_page(analysis, written.components[draft.index], place, parts[2:])
    match parts:
        case [key] if place.in_key:
            return _key_page(ROOT_TEXTS, key)
        case ["source"]:
            return _other_page(analysis, text_of(place.located))
        case _:
            return None


def _component_page(analysis: Analysis, component: WrittenComponent, place: ValueAt, parts: list[str]) -> Page | None:
    """The page about the value, or the key, at a path in a component."""
    match parts:
        case [key] if place.in_key:
            return _key_page(COMPONENT_TEXTS, key)
        case [] | ["id"] | ["provider"]:
            return component_page(analysis, component)
        case ["config", "profile"] if not place.in_key:
            name = text_of(place.located)
            return profile_page(analysis.written.node_of(component), name) if name else None
        case ["config", "tools", index, *inner] | ["control", _, "tools", index, *inner] if reference := _reference_at(
            analysis, component, parts, len(parts) - len(inner) - 1, index
        ):
            return reference_page(analysis, reference, inner, in_key=place.in_key)
        case ["config", _, *_]:
            return setting_page(analysis, component, analysis.written.node_of(component), parts[1:])
        case ["input" | "control", _, key] if place.in_key:
            return _key_page(EDGE_TEXTS, key)
        case ["input" | "control" as kind, index, key]:
            edge = next((edge for edge in component.edges if (edge.kind, str(edge.index)) == (kind, index)), None)
            if edge is None:
                return None
            if key == "from":
                return _other_page(analysis, edge.source)
            if not edge.name or key != ("lane" if kind == "input" else "classType"):
                return None
            return lane_page(analysis.written, edge) if kind == "input" else class_type_page(analysis.written, edge)
        case _:
            return None


def _reference_at(
    analysis: Analysis, component: WrittenComponent, parts: list[str], depth: int, index: str
) -> WrittenReference | None:
    """The reference at an index of the list at a path of so many parts."""
    found = (each for each in analysis.written.references() if each.holder == component.index)
    path = tuple(parts[:depth])
    return next((each for each in found if each.path == path and str(each.index) == index), None)


def _other_page(analysis: Analysis, node_id: str) -> Page | None:
    """A short page of the component with an id."""
    if not node_id:
        return None
    component = analysis.written.by_id.get(node_id)
    page = Page()
    if component is None:
        return page.text("No component has the id ", Code(node_id), ".")
    add_short(page, analysis, component)
    return page


def _key_page(texts: Mapping[str, str], key: str) -> Page | None:
    return Page().title(Code(key)).prose(texts[key]) if key in texts else None


# variables
def _variable_at(text: str, located: Located, offset: int) -> re.Match[str] | None:
    """The variable at an offset, which is in a value of the text."""
    if located.kind == "string":
        for match in _VARIABLE.finditer(text, located.start, located.end):
            if match.start() <= offset <= match.end():
                return match
    return None


def _variable_page(environment: Environment, name: str, *, is_replaced: bool) -> Page:
    """The page of a variable: whether it has a value, never the value. `is_replaced`: it stands in settings."""
    page = Page().title("Variable ", Code(name))
    if not is_replaced:
        return page.text("It stays as it is written: variables are not replaced here.")
    if not environment.may_read(name):
        why = "it is the server's own access to other servers" if name in NEVER else "it was not named by the operator"
        page.text(f"Pipelines may not read it: {why}.")
        return page.text("They may read ", Code(f"{PREFIX}*"), " and the names given by ", Code("--env"), ".")
    if environment.get(name) is None:
        return page.text("It has no value: a run would be refused.")
    return page.text("It has a value, which is not shown.")


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


MAX_FULL_TOOLS: Final = 8
"""Tools that a page shows in full; of more, only the first sentence is shown, without parameters."""

MAX_PAGE_NAMES: Final = 20
"""Names in a list of a page."""


def add_lanes(page: Page, definition: Mapping[str, Any]) -> None:
    """Add a node's lanes, the class types that it invokes, and those that it serves. `definition` comes from
    `definition_of`."""
    lanes: Mapping[str, Sequence[str]] = definition["lanes"]
    invoke: Mapping[str, Mapping[str, Any]] = definition["invoke"]
    found: list[Item] = []
    for lane, outs in lanes.items():
        if lane == "_source":
            if outs:
                found.append((0, ["sends ", *listed(outs)]))
        elif outs:
            found.append((0, [Code(lane), " → ", *listed(outs)]))
        else:
            found.append((0, ["takes ", Code(lane)]))
    found += [(0, ["invokes ", Code(kind), *slot_text(slot)]) for kind, slot in invoke.items()]
    if definition["classType"] and definition["register"] != "endpoint":
        found.append((0, ["serves as ", *listed(definition["classType"])]))
    if definition["accepts"]:
        found.append((0, ["receives what a client gives to ", *listed(definition["accepts"])]))
    page.items(found)


def slot_text(slot: Mapping[str, Any]) -> list[Inline]:
    """A node's requirements for a helper: ` (at least 1, at most 1): thinks`."""
    least, most = slot.get("min") or 0, slot.get("max")
    bounds = [f"at least {least}"] if least else []
    if isinstance(most, int):
        bounds.append(f"at most {most}")
    found: list[Inline] = [f" ({', '.join(bounds)})"] if bounds else []
    text = slot.get("description")
    return [*found, ": ", *inlines_of(str(text))] if text else found


def listed(names: Sequence[str]) -> list[Inline]:
    """Names separated by commas."""
    found: list[Inline] = []
    for name in names[:MAX_PAGE_NAMES]:
        found += [", ", Code(name)] if found else [Code(name)]
    if len(names) > MAX_PAGE_NAMES:
        found.append(f" and {len(names) - MAX_PAGE_NAMES} more")
    return found


def add_tools(page: Page, tools: Sequence[Mapping[str, Any]], before: str = "") -> None:
    """Add the tools of a node with their signatures. `before` precedes the descriptions, as in the file."""
    if not tools:
        return
    page.text("Tools:" if len(tools) > 1 else "Its tool:")
    if before:
        page.prose(before)
    page.items(item for tool in tools for item in _tool_items(tool, in_full=len(tools) <= MAX_FULL_TOOLS))
    if len(tools) == 1 and "inputSchema" in tools[0]:
        page.block(json_text(tools[0]["inputSchema"]), "json")


def _tool_items(tool: Mapping[str, Any], *, in_full: bool) -> list[Item]:
    name = str(tool["name"])
    if "inputSchema" not in tool:
        why = tool.get("unavailable") or "its description depends on the settings of the node"
        return [(0, [Code(name), f": {why}"])]
    schema: Mapping[str, Any] = tool["inputSchema"]
    text = str(tool.get("description", ""))
    if not in_full:
        text = text.partition("\n")[0].partition(". ")[0]
    found: list[Item] = [(0, [Code(signature_of(name, schema)), ": " if text else "", *inlines_of(" ".join(text.split()))])]
    if in_full:
        found += [(1, _parameter_text(parameter)) for parameter in parameters_of(schema)]
    return found


def _parameter_text(parameter: SchemaParameter) -> list[Inline]:
    found: list[Inline] = [Code(parameter.name), f", {parameter.type}"]
    if parameter.bounds:
        found.append(f", {parameter.bounds}")
    if parameter.required:
        found.append(", required")
    elif parameter.default is not None:
        found += [", default ", Code(parameter.default)]
    return [*found, ": ", *inlines_of(parameter.text)] if parameter.text else found


def lane_page(written: WrittenPipeline, edge: WrittenEdge) -> Page:
    """The page of a data edge: the payload of its lane, the sender and the receiver, and other nodes with the lane."""
    lane = edge.name
    page = Page().title("Lane ", Code(lane))
    page.text(*(["Carries ", *inlines_of(LANE_TEXTS[lane]), "."] if lane in LANE_TEXTS else ["There is no such lane."]))
    items: list[Item] = []
    sender = written.by_id.get(edge.source)
    if sender is not None:
        items.append((0, _lanes_of(written, sender, sends=True)))
    items.append((0, _lanes_of(written, written.components[edge.holder], sends=False)))
    items += _others(written, "offered here by ", offered_lanes, lane)
    items += _others(written, "accepted here by ", accepted_lanes, lane)
    return page.items(items)


def class_type_page(written: WrittenPipeline, edge: WrittenEdge) -> Page:
    """The page of a control edge: the class type, the requirements of the invoking node, the class types of the invoked
    node."""
    kind = edge.name
    holder, invoker = written.components[edge.holder], written.by_id.get(edge.source)
    page = Page().title("Invoked as ", Code(kind))
    node = None if invoker is None else written.node_of(invoker)
    if invoker is not None and node is not None:
        if kind in node.invoke:
            page.text(*_component_link(invoker), " invokes ", Code(kind), *slot_text(node.invoke[kind]))
        elif node.is_source():
            page.text("Bound to the source ", *_component_link(invoker), ", its tools can be called by clients.")
        else:
            wanted = tuple(node.invoke)
            page.text(
                *_component_link(invoker), " does not invoke it: it invokes ", *(listed(wanted) if wanted else ["nothing"]), "."
            )
    own = written.node_of(holder)
    if own is not None:
        served = served_types(own)
        page.text(*_component_link(holder), " serves as ", *(listed(served) if served else ["nothing"]), ".")
    return page.items(_others(written, "served here by ", served_types, kind))


def _lanes_of(written: WrittenPipeline, component: WrittenComponent, *, sends: bool) -> list[Inline]:
    node = written.node_of(component)
    if node is None:
        return [*_component_link(component), " is no node that is known here"]
    lanes = offered_lanes(node) if sends else accepted_lanes(node)
    return [*_component_link(component), " offers " if sends else " accepts ", *(listed(lanes) if lanes else ["no lane"])]


def _others(written: WrittenPipeline, text: str, names: Callable[[type[Node]], Sequence[str]], name: str) -> list[Item]:
    """The item with the components whose node has a name among its `names`."""
    nodes = ((component, written.node_of(component)) for component in written.components)
    having = [component for component, node in nodes if node is not None and name in names(node)]
    ids = [component.id for component in having if component.id and written.is_first(component)]
    return [(0, [text, *listed(ids)])] if ids else []


def _component_link(component: WrittenComponent) -> list[Inline]:
    return [Code(component.id)] if component.id else [f"component {component.index + 1}"]


def reference_page(analysis: Analysis, reference: WrittenReference, parts: Sequence[str], *, in_key: bool) -> Page | None:
    """The page about a place in a reference; `parts` is the path from it, empty for the reference itself."""
    if parts and in_key:
        text = REFERENCE_TEXTS.get(parts[-1]) if len(parts) == 1 or parts[0] == "available" else None
        return None if text is None else Page().title(Code(parts[-1])).prose(text)
    match parts:
        case [] | ["tool"] | ["action"]:
            return _tool_page(analysis, reference)
        case ["type"] if reference.kind in REFERENCE_FORMS:
            return Page().text(Code(reference.kind), f": {REFERENCE_FORMS[reference.kind]}.")
        case ["node"]:
            component = analysis.written.by_id.get(reference.node)
            page = Page()
            if component is None:
                return page.text("No component has the id ", Code(reference.node), ".")
            add_short(page, analysis, component)
            return page
        case ["server" | "connection"]:
            return _connection_page(analysis, reference.text(parts[0]))
        case ["permission"]:
            name = reference.text("permission")
            return Page().text(Code(name), f": {PERMISSION_TEXTS[name]}.") if name in PERMISSION_TEXTS else None
        case _:
            return None


def _tool_page(analysis: Analysis, reference: WrittenReference) -> Page | None:
    """The page of the tool that is meant, with the component that has it."""
    owner = analysis.written.owner_of(reference)
    if owner is None:
        return None
    node = analysis.written.node_of(owner)
    spec = None if node is None else node.tools.get(reference.tool)
    schema = None if spec is None else input_schema(spec)
    page = Page()
    if spec is not None and schema is not None:
        page.text(Code(signature_of(reference.tool, schema))).prose(str(spec.describe(None).get("description", "")))
    return page.text("A tool of ", *_name(owner), ".")


def _connection_page(analysis: Analysis, name: str) -> Page | None:
    known = analysis.settings.connections
    if known is None or not name:
        return None
    found = next((each for each in known if each.name == name), None)
    if found is None:
        return Page().text("There is no connection ", Code(name), ".")
    page = Page().title("Connection ", Code(name))
    if found.provider:
        page.text("It is for ", Code(found.integration or found.provider), ".")
    return page.text(f"It cannot be used: {found.reason}.") if found.reason else page


def _name(owner: WrittenComponent) -> list[str | Code]:
    return [Code(owner.id), f" ({owner.provider})"]
