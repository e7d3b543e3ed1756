"""Offers inside the config of a component: keys and values by its JSON Schema, profiles, names of tools, paths, and `${NAME}`.

Of variables only names are offered, never their values.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final

from rrext.editor.completions.context import CompletionContext, CursorComponent
from rrext.editor.completions.cursor import is_closed
from rrext.editor.completions.offer import About, Offer, Stop, Template, inside_quotes, joined, literal
from rrext.editor.schemas import Field, Schema, choices_of, fields_of, kinds_of, list_of, schemas_at, type_text
from rrext.nodes.base.node import Node, accepted_lanes
from rrext.pipefile.config import COMMON
from rrext.secrets.names import PLACEHOLDER, masked

MAX_DETAIL_VALUE: Final = 40
"""Characters of a value in the detail of an offer."""

MAX_LABEL_VALUE: Final = 60
"""Characters of a value as the label of an offer."""

MAX_TEMPLATE_DEPTH: Final = 3
"""The nesting depth of objects in a template."""


def schema_keys(
    root: Schema, fields: Sequence[Field], present: Container[str], about: About, given: Mapping[str, Any]
) -> Iterator[Offer]:
    """The missing keys, required ones first. `given` are values that apply without being written."""
    for place, field in enumerate(fields):
        if field.name in present:
            continue
        default = given.get(field.name, field.default)
        needed = field.required and field.name not in given
        detail = type_text(field.schema, root)
        if needed:
            detail += ", required"
        elif default is not None:
            detail += f", {_short(masked(default, field.name))} if left out"
        value = template_of(root, field.schemas, given.get(field.name))
        rank = place if needed else 100 + place
        yield Offer(field.name, "key", (literal(field.name),), detail, (*about, field.name), rank, value=value)


def schema_values(root: Schema, schemas: Sequence[Schema], about: About) -> Iterator[Offer]:
    """The values that schemas name, and an empty object or list."""
    found = values_of(schemas)
    for rank, (text, why) in enumerate(found.items()):
        yield Offer(_label(text), "value", (text,), why, about, rank)
    kinds = kinds_of(schemas)
    for kind, label in (("object", "{ }"), ("array", "[ ]")):
        if kind in kinds and label.replace(" ", "") not in found:
            yield Offer(label, "value", template_of(root, schemas), kind, about, 50, finds=label[0])


def _label(text: str) -> str:
    """A value as it is shown: a string without its quotes, unless it is empty."""
    shown = text[1:-1] if text.startswith('"') and len(text) > 2 else text
    return shown if len(shown) <= MAX_LABEL_VALUE else f"{shown[:MAX_LABEL_VALUE]}…"


def _short(value: Any) -> str:
    text = literal(value)
    return text if len(text) <= MAX_DETAIL_VALUE else f"{text[:MAX_DETAIL_VALUE]}…"


# values
def values_of(schemas: Sequence[Schema]) -> dict[str, str]:
    """The values that schemas name, as JSON → reason: defaults first, then other allowed values, then examples."""
    found: dict[str, str] = {}
    for schema in schemas:
        if "default" in schema:
            found.setdefault(literal(schema["default"]), "default")
    for schema in schemas:
        allowed: list[Any] = list(choices_of(schema))
        if "boolean" in kinds_of([schema]) and not allowed:
            allowed = [True, False]
        if "null" in kinds_of([schema]):
            allowed.append(None)
        for value in allowed:
            found.setdefault(literal(value), "")
    for schema in schemas:
        for value in list_of(schema, "examples"):
            found.setdefault(literal(value), "example")
    return found


def template_of(root: Schema, schemas: Sequence[Schema], default: Any = None, depth: int = 0) -> Template:
    """A template of a new value. `default` replaces the default of the schema unless it is None."""
    if default is None:
        default = next((schema["default"] for schema in schemas if schema.get("default") is not None), None)
    closed = [text for text, why in values_of(schemas).items() if why != "example"]
    kinds = kinds_of(schemas)
    if any("enum" in schema or "const" in schema for schema in schemas) or kinds == ("boolean",):
        chosen = dict.fromkeys(closed if default is None else [literal(default), *closed])
        return (Stop(choices=tuple(chosen)),)
    if isinstance(default, str):
        return ('"', Stop(inside_quotes(default)), '"')
    if default is not None and default != [] and default != {}:
        return (Stop(literal(default)),)
    kind = next((kind for kind in kinds if kind != "null"), "null" if kinds else "")
    return _begun(kind, root, schemas, depth)


def _begun(kind: str, root: Schema, schemas: Sequence[Schema], depth: int) -> Template:
    if kind == "string":
        return ('"', Stop(), '"')
    if kind in ("integer", "number"):
        least = next((schema["minimum"] for schema in schemas if "minimum" in schema), 0)
        return (Stop(literal(least)),)
    if kind == "array":
        return ("[", Stop(), "]")
    if kind != "object":
        return (Stop("null"),)
    needed = [field for field in fields_of(root, schemas) if field.required] if depth < MAX_TEMPLATE_DEPTH else []
    if not needed:
        return ("{", Stop(), "}")
    inner = [(f"{literal(field.name)}: ", *template_of(root, field.schemas, depth=depth + 1)) for field in needed]
    return ("{ ", *joined(inner, ", "), " }")


ANYTHING: Final[Schema] = {"type": "object"}


class Section:
    """The settings around a position in a config.

    `inner` is the path from their object to the position; None if the position is outside, beside the section of a profile.
    `given` are the defaults of the active profile.
    """

    def __init__(self, root: Schema, profile: str, given: Mapping[str, Any], inner: tuple[str, ...] | None) -> None:
        self.root = root
        self.profile = profile
        self.given = given
        self.inner = inner

    def has(self, name: str) -> bool:
        """Whether the node itself has a setting of this name."""
        return name in self.root.get("properties", {})

    def fields(self) -> list[Field]:
        """The possible keys of the object at the position; required ones without a default come first."""
        found = fields_of(self.root, self.schemas())
        return found if self.inner else sorted(found, key=lambda field: not self._is_needed(field))

    def schemas(self) -> tuple[Schema, ...]:
        """The schemas of the value at the position; none outside."""
        return () if self.inner is None else schemas_at(self.root, self.inner)

    def begun(self) -> Template:
        """The object with all required settings."""
        needed = [field for field in fields_of(self.root, schemas_at(self.root, ())) if self._is_needed(field)]
        if not needed:
            return ("{", Stop(), "}")
        members: list[Template] = [(f"{literal(field.name)}: ", *template_of(self.root, field.schemas)) for field in needed]
        return ("{ ", *joined(members, ", "), " }")

    def _is_needed(self, field: Field) -> bool:
        return field.required and field.name not in self.given


def section_of(context: CompletionContext, component: CursorComponent, parts: tuple[str, ...]) -> Section:
    """The settings around a position in a config; `parts` is the path from the config."""
    node = component.node
    if node is None:
        return Section(ANYTHING, "", {}, parts)
    section = _plain(context, node, parts)
    chosen = component.get("config", "profile")
    if isinstance(chosen, str) and chosen in node.profiles and not section.has("profile"):
        inner = parts[1:] if parts[:1] == (chosen,) else None
        return Section(section.root, chosen, node.profiles[chosen], inner)
    if parts and parts[0] in node.profiles and not section.has(parts[0]):
        return Section(section.root, parts[0], node.profiles[parts[0]], parts[1:])
    return section


def required_settings(context: CompletionContext, node: type[Node] | None) -> Template:
    """A new config: the required settings, or the choice of a profile if the node has no default one."""
    if node is None:
        return ("{", Stop(), "}")
    section = _plain(context, node, ())
    if node.profiles and node.default_profile is None and not section.has("profile"):
        return ('{ "profile": ', profile_names(node), " }")
    return section.begun()


def profile_names(node: type[Node]) -> Stop:
    """A choice of profiles."""
    return Stop(choices=tuple(literal(name) for name in node.profiles))


def _plain(context: CompletionContext, node: type[Node], inner: tuple[str, ...]) -> Section:
    """The settings of a config that names no profile."""
    root = context.known_nodes.schema(node) or ANYTHING
    return Section(root, "", node.profiles.get(node.default_profile or "", {}), inner)


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


_BEGUN: Final = re.compile(r"\$(?:\{(\w*))?\Z")
_REST: Final = re.compile(r"\w*\}?")
_NAME: Final = re.compile(PLACEHOLDER)


def variables_in_text(context: CompletionContext, cursor: int) -> list[Offer]:
    """Variables that replace an incomplete one at the cursor; none if the cursor is not in one."""
    gap, text = context.gap, context.analysis.text
    begun = _BEGUN.search(gap.typed) if gap.quote else None
    if begun is None:
        return []
    closed = is_closed(text[gap.start : gap.end])
    rest = _REST.match(text, cursor, gap.end - closed) if begun[1] is not None else None
    start, end = gap.start + begun.start(), cursor if rest is None else rest.end()
    found: list[Offer] = []
    for name, detail, rank in _names(context):
        variable, about = f"${{{name}}}", ("variable", name)
        if closed:
            found.append(Offer(variable, "variable", (variable,), detail, about, rank, span=(start, end)))
        else:  # the string lacks its closing quote
            before, after = text[gap.start + 1 : start], text[end : gap.end]
            whole = f'"{before}{variable}{after}"'
            found.append(Offer(variable, "variable", (whole,), detail, about, rank, finds=before + variable))
    return found


def variables_as_values(context: CompletionContext) -> Iterator[Offer]:
    """Variables as complete strings."""
    for name, detail, rank in _names(context):
        variable = f"${{{name}}}"
        yield Offer(variable, "variable", (f'"{variable}"',), detail, ("variable", name), 300 + rank)


def _names(context: CompletionContext) -> Iterator[tuple[str, str, int]]:
    """Each name with its status: first the variables with a value, then other names that the file reads."""
    environment = context.analysis.settings.environment
    for name in environment.names:
        yield name, "has a value", 0
    for name in sorted({match[1] for match in _NAME.finditer(context.analysis.text)}):
        if environment.may_read(name) and environment.get(name) is None:
            yield name, "has no value here; the file reads it", 1
