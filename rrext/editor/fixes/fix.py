"""A fix: what it does in words, and the edits that do it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from rrext.editor.edits import Edit
from rrext.editor.layout import Edits, joined
from rrext.pipefile.text.problems import Problem

if TYPE_CHECKING:
    pass

__all__ = ["Fix", "Maker", "fix"]


class Fix(msgspec.Struct, frozen=True):
    """One way to mend a problem. `preferred`: it is the obvious one.

    The edits do not overlap. Afterwards the problem is gone, and the text is no more broken than before.
    """

    title: str
    edits: tuple[Edit, ...]
    problem: Problem
    preferred: bool = False


Maker: TypeAlias = "Callable[[FixContext, Problem], Iterator[Fix | None]]"
"""Gives the ways to mend a problem, the best first; None for one that is not possible in this text."""


def fix(problem: Problem, title: str, *changes: Edits, preferred: bool = False) -> Fix | None:
    """A fix that makes some changes; None if one of them cannot be made."""
    edits = joined(*changes)
    return Fix(title, edits, problem, preferred) if edits else None
