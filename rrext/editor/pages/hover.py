"""Hover: the page about the text under the pointer."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rrext.editor.analysis import Analysis
from rrext.editor.cursor_target import CursorTarget, target_at
from rrext.editor.pages.component import add_short, component_page
from rrext.editor.pages.edge import class_type_page, lane_page
from rrext.editor.pages.page import Code, Page
from rrext.editor.pages.setting import profile_page, setting_page
from rrext.editor.pages.variables import variable_at, variable_page
from rrext.editor.pages.vocabulary import COMPONENT_TEXTS, EDGE_TEXTS, ROOT_TEXTS
from rrext.editor.written_pipeline import WrittenComponent, WrittenEdge, WrittenPipeline, text_of
from rrext.pipefile.text.problems import Span


class Hover(msgspec.Struct, frozen=True):
    """A page, and the span that it is about."""

    span: Span
    page: Page


def hover_at(analysis: Analysis, offset: int) -> Hover | None:
    """The hover at an offset. It never contains a variable's value or a secret of the file."""
    target = target_at(analysis, offset)
    variable = variable_at(analysis, target, offset)
    if variable is not None:
        return Hover(variable.span, variable_page(analysis, variable))
    is_container = target.located.kind in ("object", "array") and not target.role.endswith("_key")
    span = _bracket(analysis, target, offset) if is_container else target.span
    if span is None or span[0] == span[1] or not span[0] <= offset <= span[1]:  # the value may be missing
        return None
    page = _page(analysis, WrittenPipeline(analysis), target)
    return None if page is None else Hover(span, page)


def _bracket(analysis: Analysis, target: CursorTarget, offset: int) -> Span | None:
    """The bracket at an offset; the space between two brackets has no hover."""
    start, end = target.located.start, target.located.end
    if start <= offset <= start + 1 and analysis.text[start : start + 1] in ("{", "["):
        return start, start + 1
    if end - 1 <= offset <= end and analysis.text[end - 1 : end] in ("}", "]"):
        return end - 1, end
    return None


def _page(analysis: Analysis, written: WrittenPipeline, target: CursorTarget) -> Page | None:
    component = (
        None
        if target.draft is None or target.draft.index >= len(written.components)
        else written.components[target.draft.index]
    )
    if component is None:
        return _root_page(analysis, written, target)
    if target.role in ("component", "id", "provider"):
        return component_page(analysis, written, component)
    if target.role in ("config_key", "config_value"):
        return setting_page(analysis, component, written.node_of(component), target.parts[1:])
    if target.role == "profile":
        name = text_of(target.located)
        return profile_page(written.node_of(component), name) if name else None
    if target.role == "component_key":
        return _key_page(COMPONENT_TEXTS, target.parts[-1])
    if target.role == "edge_key":
        return _key_page(EDGE_TEXTS, target.parts[-1])
    return _edge_page(analysis, written, component, target)


def _root_page(analysis: Analysis, written: WrittenPipeline, target: CursorTarget) -> Page | None:
    if target.role == "root_key":
        return _key_page(ROOT_TEXTS, target.parts[-1])
    return _other_page(analysis, written, text_of(target.located)) if target.role == "source" else None


def _edge_page(analysis: Analysis, written: WrittenPipeline, component: WrittenComponent, target: CursorTarget) -> Page | None:
    edge = next((edge for edge in component.edges if (edge.kind, edge.index) == (target.kind, target.edge)), None)
    if edge is None:
        return None
    if target.role == "from":
        return _other_page(analysis, written, text_of(target.located))
    return _name_page(written, edge, target)


def _name_page(written: WrittenPipeline, edge: WrittenEdge, target: CursorTarget) -> Page | None:
    if not edge.name:
        return None
    if target.role == "lane" and edge.kind == "input":
        return lane_page(written, edge)
    return class_type_page(written, edge) if target.role == "class_type" and edge.kind == "control" else None


def _other_page(analysis: Analysis, written: WrittenPipeline, node_id: str) -> Page | None:
    """A short page of the component with an id."""
    if not node_id:
        return None
    component = written.by_id.get(node_id)
    page = Page()
    if component is None:
        return page.text("No component has the id ", Code(node_id), ".")
    add_short(page, analysis, written, component)
    return page


def _key_page(texts: Mapping[str, str], key: str) -> Page | None:
    return Page().title(Code(key)).prose(texts[key]) if key in texts else None
