"""The object in a config that holds a node's settings: the config itself, or the section of a profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rrext.editor.completions.context import CompletionContext, CursorComponent
from rrext.editor.completions.fields import template_of
from rrext.editor.completions.template import Stop, Template, joined, literal
from rrext.editor.schemas.lookup import Field, Schema, fields_of, schemas_at
from rrext.nodes.base.node import Node

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
