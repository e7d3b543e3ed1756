"""The component in which the cursor is, as it would read without what is being typed."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final

from rrext.editor.analysis import Analysis
from rrext.editor.completions.gap import Gap
from rrext.editor.completions.summaries import ComponentSummaries, ComponentSummary
from rrext.editor.completions.template import Wrapping
from rrext.editor.known_nodes import KnownNodes
from rrext.nodes.base.node import Node
from rrext.pipefile.text.pointer import below, parts_of
from rrext.pipefile.text.source import SourceMap, parse

__all__ = ["CompletionContext", "CursorComponent"]

REST: Final = 10_000
"""So many characters after the gap are always read."""
NO_KEY: Final = '"\\u0000"'
"""What stands for a key that is being typed."""


class CursorComponent:
    """A component. `parts` is the way from it to the gap; `node` the class of its provider, if that is known.

    The parser reads an unfinished text as something else than what is meant, so the component is read again on its own,
    with something whole in the gap.
    """

    __slots__ = ("_map", "index", "node", "parts", "provider", "value")

    def __init__(self, index: int, parts: tuple[str, ...], where: SourceMap, known_nodes: KnownNodes) -> None:
        self.index = index
        self.parts = parts
        self._map = where
        self.value = where.root.value if where.root.kind == "object" else {}
        self.provider = self.text("provider")
        self.node: type[Node] | None = known_nodes.node(self.provider)

    @property
    def id(self) -> str:
        """The component's id; empty if it has none yet."""
        return self.text("id")

    def get(self, *parts: str | int) -> Any:
        """The value at a path below the component; None if nothing stands there."""
        located = self._map.find(below("", *parts))
        return None if located is None else located.value

    def text(self, *parts: str | int) -> str:
        """The text at a path below the component; empty if there is none."""
        found = self.get(*parts)
        return found if isinstance(found, str) else ""

    def keys(self, *parts: str | int) -> frozenset[str]:
        """The keys of an object below the component, without the one that is being typed."""
        located = self._map.find(below("", *parts))
        return frozenset(located.value) if located is not None and located.kind == "object" else frozenset()

    def items(self, *parts: str | int) -> list[Any]:
        """The elements of a list below the component."""
        found = self.get(*parts)
        return found if isinstance(found, list) else []

    def __repr__(self) -> str:
        return f"<Here in {self.id or self.index} at {'/'.join(self.parts)}>"


class CompletionContext:
    """All that decides what is offered: the gap, the component around it, the other components, and the nodes there are.

    `parts` is the way from the pipeline to the gap; None outside of it.
    """

    __slots__ = ("analysis", "component", "gap", "known_nodes", "others", "parts", "summaries")

    def __init__(self, analysis: Analysis, gap: Gap, summaries: ComponentSummaries, known_nodes: KnownNodes) -> None:
        self.analysis = analysis
        self.gap = gap
        self.summaries = summaries
        self.known_nodes = known_nodes
        base = tuple(parts_of(analysis.base))
        self.parts = gap.path[len(base) :] if gap.path[: len(base)] == base else None
        self.component = self._component(len(base))
        own = -1 if self.component is None else self.component.index
        self.others = [
            summary for summary in summaries.all if summary.index != own and summaries.by_id.get(summary.id) is summary
        ]
        """The other components that can be named, in file order: those whose id nobody before them has."""

    def node(self, summary: ComponentSummary) -> type[Node] | None:
        """The class of another component."""
        return self.known_nodes.node(summary.provider)

    @property
    def wrapping(self) -> Wrapping:
        """What members of an object need around them in the gap."""
        gap, text = self.gap, self.analysis.text
        if gap.place != "key":
            return "braces"
        return "lines" if text[gap.start - 1 : gap.start] == "{" and text[gap.end : gap.end + 1] == "}" else "none"

    def keys(self) -> frozenset[str]:
        """The keys of the pipeline itself, without the one that is being typed."""
        located, gap = self.analysis.map.find(self.analysis.base), self.gap
        spans = [] if located is None else [(child.key, child.key_span) for child in located.children]
        keys = {key for key, span in spans if key is not None and span is not None and not gap.start <= span[0] < gap.end}
        if gap.start < gap.end and gap.colon == "none":  # what follows may have been read as a part of it
            following = parse("{" + self.analysis.text[gap.end :], limits=self.analysis.settings.limits).value
            keys |= following.keys() if isinstance(following, dict) else set()
        return frozenset(keys)

    def _component(self, depth: int) -> CursorComponent | None:
        parts = self.parts
        if parts is None or len(parts) < 2 or parts[0] != "components" or len(self.gap.brackets) < depth + 3:
            return None
        if not self.analysis.text.startswith("[", self.gap.brackets[depth + 1]):
            return None
        start = self.gap.brackets[depth + 2]
        before, after = self._around(start)
        fix_all_edits = f"{before}{self._filled()}{after}"
        brace = "" if fix_all_edits.startswith("{") else "{"  # it may be missing
        where = parse(brace + fix_all_edits, limits=self.analysis.settings.limits).map
        assert where is not None
        return CursorComponent(int(parts[1]), parts[2:], where, self.known_nodes)

    def _around(self, start: int) -> tuple[str, str]:
        """The component's text before the gap, and what follows that may be its text too.

        Where the next component seems to begin may be wrong in a broken text, so some more is taken.
        """
        text, gap = self.analysis.text, self.gap
        following = bisect_left(self.summaries.starts, gap.end)
        end = self.summaries.starts[following] if following < len(self.summaries.starts) else len(text)
        return text[start : gap.start], text[gap.end : max(end, gap.end + REST)]

    def _filled(self) -> str:
        """What stands in the gap while the component is read."""
        gap = self.gap
        if gap.place == "key":
            return NO_KEY if gap.colon == "there" else ""
        return f"{gap.lead}null," if gap.comma else f"{gap.lead}null"

    def __repr__(self) -> str:
        return f"<Scene {self.gap.place} at {'/'.join(self.gap.path)}>"
