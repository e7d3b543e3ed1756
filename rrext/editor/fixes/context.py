"""The context of fixes for one state of a document: its tree, its components, and edits of both."""

from __future__ import annotations

from typing import Any

from rrext.editor.analysis import Analysis
from rrext.editor.edits import Edit, applied
from rrext.editor.known_nodes import KnownNodes
from rrext.editor.layout import Edits, TextLayout
from rrext.editor.style import quoted
from rrext.editor.written_pipeline import WrittenComponent
from rrext.pipefile.spec import ComponentSpec
from rrext.pipefile.text import tokens
from rrext.pipefile.text.pointer import below, parts_of, pointer
from rrext.pipefile.text.problems import Problem, Span
from rrext.pipefile.text.source import SourceMap, parse
from rrext.pipefile.text.tree import Located


class FixContext:
    """One state of a document with the edits that fixes are made of. One thread at a time may use it, like its known nodes."""

    def __init__(self, analysis: Analysis, known_nodes: KnownNodes | None = None) -> None:
        self.analysis = analysis
        self.map: SourceMap = analysis.map
        self.known_nodes = KnownNodes(analysis.settings.catalog) if known_nodes is None else known_nodes
        self._after: dict[tuple[Edit, ...], tuple[Problem, ...]] = {}
        is_broken = any(problem.span is not None for problem in analysis.loaded.problems)
        self.syntax = self.left_after(()) if is_broken else ()
        """The syntax errors of the text, with those that are consequences of others."""
        self.mistakes = len(self.syntax)
        self._layout: TextLayout | None = None
        self.written = analysis.written
        """The components as they are written."""

    @property
    def text(self) -> str:
        """The text to fix."""
        return self.map.text

    @property
    def layout(self) -> TextLayout:
        """Edits in the layout of the text."""
        if self._layout is None:
            self._layout = TextLayout(self.map)
        return self._layout

        # positions

    def find(self, path: str) -> Located | None:
        """The value at a pointer."""
        return self.map.find(path)

    def children(self, path: str) -> list[Located]:
        """The children of the object or list at a pointer."""
        located = self.find(path)
        return [] if located is None else located.children

    def at(self, *parts: str | int) -> Located | None:
        """A value of the pipeline, by the path from its root."""
        return self.map.find(below(self.analysis.base, *parts))

    def parts(self, path: str) -> list[str]:
        """The path from the pipeline to a value in it; empty for a value outside."""
        return self.analysis.loaded.parts(path)

    def draft(self, path: str) -> ComponentSpec | None:
        """The component around a pointer."""
        return self.analysis.loaded.component_of(path)

    def part(self, draft: ComponentSpec) -> WrittenComponent | None:
        """A component as it is written."""
        parts = self.written.components
        return parts[draft.index] if draft.index < len(parts) else None

    def span(self, problem: Problem) -> Span:
        """The marked span of a problem."""
        return self.map.span_of(problem)

    def token(self, offset: int) -> tuple[int, str, int]:
        """The next token: its kind as `tokens` counts them, its text, and its start. The end of the text is empty."""
        found = tokens.TOKEN.match(self.text, offset)
        assert found is not None  # one alternative fits everywhere
        kind = found.lastindex or tokens.END
        return kind, found[kind], found.start(kind)

    def left_after(self, edits: tuple[Edit, ...]) -> tuple[Problem, ...]:
        """The syntax errors that remain after edits."""
        found = self._after.get(edits)
        if found is None:
            limits = self.analysis.settings.limits
            left = parse(applied(self.text, edits), limits=limits).problems
            found = tuple(problem for problem in left if problem.span is not None)
            self._after[edits] = found
        return found

    # changes

    def replace(self, path: str, value: Any) -> Edits:
        """Replace the value at a pointer."""
        located = self.find(path)
        return None if located is None or located.kind == "hole" else (Edit(located.start, located.end, quoted(value)),)

    def rename(self, path: str, key: str) -> Edits:
        """Rename the key at a pointer, unless the new key is taken."""
        located, holder = self.find(path), self.find(_parent(path))
        if located is None or located.key_span is None or holder is None or any(child.key == key for child in holder.children):
            return None
        return (Edit(*located.key_span, quoted(key)),)

    def remove(self, path: str) -> Edits:
        """Remove the member or element at a pointer."""
        holder, located = self.find(_parent(path)), self.find(path)
        if holder is None or located is None or holder.kind not in ("object", "array"):
            return None
        place = next(index for index, child in enumerate(holder.children) if child is located)
        return self.layout.remove(holder, [place])

    def set(self, path: str, key: str, value: Any, order: tuple[str, ...] = ()) -> Edits:
        """Set a key of the object at a pointer, whether or not it exists."""
        holder = self.find(path)
        if holder is None:
            return None
        if any(child.key == key for child in holder.children):
            return self.replace(below(path, key), value)
        return self.layout.add_member(holder, key, lambda _: self.layout.style.flat(value), order)


def _parent(path: str) -> str:
    return pointer(*parts_of(path)[:-1])
