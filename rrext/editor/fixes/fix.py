"""Fixes of a problem: titles and edits, and the ways in which they are made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from rrext.editor.edits import Edit
from rrext.editor.layout import Edits, joined
from rrext.pipefile.near_names import is_typing_mistake
from rrext.pipefile.text.problems import Problem, shown

if TYPE_CHECKING:
    from rrext.editor.fixes.context import FixContext


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
