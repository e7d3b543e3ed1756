"""Documents with mistakes, and what every fix promises."""

from __future__ import annotations

from typing import Any

from pipefile import sample_nodes

from rrext.editor.analysis import Analysis, AnalysisSettings, analyse
from rrext.editor.fixes.fix import Fix, FixContext
from rrext.editor.fixes.table import fixes_for
from rrext.editor.text import applied
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.text.problems import Problem
from rrext.pipefile.text.source import parse

SECRET = "hunter2"
ENVIRONMENT = Environment({"ROCKETRIDE_KEY": SECRET})
SAMPLE = AnalysisSettings(sample_nodes.catalog(), ENVIRONMENT, trusted=True)
"""A few nodes, made for tests."""
REAL = AnalysisSettings(Catalog(installed=False), ENVIRONMENT, trusted=True)
"""The nodes that come with rrext."""


def look(text: str, around: AnalysisSettings = SAMPLE) -> Analysis:
    return analyse(text, around)


def mistakes(analysis: Analysis) -> int:
    """How many mistakes a text has, as text."""
    return sum(problem.span is not None for problem in parse(analysis.text).problems)


def codes(analysis: Analysis) -> list[str]:
    return [problem.code for problem in analysis.problems]


def fixes(text: str, code: str, around: AnalysisSettings = SAMPLE) -> list[Fix]:
    """The fixes of the first problem of a code."""
    analysis = look(text, around)
    problem = next((problem for problem in analysis.problems if problem.code == code), None)
    assert problem is not None, codes(analysis)
    return fixes_for(FixContext(analysis), problem)


def titles(text: str, code: str, around: AnalysisSettings = SAMPLE) -> list[str]:
    return [fix.title for fix in fixes(text, code, around)]


def mended_by(text: str, title: str, code: str, around: AnalysisSettings = SAMPLE) -> str:
    """The text after the fix of a title."""
    found = next(fix for fix in fixes(text, code, around) if fix.title == title)
    return applied(text, found.edits)


def preferred(analysis: Analysis) -> Fix | None:
    """The preferred fix of the first problem that has one."""
    bench = FixContext(analysis)
    for problem in analysis.problems:
        for fix in fixes_for(bench, problem):
            if fix.preferred:
                return fix
    return None


def breach(analysis: Analysis, problem: Problem, fix: Fix) -> str:
    """Which promise a fix does not keep; empty if it keeps them all."""
    text = analysis.text
    if not fix.title or not fix.edits or fix.problem is not problem:
        return "it says and does something"
    for one, other in zip(fix.edits, fix.edits[1:], strict=False):
        if one.end > other.start:
            return "its edits do not overlap"
    if any(not 0 <= edit.start <= edit.end <= len(text) for edit in fix.edits):
        return "its edits are in the text"
    after = look(applied(text, fix.edits), analysis.settings)
    if mistakes(after) > mistakes(analysis):
        return f"the text is no more broken: {codes(after)}"
    hidden = (problem.code, "duplicate_edge")  # the same edge again is told as that alone, until the first one is gone
    fewer = sum(code in hidden for code in codes(after)) < sum(code in hidden for code in codes(analysis))
    still = not fewer and any(is_same(other, problem, fix) for other in after.problems)
    return f"the problem is gone: {codes(after)}" if still else ""


def is_same(other: Problem, problem: Problem, fix: Fix) -> bool:
    """Whether a problem after a fix is the one that was to be mended: it says the same of the same place."""
    if (other.code, other.message) != (problem.code, problem.message):
        return False
    if other.span is None or problem.span is None:
        return other.path == problem.path
    start = problem.span[0]
    return other.span[0] == start + sum(len(edit.text) - (edit.end - edit.start) for edit in fix.edits if edit.end <= start)


def untouched(analysis: Analysis, fix: Fix) -> list[Any]:
    """The values of the components that no edit touches."""
    listed = analysis.map.find(f"{analysis.base}/components")
    return [
        child.value
        for child in (listed.children if listed is not None else ())
        if all(edit.end <= child.start or edit.start >= child.end for edit in fix.edits)
    ]
