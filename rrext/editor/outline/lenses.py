"""Lenses: the runnable actions of a document, with the spans above which editors show them."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

from rrext.editor.analysis import Analysis
from rrext.editor.calls.lines import CallLine
from rrext.editor.checked_calls import offered_references, source_of
from rrext.editor.pages.page import readable
from rrext.pipefile.spec import ComponentSpec
from rrext.pipefile.text.pointer import below
from rrext.pipefile.text.problems import Span

# outline
MAX_LENS_VALUE: Final = 40
"""Characters of a path or a question in the title of a lens."""

Action: TypeAlias = Literal["run_tool", "send_file", "chat", "show_graph"]


class Lens(msgspec.Struct, frozen=True):
    """An action at a span. `arguments` are those of the action, without the document.

    `call` is set for a call line.
    """

    span: Span
    action: Action
    title: str
    arguments: dict[str, Any] = {}
    call: CallLine | None = None

    @property
    def runs(self) -> bool:
        """Whether the action runs code of the pipeline."""
        return self.action != "show_graph"


def lenses_of(analysis: Analysis) -> list[Lens]:
    """All lenses of a document, in the order of its text."""
    found = [_graph(analysis)] if analysis.drafts else []
    offering = offered_references(analysis.drafts).nodes
    for draft in analysis.drafts:
        if draft.node is not None and (draft.node.tools or draft.node.has_dynamic_tools or draft.id in offering):
            found.append(Lens(_at(analysis, draft), "run_tool", "Run tool…", {"node": draft.id}))
    if (source := source_of(analysis, "send")) is not None:
        found.append(Lens(_at(analysis, source), "send_file", "Send file…"))
    if (source := source_of(analysis, "chat")) is not None:
        found.append(Lens(_at(analysis, source), "chat", "Chat…"))
    found += [_of_call(call) for call in analysis.calls.lines if call.sound]
    return sorted(found, key=lambda lens: lens.span)


def call_arguments(call: CallLine) -> dict[str, Any]:
    """The arguments of the action of a call line."""
    if call.kind == "tool":
        node = {"node": call.node} if call.node else {}
        return {**node, "tool": call.tool, "input": call.input or {}}
    if call.kind == "chat":
        return {"question": call.question}
    mime = {"mimeType": call.mime_type} if call.mime_type is not None else {}
    return {"path": list(call.paths), **mime}


def _graph(analysis: Analysis) -> Lens:
    start = analysis.map.span(analysis.base)[0]
    return Lens((start, start + 1), "show_graph", "Show graph")


def _at(analysis: Analysis, draft: ComponentSpec) -> Span:
    """The span of a component's id, or of the component."""
    located = analysis.map.find(below(draft.path, "id")) or analysis.map.find(draft.path)
    return (0, 0) if located is None else (located.start, located.end)


def _of_call(call: CallLine) -> Lens:
    arguments = call_arguments(call)
    if call.kind == "tool":
        return Lens(call.span, "run_tool", f"Run {call.tool}", arguments, call)
    if call.kind == "chat":
        return Lens(call.span, "chat", f"Ask {_cut(call.question)}", arguments, call)
    return Lens(call.span, "send_file", f"Send {_cut(' '.join(call.paths))}", arguments, call)


def _cut(text: str) -> str:
    return readable(" ".join(text.split()), MAX_LENS_VALUE)
