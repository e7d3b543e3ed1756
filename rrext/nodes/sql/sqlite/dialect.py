"""The SQL dialect of SQLite. Its connections judge functions and tables themselves: see `authorizer`."""

from __future__ import annotations

from typing import Final

from rrext.nodes.sql.gate.dialect import QUERIES, SqlDialect
from rrext.nodes.sql.gate.patterns import BLOCK, LINE, LIST, NUMBER, NUMBERED, SIGN, SPACES, STRAIGHT, TORN, WORD

SQLITE: Final = SqlDialect(
    name="sqlite",
    patterns=(
        SPACES, LIST, NUMBER, NUMBERED, TORN, LINE, BLOCK, WORD, STRAIGHT,
        r'(?P<name>["`])', r"(?P<bracketed>\[)", r"(?P<other>\?\d*+|[:@#$][A-Za-z_][\w$]*+)", SIGN,
    ),
    queries=QUERIES | {"pragma"},
    open_comments=True,
)  # fmt: skip
