"""The page of a call line: its tool, or the component that it calls."""

from __future__ import annotations

from rrext.editor.analysis import Analysis
from rrext.editor.calls.comments import comments_with
from rrext.editor.calls.lines import COMMAND, WrittenCall, read_call
from rrext.editor.checked_calls import tool_owners
from rrext.editor.pages.component import add_short
from rrext.editor.pages.node import add_tool
from rrext.editor.pages.page import Code, Page
from rrext.editor.written_pipeline import WrittenComponent, WrittenPipeline
from rrext.errors import RrextError
from rrext.pipefile.text.problems import Problems, Span


def call_page_at(analysis: Analysis, offset: int) -> tuple[Span, Page] | None:
    """The page about a word of a call line, with the span of the word; None for other text."""
    call = _call_at(analysis, offset)
    if call is None:
        return None
    written = WrittenPipeline(analysis)
    if call.node and call.node_span[0] <= offset <= call.node_span[1]:
        component = written.by_id.get(call.node)
        page = Page()
        if component is None:
            page.text("No component has the id ", Code(call.node), ".")
        else:
            add_short(page, analysis, written, component)
        return call.node_span, page
    if call.name and call.name_span[0] <= offset <= call.name_span[1]:
        found = _tool_page(analysis, written, call)
        return None if found is None else (call.name_span, found)
    return None


def _call_at(analysis: Analysis, offset: int) -> WrittenCall | None:
    if not any(line.span[0] <= offset <= line.span[1] for line in analysis.calls.lines):
        return None
    for comment in comments_with(COMMAND, analysis.map):
        call = read_call(comment, Problems(), analysis.settings.limits)
        if call.span[0] <= offset <= call.span[1]:
            return call
    return None


def _tool_page(analysis: Analysis, written: WrittenPipeline, call: WrittenCall) -> Page | None:
    for component in _asked(analysis, written, call):
        node = written.node_of(component)
        if node is None or call.name not in node.tools:
            continue
        page = Page().title(Code(call.name), " of ", Code(component.id))
        spec = node.tools[call.name]
        try:
            add_tool(page, spec.describe(None) if spec.static else {"name": call.name})
        except RrextError as error:
            page.text(error.message)
        return page
    return None


def _asked(analysis: Analysis, written: WrittenPipeline, call: WrittenCall) -> list[WrittenComponent]:
    """The components that a call may reach, in search order."""
    if call.node:
        return [written.by_id[call.node]] if call.node in written.by_id else []
    around = analysis.component_at(call.span[0])
    drafts = [around] if around is not None and around.id else tool_owners(analysis)
    return [written.components[draft.index] for draft in drafts]
