"""The component in which the cursor is, as it would read without what is being typed."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final

from rrext.editor.analysis import Analysis
from rrext.editor.completions.gap import Gap
from rrext.editor.completions.parts import Part, Parts
from rrext.editor.completions.shelf import Shelf
from rrext.editor.completions.template import Frame
from rrext.nodes.base.node import Node
from rrext.pipefile.text.pointer import below, parts_of
from rrext.pipefile.text.source import SourceMap, parse

__all__ = ["Here", "Scene"]

REST: Final = 10_000
"""So many characters after the gap are always read."""
NO_KEY: Final = '"\\u0000"'
"""What stands for a key that is being typed."""


class Here:
    """A component. `parts` is the way from it to the gap; `node` the class of its provider, if that is known.

    The parser reads an unfinished text as something else than what is meant, so the component is read again on its own,
    with something whole in the gap.
    """

    __slots__ = ("_map", "index", "node", "parts", "provider", "value")

    def __init__(self, index: int, parts: tuple[str, ...], where: SourceMap, shelf: Shelf) -> None:
        self.index = index
        self.parts = parts
        self._map = where
        self.value = where.root.value if where.root.kind == "object" else {}
        self.provider = self.text("provider")
        self.node: type[Node] | None = shelf.node(self.provider)

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


class Scene:
    """All that decides what is offered: the gap, the component around it, the other components, and the nodes there are.

    `parts` is the way from the pipeline to the gap; None outside of it.
    """

    __slots__ = ("analysis", "file", "gap", "here", "others", "parts", "shelf")

    def __init__(self, analysis: Analysis, gap: Gap, file: Parts, shelf: Shelf) -> None:
        self.analysis = analysis
        self.gap = gap
        self.file = file
        self.shelf = shelf
        base = tuple(parts_of(analysis.base))
        self.parts = gap.path[len(base) :] if gap.path[: len(base)] == base else None
        self.here = self._here(len(base))
        own = -1 if self.here is None else self.here.index
        self.others = [part for part in file.all if part.index != own and file.by_id.get(part.id) is part]
        """The other components that can be named, in file order: those whose id nobody before them has."""

    def node(self, part: Part) -> type[Node] | None:
        """The class of another component."""
        return self.shelf.node(part.provider)

    @property
    def frame(self) -> Frame:
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
            following = parse("{" + self.analysis.text[gap.end :], limits=self.analysis.around.limits).value
            keys |= following.keys() if isinstance(following, dict) else set()
        return frozenset(keys)

    def _here(self, depth: int) -> Here | None:
        parts = self.parts
        if parts is None or len(parts) < 2 or parts[0] != "components" or len(self.gap.brackets) < depth + 3:
            return None
        if not self.analysis.text.startswith("[", self.gap.brackets[depth + 1]):
            return None
        start = self.gap.brackets[depth + 2]
        before, after = self._around(start)
        mended = f"{before}{self._filled()}{after}"
        brace = "" if mended.startswith("{") else "{"  # it may be missing
        where = parse(brace + mended, limits=self.analysis.around.limits).map
        assert where is not None
        return Here(int(parts[1]), parts[2:], where, self.shelf)

    def _around(self, start: int) -> tuple[str, str]:
        """The component's text before the gap, and what follows that may be its text too.

        Where the next component seems to begin may be wrong in a broken text, so some more is taken.
        """
        text, gap = self.analysis.text, self.gap
        following = bisect_left(self.file.starts, gap.end)
        end = self.file.starts[following] if following < len(self.file.starts) else len(text)
        return text[start : gap.start], text[gap.end : max(end, gap.end + REST)]

    def _filled(self) -> str:
        """What stands in the gap while the component is read."""
        gap = self.gap
        if gap.place == "key":
            return NO_KEY if gap.colon == "there" else ""
        return f"{gap.lead}null," if gap.comma else f"{gap.lead}null"

    def __repr__(self) -> str:
        return f"<Scene {self.gap.place} at {'/'.join(self.gap.path)}>"
