"""The SQL dialect of SQLite. Its connections judge functions and tables themselves: see `authorizer`."""

from __future__ import annotations

from typing import Final

from rrext.nodes.sql.gate.dialect import QUERIES, SqlDialect
from rrext.nodes.sql.gate.patterns import (
    BACKTICKED_NAME,
    BLOCK,
    LINE,
    LINE_COMMENT,
    LIST,
    LITERAL,
    NUMBER,
    NUMBERED,
    QUOTED_NAME,
    SIGN,
    SPACES,
    STRAIGHT,
    TORN,
    WORD,
)

SQLITE: Final = SqlDialect(
    name="sqlite",
    patterns=(
        SPACES, LIST, NUMBER, NUMBERED, TORN, LINE, BLOCK, WORD, STRAIGHT,
        r'(?P<name>["`])', r"(?P<bracketed>\[)", r"(?P<other>\?\d*+|[:@#$][A-Za-z_][\w$]*+)", SIGN,
    ),
    literals=rf"{LINE_COMMENT}|{LITERAL}|{QUOTED_NAME}|{BACKTICKED_NAME}|\[[^\]]*(?:\]|\Z)",
    queries=QUERIES | {"pragma"},
    open_comments=True,
)  # fmt: skip
