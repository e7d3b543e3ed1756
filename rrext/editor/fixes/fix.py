"""A fix of a problem: a title and edits; the context in which fixes are made, and the composition of successive edits into
one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from rrext.editor.analysis import Analysis, WrittenComponent
from rrext.editor.formatting import Edits, TextLayout, joined, quoted
from rrext.editor.known_nodes import KnownNodes
from rrext.editor.text import Edit, applied
from rrext.pipefile.near_names import is_typing_mistake
from rrext.pipefile.spec import ComponentSpec
from rrext.pipefile.text import tokens
from rrext.pipefile.text.problems import Problem, Span, below, parts_of, pointer, shown
from rrext.pipefile.text.source import SourceMap, parse
from rrext.pipefile.text.tree import Located

MAX_FIXES: Final = 5
"""Fixes of one kind that are offered for a problem; for more, completion is the better choice."""

MAX_VALUE_FIXES: Final = 6
"""Names or values that are offered if none resembles the invalid one."""


class Fix(msgspec.Struct, frozen=True):
    """One way to fix a problem. `preferred`: it is the obvious one.

    The edits do not overlap. After them the problem is gone, and the text has no more errors than before.
    """

    title: str
    edits: tuple[Edit, ...]
    problem: Problem
    preferred: bool = False


Maker: TypeAlias = "Callable[[FixContext, Problem], Iterator[Fix | None]]"
"""Yields the fixes of a problem, the best first; None for a fix that is impossible in this text."""


def fix(problem: Problem, title: str, *changes: Edits, preferred: bool = False) -> Fix | None:
    """A fix that makes several changes; None if one of them is impossible."""
    edits = joined(*changes)
    return Fix(title, edits, problem, preferred) if edits else None


# names
def replacements(context: FixContext, problem: Problem, skip: Collection[str] = (), *, only: str = "") -> Iterator[Fix | None]:
    """Replacements by the near names of the problem, except those in `skip`. `only` is the one name that is possible here."""
    located = context.find(problem.path)
    if located is None:
        return
    is_key = problem.on == "key"
    old = str(located.key if is_key else located.value)
    names = [name for name in problem.near if name not in skip]
    for name in names:
        edits = context.rename(problem.path, name) if is_key else context.replace(problem.path, name)
        title = f"Replace {shown(old)} with {shown(name)}"
        yield fix(problem, title, edits, preferred=name == only or is_obvious(old, name, names))


def is_obvious(old: str, name: str, names: Sequence[str]) -> bool:
    """Whether `name` was mistyped as `old`, and none of the other names can have been."""
    return [other for other in names if is_typing_mistake(old, other)] == [name]


# broken text
Candidate: TypeAlias = tuple[str, Edits]
"""A title, and edits that may help."""


def certain(problem: Problem, candidates: Iterable[Candidate]) -> Iterator[Fix]:
    """The candidates as fixes, without trial, the first one preferred: their edits match the parser's own repair."""
    for place, (title, edits) in enumerate(candidates):
        if edits:
            yield Fix(title, edits, problem, place == 0)


def tried(context: FixContext, problem: Problem, candidates: Iterable[Candidate]) -> Iterator[Fix]:
    """The candidates that fix a problem without new errors; those that leave the fewest errors come first, the first is
    preferred."""
    found: list[tuple[int, str, tuple[Edit, ...]]] = []
    for title, edits in candidates:
        left = _left(context, problem, edits) if edits else None
        if edits and left is not None and left <= context.mistakes and all(edits != other for *_, other in found):
            found.append((left, title, edits))
    found.sort(key=lambda each: each[0])
    for place, (_, title, edits) in enumerate(found):
        yield Fix(title, edits, problem, place == 0)


def _left(context: FixContext, problem: Problem, edits: tuple[Edit, ...]) -> int | None:
    """The number of errors after edits; None if the problem is still among them."""
    left = context.left_after(edits)
    start = context.span(problem)[0]
    start += sum(len(edit.text) - (edit.end - edit.start) for edit in edits if edit.end <= start)
    same = [other for other in left if other.code == problem.code and other.span is not None]
    before = sum(other.code == problem.code for other in context.analysis.problems)  # those that the user sees
    still = len(same) >= before and any(other.span is not None and other.span[0] == start for other in same)
    return None if still else len(left)


Piece: TypeAlias = tuple[int, int] | str
"""A span of the first text, or new text."""


class Changes:
    """A text under repeated edits. `edits` is its difference to the first text."""

    def __init__(self, text: str) -> None:
        self._length = len(text)
        self._pieces: list[Piece] = [(0, len(text))]

    def add(self, edits: Iterable[Edit]) -> None:
        """Apply edits of the current text; they do not overlap."""
        made: list[Piece] = []
        waiting = [*reversed(self._pieces)]
        at = 0
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            at = _pass(waiting, edit.start - at, made, at)
            at = _pass(waiting, edit.end - at, [], at)
            if edit.text:
                made.append(edit.text)
        self._pieces = [*made, *reversed(waiting)]

    def edits(self) -> tuple[Edit, ...]:
        """One edit for each removed span of the first text, and for new text."""
        found: list[Edit] = []
        at, new = 0, ""
        for piece in (*self._pieces, (self._length, self._length)):
            if isinstance(piece, str):
                new += piece
                continue
            start, end = piece
            if start > at or new:
                found.append(Edit(at, start, new))
                new = ""
            at = end
        return tuple(found)


def _pass(waiting: list[Piece], count: int, made: list[Piece], at: int) -> int:
    """Move `count` characters from the waiting pieces to the made ones; returns the offset behind them."""
    at += count
    while count:
        piece = waiting.pop()
        length = len(piece) if isinstance(piece, str) else piece[1] - piece[0]
        if length > count:
            head, tail = _cut(piece, count)
            waiting.append(tail)
            piece, length = head, count
        made.append(piece)
        count -= length
    return at


def _cut(piece: Piece, count: int) -> tuple[Piece, Piece]:
    if isinstance(piece, str):
        return piece[:count], piece[count:]
    return (piece[0], piece[0] + count), (piece[0] + count, piece[1])


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
