"""The fixes of each problem code."""

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
from rrext.editor.fixes.replacements import is_obvious
from rrext.editor.fixes.responses import RESPONSE_MAKERS
from rrext.editor.fixes.shape import SHAPE_MAKERS
from rrext.editor.fixes.sources import SOURCE_MAKERS
from rrext.editor.fixes.variables import VARIABLE_MAKERS
from rrext.pipefile.text.problems import Problem, shown


def wrong_call(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The intended name in a call line, which has no quotes."""
    start, end = context.span(problem)
    for name in problem.near:
        old = context.text[start:end]
        preferred = is_obvious(old, name, problem.near)
        yield fix(problem, f"Replace {shown(old)} with {shown(name)}", (Edit(start, end, name),), preferred=preferred)


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
"""Code → maker of its fixes."""

NO_FIX: Final[Mapping[str, str]] = {
    "not_utf8": "the file does not tell the meaning of the bytes",
    "too_large": "the author decides what to leave out",
    "too_deep": "the author decides what to leave out",
    "too_many_components": "the author decides what to leave out",
    "too_many_problems": "it is about the list of problems, and ends with them",
    "variable_in_name": "the author decides which name is meant",
    "node_unavailable": "the fix is an installation, not an edit",
    "tool_undescribed": "the mistake is in the code of the node",
    "missing_file": "the author decides which file is meant",
    "provider_unavailable": "the fix is an installation, not an edit",
    "cannot_run": "the message of the plan names the cause, which has no position in the file",
}
"""Code → reason why it has no fix."""


def fixes_for(context: FixContext, problem: Problem, *, tried: bool = True) -> list[Fix]:
    """The fixes of a problem, the best first; at most one of them is preferred.

    In a broken text each is `tried`, because the meaning of its edits depends on the text before them in the line.
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
