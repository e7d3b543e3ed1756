"""A fix: a title and edits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from rrext.editor.edits import Edit
from rrext.editor.layout import Edits, joined
from rrext.pipefile.text.problems import Problem

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
