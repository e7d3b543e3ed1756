"""Lenses: the runnable actions of a document, with the spans above which editors show them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

import msgspec

from rrext.editor.analysis import Analysis
from rrext.editor.pages.page import readable
from rrext.nodes.base.node import Node
from rrext.pipefile.spec import ComponentSpec, offered_references
from rrext.pipefile.text.pointer import below
from rrext.pipefile.text.problems import Span
from rrext.pipefile.text.source import parse

MAX_LENS_VALUE: Final = 40
"""Characters of the name of a tool in the title of a lens."""
MAX_TOOL_COMMENTS: Final = 1000
"""Comments of one document that are offered as calls; nobody writes more."""

Action: TypeAlias = Literal["run_tool", "send_file", "chat", "show_graph"]

_TOOL_COMMENT: Final = re.compile(r"^[ \t]*//[ \t]*(rrext tool[ \t]+([^\s{]+)[ \t]*(\{.*\})?)[ \t\r]*$", re.MULTILINE)
"""`// rrext tool NAME {…}` on a line of its own; no line of a sound string begins so."""


class Lens(msgspec.Struct, frozen=True):
    """An action at a span. `arguments` are those of the action, without the document.

    `is_comment`: the action is written in a comment with all its arguments.
    """

    span: Span
    action: Action
    title: str
    arguments: dict[str, Any] = {}
    is_comment: bool = False

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
    found += islice(_tool_comments(analysis), MAX_TOOL_COMMENTS)
    return sorted(found, key=lambda lens: lens.span)


def source_of(analysis: Analysis, kind: str) -> ComponentSpec | None:
    """The source that accepts a kind of input (`send`, `chat`); None if no source does, or several do."""
    sources = [analysis.by_id[name] for name in analysis.loaded.outline.sources]
    found = [source for source in sources if source.node is not None and kind in _accepted(source.node)]
    return found[0] if len(found) == 1 else None


def _accepted(node: type[Node]) -> frozenset[str]:
    """The kinds of input that a source accepts."""
    if node.accepts:
        return frozenset(node.accepts)
    lanes = node.lanes.get("_source", ())
    return frozenset(("send", "chat") if "questions" in lanes else ("send",) if lanes else ())


def _graph(analysis: Analysis) -> Lens:
    start = analysis.map.span(analysis.base)[0]
    return Lens((start, start + 1), "show_graph", "Show graph")


def _at(analysis: Analysis, draft: ComponentSpec) -> Span:
    """The span of a component's id, or of the component."""
    located = analysis.map.find(below(draft.path, "id")) or analysis.map.find(draft.path)
    return (0, 0) if located is None else (located.start, located.end)


def _tool_comments(analysis: Analysis) -> Iterator[Lens]:
    """The calls in comments: a tool of the component around the comment, else of the first component that has it."""
    for found in _TOOL_COMMENT.finditer(analysis.text):
        source = parse(found[3] or "{}", limits=analysis.settings.limits)
        if source.problems or not isinstance(source.value, dict):
            continue
        around = analysis.component_at(found.start(1))
        node = {"node": around.id} if around is not None and around.id else {}
        title = f"Run {readable(found[2], MAX_LENS_VALUE)}"
        yield Lens(found.span(1), "run_tool", title, {**node, "tool": found[2], "input": source.value}, is_comment=True)
