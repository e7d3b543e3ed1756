"""Offers inside a config: its keys and their values, profiles, names of tools, paths."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from rrext.editor.completions.context import CompletionContext, CursorComponent
from rrext.editor.completions.fields import schema_keys, schema_values
from rrext.editor.completions.offer import Offer
from rrext.editor.completions.section import Section, profile_names, required_settings, section_of
from rrext.editor.completions.template import Stop, Template, literal
from rrext.editor.schemas.lookup import kinds_of
from rrext.nodes.base.node import Node, accepted_lanes
from rrext.pipefile.config import COMMON

_TOOL_KEY: Final = re.compile(r"(?:.*_)?tools?(?:_?names?)?", re.IGNORECASE)
"""Keys under which agents of all kinds name tools: `tools`, `toolName`, `allowed_tools`."""
_SOURCE_KEYS: Final = frozenset({"mode", "type", "hideForm"})
_TEXT: Final[Template] = ('"', Stop(), '"')
_COMMON_VALUES: Final[Mapping[str, Template]] = {
    "parameters": ("{", Stop(), "}"),
    "secureParameters": ("{", Stop(), "}"),
    "hideForm": (Stop(choices=("true", "false")),),
    "mode": ('"Source"',),
}


def config_keys(context: CompletionContext, component: CursorComponent) -> Iterator[Offer]:
    """The missing keys of the object around the cursor."""
    parts = component.parts[1:]
    section = section_of(context, component, parts)
    present = component.keys("config", *parts)
    about = ("setting", component.provider, section.profile, *(section.inner or ()))
    given = {} if section.inner else section.given
    for offer in schema_keys(section.root, section.fields(), present, about, given):
        own = not section.inner and offer.label == "type" and component.node is not None and component.node.is_source()
        yield _naming(offer, component.provider) if own else offer
    if not parts:
        if component.node is not None and component.node.takes_references and "tools" not in present:
            value = ("[", Stop(), "]")
            yield Offer("tools", "key", (literal("tools"),), "references", ("key", "reference", "tools"), 90, value=value)
        yield from _common_keys(component, present, section)


def _naming(offer: Offer, provider: str) -> Offer:
    """The key `type` of a source; its value is the provider's name."""
    return Offer(offer.label, "key", offer.template, offer.detail, offer.about, offer.rank, value=('"', Stop(provider), '"'))


def _common_keys(component: CursorComponent, present: frozenset[str], section: Section) -> Iterator[Offer]:
    """Keys that every config may have, if they apply to this node."""
    profile, node = section.profile, component.node
    if profile and profile not in present:
        detail = f"settings over those of the profile {profile}"
        about = ("profile", component.provider, profile)
        yield Offer(profile, "key", (literal(profile),), detail, about, value=section.begun())
    for at, key in enumerate(COMMON):
        if key not in present and not section.has(key) and _makes_sense(key, node):
            value = _COMMON_VALUES.get(key, _TEXT)
            if key == "profile" and node is not None:
                value = (profile_names(node),)
            rank = 99 if key == "profile" else 200 + at
            yield Offer(key, "key", (literal(key),), "of every node", ("key", "config", key), rank, value=value)


def _makes_sense(key: str, node: type[Node] | None) -> bool:
    if node is None:
        return True
    if key == "profile":
        return bool(node.profiles)
    if key == "tool_description":
        return bool(node.tools)
    return key not in _SOURCE_KEYS or node.is_source()


def config_values(context: CompletionContext, component: CursorComponent) -> Iterator[Offer]:
    """The values that the node allows at a position of a config."""
    parts = component.parts[1:]
    if not parts:
        value = required_settings(context, component.node)
        yield Offer("{ }", "value", value, "the settings", ("key", "component", "config"), finds="{")
        return
    section = section_of(context, component, parts)
    if _is_sources_own(component, parts) or (len(parts) == 1 and not section.has(parts[0])):
        yield from _common_values(component, parts[0], section)
    else:
        yield from _setting_values(context, component, section, parts)


def _is_sources_own(component: CursorComponent, parts: tuple[str, ...]) -> bool:
    """Whether a setting marks the component as a source; it has exactly one valid value."""
    return parts in (("mode",), ("type",)) and component.node is not None and component.node.is_source()


