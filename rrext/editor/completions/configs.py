"""Offers inside of a config: its keys and their values, profiles, the names of tools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rrext.editor.completions.form import Field, fields_of, kinds_of, schemas_at, template_of, values_of
from rrext.editor.completions.here import Here, Scene
from rrext.editor.completions.offer import Offer
from rrext.editor.completions.template import Stop, Template, literal
from rrext.editor.schemas import Schema, type_text
from rrext.editor.secrets import masked
from rrext.engine.config import COMMON
from rrext.engine.edges import accepted_lanes
from rrext.engine.node import Node

__all__ = ["Section", "config_keys", "config_values", "required_settings", "section_of", "takes_texts"]

ANYTHING: Final[Schema] = {"type": "object"}

_TOOL_KEY: Final = re.compile(r"(?:.*_)?tools?(?:_?names?)?", re.IGNORECASE)
"""Keys under which agents of all kinds name tools: `tools`, `toolName`, `allowed_tools`."""
_SOURCE_KEYS: Final = frozenset({"mode", "type", "hideForm"})
_COMMON_VALUES: Final[Mapping[str, Template]] = {
    "profile": ('"', Stop(), '"'),
    "parameters": ("{", Stop(), "}"),
    "secureParameters": ("{", Stop(), "}"),
    "hideForm": (Stop(choices=("true", "false")),),
    "mode": ('"Source"',),
}


class Section:
    """The object in a config that has a node's settings, as seen from a place in it.

    `inner` is the way from it to the place, None if the place is outside of it: beside the section of a profile.
    `given` are the defaults of the profile that holds.
    """

    __slots__ = ("given", "inner", "profile", "root")

    def __init__(self, root: Schema, profile: str, given: Mapping[str, Any], inner: tuple[str, ...] | None) -> None:
        self.root = root
        self.profile = profile
        self.given = given
        self.inner = inner

    def fields(self) -> list[Field]:
        """The keys that the object at the place may have; those first that must be there and have no default."""
        if self.inner is None:
            return []
        found = fields_of(self.root, schemas_at(self.root, self.inner))
        if self.inner:
            return found
        needed = [field for field in found if field.required and field.name not in self.given]
        return [*needed, *(field for field in found if field not in needed)]

    def schemas(self) -> tuple[Schema, ...]:
        """What the schema says of the value at the place."""
        return () if self.inner is None else schemas_at(self.root, self.inner)

    def __repr__(self) -> str:
        return f"<Section {self.profile or 'without profile'}, {self.inner}>"


def section_of(scene: Scene, here: Here, parts: tuple[str, ...]) -> Section:
    """The settings around a place in a config; `parts` is the way to it from there."""
    node = here.node
    if node is None:
        return Section(ANYTHING, "", {}, parts)
    root = scene.shelf.schema(node) or ANYTHING
    own = root.get("properties", {})
    chosen = here.get("config", "profile")
    if isinstance(chosen, str) and chosen in node.profiles and "profile" not in own:
        inner = parts[1:] if parts[:1] == (chosen,) else None
        return Section(root, chosen, node.profiles[chosen], inner)
    if parts and parts[0] in node.profiles and parts[0] not in own:
        return Section(root, parts[0], node.profiles[parts[0]], parts[1:])
    return Section(root, "", node.profiles.get(node.default_profile or "", {}), parts)


# keys


def config_keys(scene: Scene, here: Here) -> Iterator[Offer]:
    """The keys that are not there yet, in the object in which the cursor is."""
    parts = here.parts[1:]
    section = section_of(scene, here, parts)
    present = here.keys("config", *parts)
    fields = section.fields()
    for place, field in enumerate(fields):
        if field.name not in present:
            given = section.given.get(field.name) if not section.inner else None
            yield _setting(section, here, field, given, place)
    if not parts:
        yield from _common_keys(here, present | {field.name for field in fields}, section.profile, len(fields))


def _setting(section: Section, here: Here, field: Field, given: Any, place: int) -> Offer:
    needed = field.required and given is None
    default = given if given is not None else field.default
    detail = type_text(field.schema, section.root)
    if needed:
        detail += ", required"
    elif default is not None:
        detail += f", {_short(masked(default, field.name))} if left out"
    value = template_of(section.root, field.schemas, given)
    if not section.inner and field.name == "type" and here.node is not None and here.node.is_source():
        value = ('"', Stop(here.provider), '"')
    about = ("setting", here.provider, section.profile, *(section.inner or ()), field.name)
    return Offer(field.name, "key", (literal(field.name),), detail, about, place if needed else 100 + place, value=value)


def _common_keys(here: Here, present: frozenset[str], profile: str, place: int) -> Iterator[Offer]:
    """Keys that every config may have, as far as they make sense for this node."""
    node = here.node
    if profile and profile not in present:
        detail = f"the settings over those of the profile {profile}"
        yield Offer(profile, "key", (literal(profile),), detail, ("profile", here.provider, profile), value=("{", Stop(), "}"))
    for at, key in enumerate(COMMON):
        if key not in present and _makes_sense(key, node):
            value = _COMMON_VALUES.get(key, ('"', Stop(), '"'))
            if key == "profile" and node is not None:
                value = (Stop(choices=tuple(literal(name) for name in node.profiles)),)
            rank = place if key == "profile" else 200 + at
            yield Offer(key, "key", (literal(key),), "of every node", ("key", "config", key), rank, value=value)


def _makes_sense(key: str, node: type[Node] | None) -> bool:
    if node is None:
        return True
    if key == "profile":
        return bool(node.profiles)
    if key == "tool_description":
        return bool(node.tools)
    return key not in _SOURCE_KEYS or node.is_source()


# values


def config_values(scene: Scene, here: Here) -> Iterator[Offer]:
    """What may stand at a place of a config, as far as the node says so."""
    parts = here.parts[1:]
    node = here.node
    if not parts:
        yield Offer("{ }", "value", required_settings(scene, node), "the settings", ("key", "component", "config"), finds="{")
        return
    section = section_of(scene, here, parts)
    schemas = section.schemas()
    name = next((part for part in reversed(parts) if not part.isdecimal()), "")
    if parts == ("profile",) and node is not None and not schemas_named(section, "profile"):
        yield from _profiles(node, here.provider)
    elif parts == ("type",) and (node is None or node.is_source()) and here.provider:
        yield Offer(here.provider, "value", (literal(here.provider),), "the provider", ("key", "config", "type"))
    elif parts == ("mode",) and (node is None or node.is_source()):
        yield Offer("Source", "value", ('"Source"',), "a source", ("key", "config", "mode"))
    elif len(parts) == 1 and not schemas and parts[0] in _COMMON_VALUES:
        yield Offer(parts[0], "value", _COMMON_VALUES[parts[0]], "", ("key", "config", parts[0]))
    elif name == "laneId":
        yield from _lane_ids(here)
    else:
        if _TOOL_KEY.fullmatch(name) and (not schemas or "string" in kinds_of(schemas)):
            yield from _tools(scene, here)
        yield from _of_schema(section, here, schemas)


def takes_texts(scene: Scene, here: Here) -> bool:
    """Whether a text of one's own can stand at the place, which may be a variable."""
    parts = here.parts[1:]
    schemas = section_of(scene, here, parts).schemas() if parts else ()
    open_ended = [schema for schema in schemas if "enum" not in schema and "const" not in schema]
    return "string" in kinds_of(open_ended)


