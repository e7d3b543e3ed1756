"""The part of a pipeline at an offset of its text."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from rrext.editor.analysis import Analysis
from rrext.pipefile.shape import ComponentDraft
from rrext.pipefile.text.pointer import parts_of
from rrext.pipefile.text.tree import Located

Role: TypeAlias = Literal[
    "root_key",  # a key of the pipeline
    "source",  # the id that the pipeline begins with
    "root_value",  # any other value there
    "component",  # inside a component, on none of its members
    "component_key",
    "id",
    "provider",
    "component_value",
    "config_key",  # a key somewhere in a config
    "config_value",
    "profile",  # the name of a profile
    "edge",  # inside an edge, on none of its members
    "edge_key",
    "from",  # the id that an edge comes from
    "lane",
    "class_type",
    "edge_value",
    "outside",
]
EdgeKind: TypeAlias = Literal["input", "control"]


class CursorTarget(msgspec.Struct, frozen=True):
    """A value or key of a pipeline. `parts` is its path below the component, or below the pipeline if outside of one.

    `edge` is the index in the component's list of `kind`.
    """

    role: Role
    located: Located
    pointer: str
    parts: tuple[str, ...]
    draft: ComponentDraft | None = None
    kind: EdgeKind | None = None
    edge: int | None = None

    @property
    def span(self) -> tuple[int, int]:
        """The span of the key or value, with its quotes."""
        key = self.located.key_span
        return key if self.role.endswith("_key") and key is not None else (self.located.start, self.located.end)


def target_at(analysis: Analysis, offset: int) -> CursorTarget:
    """The target at an offset."""
    place = analysis.map.at(offset)
    parts = parts_of(place.pointer)
    base = parts_of(analysis.base)
    if parts[: len(base)] != base:
        return CursorTarget("outside", place.located, place.pointer, tuple(parts))
    parts = parts[len(base) :]
    if len(parts) < 2 or parts[0] != "components":
        return CursorTarget(_root_role(parts, place.in_key), place.located, place.pointer, tuple(parts))
    index = int(parts[1]) if parts[1].isdecimal() else -1
    draft = analysis.drafts[index] if 0 <= index < len(analysis.drafts) else None
    parts = parts[2:]
    role, kind, edge = _component_role(parts, place.in_key)
    return CursorTarget(role, place.located, place.pointer, tuple(parts), draft, kind, edge)


def _root_role(parts: list[str], in_key: bool) -> Role:
    if len(parts) != 1:
        return "outside" if not parts else "root_value"
    if in_key:
        return "root_key"
    return "source" if parts[0] == "source" else "root_value"


def _component_role(parts: list[str], in_key: bool) -> tuple[Role, EdgeKind | None, int | None]:
    if not parts:
        return "component", None, None
    head = parts[0]
    if len(parts) == 1:
        return _member_role(head, in_key), None, None
    if head == "config":
        if in_key:
            return "config_key", None, None
        return ("profile" if parts[1:] == ["profile"] else "config_value"), None, None
    if (head == "input" or head == "control") and parts[1].isdecimal():
        return _edge_role(parts[2:], in_key), head, int(parts[1])
    return "component_value", None, None


def _member_role(name: str, in_key: bool) -> Role:
    if in_key:
        return "component_key"
    if name == "id":
        return "id"
    return "provider" if name == "provider" else "component_value"


def _edge_role(parts: list[str], in_key: bool) -> Role:
    if not parts:
        return "edge"
    if len(parts) > 1:
        return "edge_value"
    if in_key:
        return "edge_key"
    if parts[0] == "from":
        return "from"
    if parts[0] == "lane":
        return "lane"
    return "class_type" if parts[0] == "classType" else "edge_value"
