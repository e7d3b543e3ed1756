"""The parts of a page about a node: lanes, bindings and tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rrext.editor.pages.page import Code, Inline, Item, Page, inlines_of, json_text
from rrext.editor.schemas.descriptions import SchemaParameter, parameters_of, signature_of

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
