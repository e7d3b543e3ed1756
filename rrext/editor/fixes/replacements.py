"""Replacements of misspelt names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rrext.editor.fixes.context import FixContext
from rrext.editor.fixes.fix import Fix, fix
from rrext.pipefile.near_names import is_typing_mistake
from rrext.pipefile.text.problems import Problem, shown


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