def _common_values(component: CursorComponent, key: str, section: Section) -> Iterator[Offer]:
    """Values of common settings, and of the settings that every source has."""
    node, provider, about = component.node, component.provider, ("key", "config", key)
    if key == "profile" and node is not None:
        yield from _profiles(node, provider)
    elif node is not None and key in node.profiles:
        yield Offer("{ }", "value", section.begun(), "the settings", ("profile", provider, key), finds="{")
    elif key == "type" and provider:
        yield Offer(provider, "value", (literal(provider),), "the provider", about)
    elif key == "hideForm":
        for rank, text in enumerate(("true", "false")):
            yield Offer(text, "value", (text,), "", about, rank)
    elif key in _COMMON_VALUES:
        label = "Source" if key == "mode" else "{ }"
        yield Offer(label, "value", _COMMON_VALUES[key], "", about, finds=label.partition(" ")[0])


def _profiles(node: type[Node], provider: str) -> Iterator[Offer]:
    for name, values in node.profiles.items():
        sets = ", ".join(map(str, values)) or "nothing"
        detail = f"{'the default; ' if name == node.default_profile else ''}sets {sets}"
        rank = 0 if name == node.default_profile else 1
        yield Offer(name, "profile", (literal(name),), detail, ("profile", provider, name), rank)


def _setting_values(
    context: CompletionContext, component: CursorComponent, section: Section, parts: tuple[str, ...]
) -> Iterator[Offer]:
    schemas = section.schemas()
    name = next((part for part in reversed(parts) if not part.isdecimal()), "")
    if name == "laneId":
        yield from _lane_ids(component)
    if _TOOL_KEY.fullmatch(name) and "string" in kinds_of(schemas):
        yield from _tools(context, component)
    yield from schema_values(section.root, schemas, ("setting", component.provider, section.profile, *(section.inner or ())))


def takes_texts(context: CompletionContext, component: CursorComponent) -> bool:
    """Whether any string is valid at the position, such as a variable."""
    parts = component.parts[1:]
    if not parts or parts[-1] == "laneId" or _is_sources_own(component, parts):
        return False
    schemas = section_of(context, component, parts).schemas()
    return "string" in kinds_of([schema for schema in schemas if "enum" not in schema and "const" not in schema])


def _lane_ids(component: CursorComponent) -> Iterator[Offer]:
    """The lanes of a response node; those that arrive there come first."""
    found = [edge.get("lane") for edge in component.items("input") if isinstance(edge, dict)]
    arriving = [lane for lane in found if isinstance(lane, str)]
    accepted = () if component.node is None else accepted_lanes(component.node)
    for lane in dict.fromkeys((*arriving, *accepted)):
        arrives = lane in arriving
        detail = "arrives here" if arrives else "does not arrive here"
        yield Offer(lane, "lane", (literal(lane),), detail, ("lane", lane), 0 if arrives else 1)


def _tools(context: CompletionContext, component: CursorComponent) -> Iterator[Offer]:
    """The tools of the components that this one may invoke."""
    for part in context.others:
        node = context.node(part)
        if node is not None and any(edge.kind == "control" and edge.source == component.id for edge in part.edges):
            for name in node.tools:
                yield Offer(name, "tool", (literal(name),), f"{part.id} ({part.provider})", ("tool", part.provider, name))


def path_offers(context: CompletionContext, component: CursorComponent) -> Iterator[Offer]:
    """The names in the folder that is typed. Of a setting that takes a folder, folders alone."""
    node, parts = component.node, component.parts[1:]
    if node is None or context.files is None:
        return
    inner = parts[1:] if parts and parts[0] in node.profiles else parts
    wanted = node.paths.get(inner[0]) if inner else None
    typed = context.gap.typed[len(context.gap.quote) :]
    if wanted is None or "\\" in typed:
        return
    folder = typed[: typed.rfind("/") + 1]
    for name, is_folder in context.files.listed(folder or "."):
        if is_folder or wanted == "file":
            path = f"{folder}{name}{'/' * is_folder}"
            yield Offer(path, "folder" if is_folder else "file", (literal(path),))
