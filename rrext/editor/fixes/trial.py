"""Fixes of broken text are tried before they are offered: what helps depends on how all the rest is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from rrext.editor.edits import Edit
from rrext.editor.fixes.context import FixContext
from rrext.editor.fixes.fix import Fix
from rrext.editor.layout import Edits
from rrext.pipefile.text.problems import Problem

__all__ = ["Candidate", "certain", "tried"]

Candidate: TypeAlias = tuple[str, Edits]
"""A title, and edits that may help."""


def certain(problem: Problem, candidates: Iterable[Candidate]) -> Iterator[Fix]:
    """All of some candidates, the first preferred: what they write is read as what stands there was taken for."""
    for place, (title, edits) in enumerate(candidates):
        if edits:
            yield Fix(title, edits, problem, place == 0)


def tried(context: FixContext, problem: Problem, candidates: Iterable[Candidate]) -> Iterator[Fix]:
    """The candidates that mend a problem and break nothing, those first that leave the fewest problems; the first is preferred.

    Of two that leave as many the one that was given first comes first.
    """
    found: list[tuple[int, str, tuple[Edit, ...]]] = []
    for title, edits in candidates:
        left = _left(context, problem, edits) if edits else None
        if edits and left is not None and left <= context.mistakes and all(edits != other for *_, other in found):
            found.append((left, title, edits))
    found.sort(key=lambda each: each[0])
    for place, (_, title, edits) in enumerate(found):
        yield Fix(title, edits, problem, place == 0)


def _left(context: FixContext, problem: Problem, edits: tuple[Edit, ...]) -> int | None:
    """How many mistakes the text has after some edits; None if the problem is still among them."""
    left = context.left_after(edits)
    start = context.span(problem)[0]
    start += sum(len(edit.text) - (edit.end - edit.start) for edit in edits if edit.end <= start)
    same = [other for other in left if other.code == problem.code and other.span is not None]
    before = sum(other.code == problem.code for other in context.analysis.loaded.problems)
    still = len(same) >= before and any(other.span is not None and other.span[0] == start for other in same)
    return None if still else len(left)
