"""The pages of references to tools: their keys, the tool, the component or the connection that is meant."""

from __future__ import annotations

from collections.abc import Sequence

from rrext.editor.analysis import Analysis
from rrext.editor.known_nodes import input_schema
from rrext.editor.pages.component import add_short
from rrext.editor.pages.page import Code, Page
from rrext.editor.pages.vocabulary import PERMISSION_TEXTS, REFERENCE_FORMS, REFERENCE_TEXTS
from rrext.editor.schemas.descriptions import signature_of
from rrext.editor.written_pipeline import WrittenComponent, WrittenReference


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