def schemas_named(section: Section, name: str) -> bool:
    """Whether a node has a setting of this name itself."""
    return name in section.root.get("properties", {})


def required_settings(scene: Scene, node: type[Node] | None) -> Template:
    """A config with what a node must be told."""
    if node is None:
        return ("{", Stop(), "}")
    root = scene.shelf.schema(node) or ANYTHING
    own = root.get("properties", {})
    if node.profiles and node.default_profile is None and "profile" not in own:
        return ('{ "profile": ', Stop(choices=tuple(literal(name) for name in node.profiles)), " }")
    given = node.profiles.get(node.default_profile or "", {})
    needed = [field for field in fields_of(root, schemas_at(root, ())) if field.required and field.name not in given]
    if not needed:
        return ("{", Stop(), "}")
    pieces: list[str | Stop] = []
    for field in needed:
        pieces += ["{ " if not pieces else ", ", f"{literal(field.name)}: ", *template_of(root, field.schemas)]
    return (*pieces, " }")


def _profiles(node: type[Node], provider: str) -> Iterator[Offer]:
    for name, values in node.profiles.items():
        sets = ", ".join(values) or "nothing"
        detail = f"{'the default; ' if name == node.default_profile else ''}sets {sets}"
        rank = 0 if name == node.default_profile else 1
        yield Offer(name, "profile", (literal(name),), detail, ("profile", provider, name), rank)


def _lane_ids(here: Here) -> Iterator[Offer]:
    """The lanes of a response node: those that arrive there first."""
    arriving = [edge.get("lane") for edge in here.items("input") if isinstance(edge, dict)]
    arriving = [lane for lane in arriving if isinstance(lane, str)]
    accepted = accepted_lanes(here.node) if here.node is not None else ()
    for lane in dict.fromkeys((*arriving, *accepted)):
        arrives = lane in arriving
        detail = "arrives here" if arrives else "does not arrive here"
        yield Offer(lane, "lane", (literal(lane),), detail, ("lane", lane), 0 if arrives else 1)


def _tools(scene: Scene, here: Here) -> Iterator[Offer]:
    """The tools of the components that this one may invoke."""
    for part in scene.others:
        node = scene.node(part)
        if node is not None and any(edge.kind == "control" and edge.source == here.id for edge in part.edges):
            for name in node.tools:
                yield Offer(name, "tool", (literal(name),), f"{part.id} ({part.provider})", ("tool", part.provider, name))


def _of_schema(section: Section, here: Here, schemas: tuple[Schema, ...]) -> Iterator[Offer]:
    about = ("setting", here.provider, section.profile, *(section.inner or ()))
    found = values_of(schemas)
    for rank, (text, why) in enumerate(found.items()):
        yield Offer(_label(text), "value", (text,), why, about, rank, finds=_label(text))
    begun = template_of(section.root, schemas)
    for kind, label in (("object", "{ }"), ("array", "[ ]")):
        if kind in kinds_of(schemas) and label.replace(" ", "") not in found:
            yield Offer(label, "value", begun, kind, about, 50, finds=label[0])


def _label(text: str) -> str:
    """A value as it is shown: a text without its quotes, unless it is empty."""
    shown = text[1:-1] if text.startswith('"') and len(text) > 2 else text
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


def _short(value: Any) -> str:
    text = literal(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
