"""Fixes of variables: names that have a value, and ids that must not contain variables."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from rrext.editor.edits import Edit
from rrext.editor.fixes.context import FixContext
from rrext.editor.fixes.fix import Fix, fix, is_obvious
from rrext.pipefile.environment import NEVER, PREFIX
from rrext.pipefile.literal_secrets import variable_for
from rrext.pipefile.text.problems import Problem
from rrext.secrets.names import secret_in


def wrong_variable(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """A variable that has a value; for a forbidden name, the same name with the allowed prefix."""
    located = context.find(problem.path)
    if located is None or not problem.part:
        return
    start, end = context.span(problem)
    if context.text[start:end] != problem.part:
        return
    name = problem.part[2:-1]
    names = problem.near
    if problem.code == "variable_not_allowed" and not names and name not in NEVER:
        names = (PREFIX + name,)
    for other in names:
        title = f"Replace {problem.part} with ${{{other}}}"
        edits = _everywhere(context, located.start, located.end, problem.part, other)
        yield fix(problem, title, edits, preferred=other == PREFIX + name or is_obvious(name, other, names))


def _everywhere(context: FixContext, start: int, end: int, part: str, name: str) -> tuple[Edit, ...]:
    """The replacement of every occurrence of a variable in a string."""
    edits: list[Edit] = []
    at = context.text.find(part, start, end)
    while at >= 0:
        edits.append(Edit(at, at + len(part), f"${{{name}}}"))
        at = context.text.find(part, at + len(part), end)
    return tuple(edits)


def variable_in_project_id(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """A literal id; or none, so that each run gets one."""
    yield fix(problem, "Write a new project id", context.replace(problem.path, str(uuid.uuid4())), preferred=True)
    yield fix(problem, 'Remove "project_id"', context.remove(problem.path))


def literal_secret(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """A variable in the place of the secret. The title must not show it, and the author has to keep it elsewhere first."""
    located, draft = context.find(problem.path), context.draft(problem.path)
    if located is None or draft is None or not isinstance(located.value, str):
        return
    key = next((part for part in reversed(context.parts(problem.path)) if not part.isdecimal()), "")
    found = secret_in(located.value, key)
    if found is None:
        return
    start, name = context.text.find(found[1], located.start, located.end), variable_for(draft.provider, key)
    written = Edit(start, start + len(found[1]), f"${{{name}}}") if start >= 0 else None
    whole = context.replace(problem.path, f"${{{name}}}")
    yield fix(problem, f"Replace the secret with ${{{name}}}", whole if written is None else (written,))
