"""Replacements of misspelt names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher

from rrext.editor.fixes.context import FixContext
from rrext.editor.fixes.fix import Fix, fix
from rrext.editor.limits import OBVIOUS_DISTANCE, OBVIOUS_SIMILARITY
from rrext.pipefile.text.problems import Problem, shown


def replacements(context: FixContext, problem: Problem, skip: Collection[str] = ()) -> Iterator[Fix | None]:
    """Replacements by the near names of the problem, except those in `skip`."""
    located = context.find(problem.path)
    if located is None:
        return
    is_key = problem.on == "key"
    old = str(located.key if is_key else located.value)
    names = [name for name in problem.near if name not in skip]
    for place, name in enumerate(names):
        edits = context.rename(problem.path, name) if is_key else context.replace(problem.path, name)
        title = f"Replace {shown(old)} with {shown(name)}"
        yield fix(problem, title, edits, preferred=place == 0 and is_obvious(old, names))


def is_obvious(old: str, names: Sequence[str]) -> bool:
    """Whether the first name, the best match, is the intended one."""
    if len(names) < 2 or len(old) > 100:
        return len(names) == 1
    first, second = (SequenceMatcher(None, old, name).ratio() for name in names[:2])
    return first >= OBVIOUS_SIMILARITY and first - second >= OBVIOUS_DISTANCE
