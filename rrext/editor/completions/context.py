"""The context of a completion: the component at the cursor, parsed without the incomplete text, and the rest of the
pipeline."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final

from rrext.editor.analysis import Analysis, WrittenComponent
from rrext.editor.completions.cursor import Gap
from rrext.editor.completions.offer import Wrapping
from rrext.editor.known_nodes import KnownNodes
from rrext.editor.workspace_files import WorkspaceFiles
from rrext.nodes.base.node import Node
from rrext.pipefile.text.problems import below, parts_of
from rrext.pipefile.text.source import SourceMap, parse

MIN_PARSED_REST: Final = 10_000
"""The number of characters after the gap that are always parsed."""

NO_KEY: Final = '"\\u0000"'
"""A placeholder for a key that is being typed."""


class CursorComponent:
    """The component at the cursor. `parts` is the path from it to the gap; `node` the class of its provider, if known.

    The parser misreads incomplete text, so the component is parsed again on its own, with a complete value in the gap.
    """

    def __init__(self, index: int, parts: tuple[str, ...], where: SourceMap, known_nodes: KnownNodes) -> None:
        self.index = index
        self.parts = parts
        self._map = where
        self.value = where.root.value if where.root.kind == "object" else {}
        self.provider = self.text("provider")
        self.node: type[Node] | None = known_nodes.node(self.provider)

    @property
    def id(self) -> str:
        """The component's id; empty if it has none."""
        return self.text("id")

    def get(self, *parts: str | int) -> Any:
        """The value at a path below the component; None if there is none."""
        located = self._map.find(below("", *parts))
        return None if located is None else located.value

    def text(self, *parts: str | int) -> str:
        """The string at a path below the component; empty if there is none."""
        found = self.get(*parts)
        return found if isinstance(found, str) else ""

    def keys(self, *parts: str | int) -> frozenset[str]:
        """The keys of an object below the component, without the incomplete one."""
        located = self._map.find(below("", *parts))
        return frozenset(located.value) if located is not None and located.kind == "object" else frozenset()

    def items(self, *parts: str | int) -> list[Any]:
        """The elements of a list below the component."""
        found = self.get(*parts)
        return found if isinstance(found, list) else []


class CompletionContext:
    """The input of all offers: the gap, the component around it, the other components, and the available nodes.

    `parts` is the path from the pipeline to the gap; None outside of the pipeline. `files` may be offered as paths.
    """

    def __init__(
        self,
        analysis: Analysis,
        gap: Gap,
        known_nodes: KnownNodes,
        files: WorkspaceFiles | None = None,
    ) -> None:
        self.files = files
        self.analysis = analysis
        self.gap = gap
        self.written = analysis.written
        self.known_nodes = known_nodes
        base = tuple(parts_of(analysis.base))
        self.parts = gap.path[len(base) :] if gap.path[: len(base)] == base else None
        self.component = self._component(len(base))
        own = -1 if self.component is None else self.component.index
        self.others = [other for other in self.written.components if other.index != own and self.written.is_first(other)]
        """The other components that an id can name, in file order: the first one of each id."""

    def node(self, component: WrittenComponent) -> type[Node] | None:
        """The class of another component."""
        return self.known_nodes.node(component.provider)

    @property
    def wrapping(self) -> Wrapping:
        """The text that members of an object need around them in the gap."""
        gap, text = self.gap, self.analysis.text
        if gap.place != "key":
            return "braces"
        return "lines" if text[gap.start - 1 : gap.start] == "{" and text[gap.end : gap.end + 1] == "}" else "none"

    def keys(self) -> frozenset[str]:
        """The keys of the pipeline itself, without the incomplete one."""
        located, gap = self.analysis.map.find(self.analysis.base), self.gap
        spans = [] if located is None else [(child.key, child.key_span) for child in located.children]
        keys = {key for key, span in spans if key is not None and span is not None and not gap.start <= span[0] < gap.end}
        if gap.start < gap.end and gap.colon == "none":  # the parser may have joined the following text to it
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
        brace = "" if fix_all_edits.startswith("{") else "{"  # the opening brace may be missing
        where = parse(brace + fix_all_edits, limits=self.analysis.settings.limits).map
        assert where is not None
        return CursorComponent(int(parts[1]), parts[2:], where, self.known_nodes)

    def _around(self, start: int) -> tuple[str, str]:
        """The component's text before the gap, and the text after it that may belong to the component.

        In broken text the start of the next component is uncertain, so at least `MIN_PARSED_REST` characters are taken.
        """
        text, gap = self.analysis.text, self.gap
        components = self.written.components
        following = bisect_left(components, gap.end, key=lambda component: component.located.start)
        end = components[following].located.start if following < len(components) else len(text)
        return text[start : gap.start], text[gap.end : max(end, gap.end + MIN_PARSED_REST)]

    def _filled(self) -> str:
        """The placeholder in the gap while the component is parsed."""
        gap = self.gap
        if gap.place == "key":
            return NO_KEY if gap.colon == "there" else ""
        return f"{gap.lead}null," if gap.comma else f"{gap.lead}null"
