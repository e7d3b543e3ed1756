"""The position of a mistake in a statement, read from the database's message."""

from __future__ import annotations

import re
from typing import Final

from rrext.errors import RrextError
from rrext.nodes.sql.gate.lexer import line_and_column

_CHARACTER: Final = re.compile(r"\(at character (\d+)\)")
"""PostgreSQL reports the number of the character."""
_NEAR: Final = re.compile(r"near '(.+)' at line \d+|near \"([^\"]+)\"", re.DOTALL)
"""MySQL reports the rest of the text; SQLite and DuckDB report a word."""


def note_place(error: RrextError, sql: str) -> None:
    """Add `line` and `column`, counted from 1, to the data of a failure, if the message fits one position only."""
    at = _place(error.message, sql)
    if at is not None and "line" not in error.data:
        error.data["line"], error.data["column"] = line_and_column(sql, at)


def _place(message: str, sql: str) -> int | None:
    counted = _CHARACTER.search(message)
    if counted is not None:
        return int(counted[1]) - 1
    near = _NEAR.search(message)
    if near is None:
        return None
    text = near[1] or near[2]
    word = rf"(?<![\w$]){re.escape(text)}(?![\w$])" if near[2] and text.isidentifier() else re.escape(text)
    found = [match.start() for match in re.finditer(word, sql)]
    return found[0] if len(found) == 1 else None
