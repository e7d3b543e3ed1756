"""The documentation beside an offer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rrext.editor.completions.offer import About
from rrext.editor.known_nodes import KnownNode, KnownNodes, input_schema
from rrext.editor.pages.node import add_lanes, listed
from rrext.editor.pages.page import Code, Page, inlines_of, json_text
from rrext.editor.pages.setting import profile_page
from rrext.editor.pages.vocabulary import COMPONENT_TEXTS, CONFIG_TEXTS, EDGE_TEXTS, LANE_TEXTS, REFERENCE_TEXTS, ROOT_TEXTS
from rrext.editor.schemas.descriptions import bounds_text, signature_of, type_text
from rrext.editor.schemas.lookup import Schema, field_at
from rrext.pipefile.catalog.services import definition_of
from rrext.secrets.names import masked

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
