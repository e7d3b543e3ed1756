"""Offers for `${NAME}` in strings: the names of variables, never their values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rrext.editor.completions.context import CompletionContext
from rrext.editor.completions.offer import Offer
from rrext.editor.completions.walk import is_closed
from rrext.secrets.names import PLACEHOLDER

_BEGUN: Final = re.compile(r"\$(?:\{(\w*))?\Z")
_REST: Final = re.compile(r"\w*\}?")
_NAME: Final = re.compile(PLACEHOLDER)


def variables_in_text(context: CompletionContext, cursor: int) -> list[Offer]:
    """Variables that replace an incomplete one at the cursor; none if the cursor is not in one."""
    gap, text = context.gap, context.analysis.text
    begun = _BEGUN.search(gap.typed) if gap.quote else None
    if begun is None:
        return []
    closed = is_closed(text[gap.start : gap.end])
    rest = _REST.match(text, cursor, gap.end - closed) if begun[1] is not None else None
    start, end = gap.start + begun.start(), cursor if rest is None else rest.end()
    found: list[Offer] = []
    for name, detail, rank in _names(context):
        variable, about = f"${{{name}}}", ("variable", name)
        if closed:
            found.append(Offer(variable, "variable", (variable,), detail, about, rank, span=(start, end)))
        else:  # the string lacks its closing quote
            before, after = text[gap.start + 1 : start], text[end : gap.end]
            whole = f'"{before}{variable}{after}"'
            found.append(Offer(variable, "variable", (whole,), detail, about, rank, finds=before + variable))
    return found


def variables_as_values(context: CompletionContext) -> Iterator[Offer]:
    """Variables as complete strings."""
    for name, detail, rank in _names(context):
        variable = f"${{{name}}}"
        yield Offer(variable, "variable", (f'"{variable}"',), detail, ("variable", name), 300 + rank)


def _names(context: CompletionContext) -> Iterator[tuple[str, str, int]]:
    """Each name with its status: first the variables with a value, then other names that the file reads."""
    environment = context.analysis.settings.environment
    for name in environment.names:
        yield name, "has a value", 0
    for name in sorted({match[1] for match in _NAME.finditer(context.analysis.text)}):
        if environment.may_read(name) and environment.get(name) is None:
            yield name, "has no value here; the file reads it", 1
