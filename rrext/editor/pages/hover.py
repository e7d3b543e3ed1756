"""Hover: the page about the text under the pointer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from rrext.editor.analysis import Analysis
from rrext.editor.pages.component import add_short, component_page
from rrext.editor.pages.edge import class_type_page, lane_page
from rrext.editor.pages.page import Code, Page
from rrext.editor.pages.reference import reference_page
from rrext.editor.pages.setting import profile_page, setting_page
from rrext.editor.pages.vocabulary import COMPONENT_TEXTS, EDGE_TEXTS, ROOT_TEXTS
from rrext.editor.written_pipeline import WrittenComponent, WrittenReference, text_of
from rrext.pipefile.environment import NEVER, PREFIX, Environment
from rrext.pipefile.text.problems import Span
from rrext.pipefile.text.source import ValueAt
from rrext.pipefile.text.tree import Located
from rrext.secrets.names import PLACEHOLDER

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
