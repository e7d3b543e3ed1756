"""The trial of fixes for broken text before they are offered, because their effect depends on the rest of the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from rrext.editor.edits import Edit
from rrext.editor.fixes.context import FixContext
from rrext.editor.fixes.fix import Fix
from rrext.editor.layout import Edits
from rrext.pipefile.text.problems import Problem

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
