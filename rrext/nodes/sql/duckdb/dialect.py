"""The SQL dialect of DuckDB. Its functions begin with its scalar, aggregate and window functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rrext.nodes.databases.word_lists import words, words_of
from rrext.nodes.sql.dialect import (
    BLOCK,
    DOLLARS,
    KEYWORDS,
    LINE,
    LIST,
    NAME,
    NUMBERED,
    PLAIN_NUMBER,
    POSTGRES_LITERALS,
    QUERIES,
    SIGN,
    STRAIGHT,
    SqlDialect,
    SqlToken,
    opening,
)

_WIDE_SPACES: Final = r"\xa0\u2000-\u200a\u202f\u205f\u3000"
"""Blanks of Unicode. DuckDB reads them as blanks; other databases read them as letters."""
_UNCLEAR_SPACES: Final = r"\x85\u1680\u180e\u200b-\u200f\u2028\u2029\u2060\ufeff"
"""Blanks in some versions of DuckDB, and letters in others."""
_LETTER: Final = rf"[^\x00-\x7f{_WIDE_SPACES}{_UNCLEAR_SPACES}]"
_WORD: Final = rf"(?P<word>(?:[A-Za-z_]|{_LETTER})(?:[\w$]|{_LETTER})*+)"
_TORN: Final = rf"(?P<torn>--[^\n\r]*+\r(?!\n)|\$?\d|[{_UNCLEAR_SPACES}])"

_KEYWORDS: Final = words("""
anti asof at bernoulli
explain key bitstring columns exclude ignore include lambda map materialized name pivot positional rename replace
repeatable reservoir respect sample semi struct summarize system tablesample try union unpack unpivot usmallint
""")

_FUNCTIONS: Final = words_of(__file__, "functions.txt")

_PRAGMAS: Final = words(
    """collations database_size functions platform show show_databases show_tables show_tables_expanded
    storage_info table_info user_agent version metadata_info"""
)
"""DuckDB's PRAGMAs that only report something. Others change settings, also without a value."""
_STATEMENTS: Final = words("select with values from table pivot unpivot delete insert update merge")
"""Words that DuckDB's DESCRIBE takes and that are no tables."""


def _shows(tokens: Sequence[SqlToken]) -> bool:
    match opening(tokens):
        case "show" | "call", second:
            return bool(second)
        case "describe", "" if len(tokens) == 1:
            return True
        case "describe" | "desc" | "summarize", second:
            return bool(second) and len(tokens) <= 6 and (tokens[1].kind == NAME or second not in _STATEMENTS)
        case "pragma", second:
            return second in _PRAGMAS and not any(token.kind in ("=", ";") for token in tokens)
    return False


DUCKDB: Final = SqlDialect(
    name="duckdb",
    patterns=(
        rf"(?P<space>[\s{_WIDE_SPACES}]++)", LIST, PLAIN_NUMBER, NUMBERED, _TORN, LINE, BLOCK, r"(?P<escaped>[eE]')", _WORD,
        STRAIGHT, r'(?P<name>["`])', DOLLARS, r"(?P<other>\?|\$[A-Za-z_]\w*+)", SIGN,
    ),
    literals=POSTGRES_LITERALS,
    queries=QUERIES | {"from", "table", "pivot", "unpivot"},
    functions=_FUNCTIONS,
    keywords=KEYWORDS | _KEYWORDS,
    shows=_shows,
    explains=frozenset({"explain", "describe", "desc", "summarize", "show"}),
    nested_comments=True,
    tables_from_files=True,
    into_name=True,
)  # fmt: skip
