"""What an editor shows of the place under the pointer."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rrext.editor.analysis import Analysis
from rrext.editor.pages.call import call_page_at
from rrext.editor.pages.component import add_short, component_page
from rrext.editor.pages.edge import class_type_page, lane_page
from rrext.editor.pages.page import Code, Page
from rrext.editor.pages.setting import profile_page, setting_page
from rrext.editor.pages.variables import variable_at, variable_page
from rrext.editor.pages.vocabulary import COMPONENT_TEXTS, EDGE_TEXTS, ROOT_TEXTS
from rrext.editor.spot import Spot, spot_at
from rrext.editor.written import Edge, Part, Written, text_of
from rrext.pipefile.text.problems import Span

__all__ = ["Hover", "hover_at"]


class Hover(msgspec.Struct, frozen=True):
    """A page, and the piece of the text that it is about."""

    span: Span
    page: Page


def hover_at(analysis: Analysis, offset: int) -> Hover | None:
    """What there is to say of an offset. No variable's value and no secret of the file is ever in it."""
    call = call_page_at(analysis, offset)
    if call is not None:
        return Hover(*call)
    spot = spot_at(analysis, offset)
    variable = variable_at(analysis, spot, offset)
    if variable is not None:
        return Hover(variable.span, variable_page(analysis, variable))
    is_container = spot.located.kind in ("object", "array") and not spot.role.endswith("_key")
    span = _bracket(analysis, spot, offset) if is_container else spot.span
    if span is None or span[0] == span[1] or not span[0] <= offset <= span[1]:  # a value may be missing
        return None
    page = _page(analysis, Written(analysis), spot)
    return None if page is None else Hover(span, page)


def _bracket(analysis: Analysis, spot: Spot, offset: int) -> Span | None:
    """The bracket at an offset: the space between two brackets is no place that anybody points at."""
    start, end = spot.located.start, spot.located.end
    if start <= offset <= start + 1 and analysis.text[start : start + 1] in ("{", "["):
        return start, start + 1
    if end - 1 <= offset <= end and analysis.text[end - 1 : end] in ("}", "]"):
        return end - 1, end
    return None


def _page(analysis: Analysis, written: Written, spot: Spot) -> Page | None:
    part = None if spot.draft is None or spot.draft.index >= len(written.parts) else written.parts[spot.draft.index]
    if part is None:
        return _root_page(analysis, written, spot)
    if spot.role in ("component", "id", "provider"):
        return component_page(analysis, written, part)
    if spot.role in ("config_key", "config_value"):
        return setting_page(analysis, part, written.node_of(part), spot.parts[1:])
    if spot.role == "profile":
        name = text_of(spot.located)
        return profile_page(written.node_of(part), name) if name else None
    if spot.role == "component_key":
        return _key_page(COMPONENT_TEXTS, spot.parts[-1])
    if spot.role == "edge_key":
        return _key_page(EDGE_TEXTS, spot.parts[-1])
    return _edge_page(analysis, written, part, spot)


def _root_page(analysis: Analysis, written: Written, spot: Spot) -> Page | None:
    if spot.role == "root_key":
        return _key_page(ROOT_TEXTS, spot.parts[-1])
    return _other_page(analysis, written, text_of(spot.located)) if spot.role == "source" else None


def _edge_page(analysis: Analysis, written: Written, part: Part, spot: Spot) -> Page | None:
    edge = next((edge for edge in part.edges if (edge.kind, edge.index) == (spot.kind, spot.edge)), None)
    if edge is None:
        return None
    if spot.role == "from":
        return _other_page(analysis, written, text_of(spot.located))
    return _name_page(written, edge, spot)


def _name_page(written: Written, edge: Edge, spot: Spot) -> Page | None:
    if not edge.name:
        return None
    if spot.role == "lane" and edge.kind == "input":
        return lane_page(written, edge)
    return class_type_page(written, edge) if spot.role == "class_type" and edge.kind == "control" else None


def _other_page(analysis: Analysis, written: Written, node_id: str) -> Page | None:
    """The component that an id means, in short."""
    if not node_id:
        return None
    part = written.by_id.get(node_id)
    page = Page()
    if part is None:
        return page.text("No component has the id ", Code(node_id), ".")
    add_short(page, analysis, written, part)
    return page


def _key_page(texts: Mapping[str, str], key: str) -> Page | None:
    return Page().title(Code(key)).prose(texts[key]) if key in texts else None
