"""The page of `${NAME}` in a string: whether the variable has a value, never the value."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from rrext.editor.analysis import Analysis
from rrext.editor.pages.page import Code, Page
from rrext.pipefile.environment import NEVER, PLACEHOLDER, PREFIX
from rrext.pipefile.text.problems import Span
from rrext.pipefile.text.tree import Located

_VARIABLE: Final = re.compile(PLACEHOLDER)


class Variable(msgspec.Struct, frozen=True):
    """One `${NAME}` and its span."""

    name: str
    span: Span


def variable_at(text: str, located: Located, offset: int) -> Variable | None:
    """The variable at an offset, which is in a value of the text."""
    if located.kind == "string":
        for match in _VARIABLE.finditer(text, located.start, located.end):
            if match.start() <= offset <= match.end():
                return Variable(match[1], match.span())
    return None


def variable_page(analysis: Analysis, variable: Variable, *, is_replaced: bool) -> Page:
    """The page of a variable. `is_replaced`: it stands in settings."""
    environment, name = analysis.settings.environment, variable.name
    page = Page().title("Variable ", Code(name))
    if not is_replaced:
        return page.text("It stays as it is written: variables are not replaced here.")
    if not environment.may_read(name):
        why = "it is the server's own access to other servers" if name in NEVER else "it was not named by the operator"
        page.text(f"Pipelines may not read it: {why}.")
        return page.text("They may read ", Code(f"{PREFIX}*"), " and the names given by ", Code("--env"), ".")
    if environment.get(name) is None:
        return page.text("It has no value: a run would be refused.")
    return page.text("It has a value, which is not shown.")
