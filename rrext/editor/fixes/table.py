"""Which code has which fixes, and which has none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rrext.editor.edits import Edit
from rrext.editor.fixes.brackets import BRACKET_MAKERS
from rrext.editor.fixes.config import CONFIG_MAKERS
from rrext.editor.fixes.connections import CONNECTION_MAKERS
from rrext.editor.fixes.context import FixContext
from rrext.editor.fixes.edges import EDGE_MAKERS
from rrext.editor.fixes.fix import Fix, Maker, fix
from rrext.editor.fixes.literals import LITERAL_MAKERS
from rrext.editor.fixes.punctuation import PUNCTUATION_MAKERS
from rrext.editor.fixes.responses import RESPONSE_MAKERS
from rrext.editor.fixes.shape import SHAPE_MAKERS
from rrext.editor.fixes.sources import SOURCE_MAKERS
from rrext.editor.fixes.variables import VARIABLE_MAKERS
from rrext.pipefile.text.problems import Problem, shown

__all__ = ["MAKERS", "NO_FIX", "fixes_for"]


def wrong_call(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The name that was meant in a call line, which has no quotes."""
    start, end = context.span(problem)
    for name in problem.near:
        title = f"Replace {shown(context.text[start:end])} with {shown(name)}"
        yield fix(problem, title, (Edit(start, end, name),), preferred=len(problem.near) == 1)


MAKERS: Final[Mapping[str, Maker]] = {
    **BRACKET_MAKERS,
    **PUNCTUATION_MAKERS,
    **LITERAL_MAKERS,
    **SHAPE_MAKERS,
    **VARIABLE_MAKERS,
    **CONFIG_MAKERS,
    **EDGE_MAKERS,
    **CONNECTION_MAKERS,
    **RESPONSE_MAKERS,
    **SOURCE_MAKERS,
    "unknown_tool": wrong_call,
    "invalid_call": wrong_call,
}
"""Code → what makes its fixes."""

NO_FIX: Final[Mapping[str, str]] = {
    "not_utf8": "what was meant by the bytes is not in the file",
    "too_large": "what to leave out is its author's to say",
    "too_deep": "what to leave out is its author's to say",
    "too_many_components": "what to leave out is its author's to say",
    "too_many_problems": "it is about the list of problems, and goes with them",
    "variable_in_name": "which name was meant is its author's to say",
    "provider_unavailable": "something must be installed, and nothing written",
    "cannot_run": "the message of the plan says what is wrong, and has no place in the file",
}
"""Code → why nothing is offered for it."""


def fixes_for(context: FixContext, problem: Problem, *, tried: bool = True) -> list[Fix]:
    """The ways to mend a problem, the best first; at most one of them is preferred.

    Where the text is broken, each is `tried`: how what it writes is read depends on what stands before it in its line.
    """
    maker = MAKERS.get(problem.code)
    found: list[Fix] = []
    for made in maker(context, problem) if maker is not None else ():
        if made is None or any(made.edits == other.edits for other in found):
            continue
        if tried and context.mistakes and len(context.left_after(made.edits)) > context.mistakes:
            continue
        taken = any(other.preferred for other in found)
        found.append(Fix(made.title, made.edits, made.problem, made.preferred and not taken))
    return sorted(found, key=lambda each: not each.preferred)
