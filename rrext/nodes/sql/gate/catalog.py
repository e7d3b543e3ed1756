"""How `SHOW`, `DESCRIBE`, `EXPLAIN`, `PRAGMA` and the like begin where they only read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rrext.nodes.sql.gate.lexer import NAME, NUMBER, STRING, WORD, Token
from rrext.nodes.sql.gate.rules import words

__all__ = ["catalog_statement", "query_after_explain"]

_SHOW_MYSQL: Final = words(
    """all authors binary binlog character charset collation columns contributors count create databases engine engines
    errors events fields function grants index indexes keys locales master open package plugins privileges procedure
    processlist profile profiles relaylog replica schemas slave status storage table tables triggers variables warnings"""
)
"""What MySQL's SHOW may show, behind FULL, EXTENDED, GLOBAL or SESSION."""
_SHOW_MODIFIERS: Final = frozenset({"full", "extended", "global", "session", "local"})

_DUCKDB_PRAGMAS: Final = words(
    """collations database_size functions platform show show_databases show_tables show_tables_expanded
    storage_info table_info user_agent version metadata_info"""
)
"""DuckDB's PRAGMAs that only tell something. Others change settings, also without a value."""

_EXPLAIN_WORDS: Final = words(
    """analyze analyse verbose costs settings generic_plan buffers serialize wal timing summary memory format text json xml yaml
    html graphviz tree traditional on off true false none binary extended partitions query plan"""
)
"""Words between `EXPLAIN` and the query. Some databases run the query for it; it only reads, whether it runs or not."""
_STATEMENTS: Final = words("select with values from table pivot unpivot delete insert update merge")
"""What DuckDB describes by its columns, and that is no table."""
_CHECKS: Final = frozenset({"quick", "fast", "medium", "extended", "changed"})


def catalog_statement(dialect: str, tokens: Sequence[Token]) -> bool:
    """Whether a statement looks at the catalog or at a setting, and does nothing else."""
    first = tokens[0].text if tokens[0].kind == WORD else ""
    second = tokens[1].text if len(tokens) > 1 and tokens[1].kind in (WORD, NAME) else ""
    match dialect, first:
        case "postgres" | "duckdb", "show":
            return bool(second)
        case "duckdb", "describe" | "desc" | "summarize":
            return bool(second) and len(tokens) <= 6 and (tokens[1].kind == NAME or second not in _STATEMENTS)
        case "duckdb", "pragma":
            return second in _DUCKDB_PRAGMAS and not any(token.kind in ("=", ";") for token in tokens)
        case "duckdb", "call":
            return bool(second)
        case "mysql", "show":
            return _shows(tokens)
        case "mysql", "describe" | "desc" | "explain":
            if not second or tokens[1].kind == NAME:
                return bool(second)
            return second not in _DESCRIBED and (len(tokens) == 2 or second not in _EXPLAIN_WORDS)
        case "mysql", "check":
            return second in ("table", "view") and all(token.text in _CHECKS for token in _options(tokens))
        case "mysql", "checksum":
            return second == "table"
        case "mysql", "help":
            return len(tokens) == 2
    return False


_DESCRIBED: Final = words(
    """select with values table insert update delete replace merge for call create alter drop set do load truncate"""
)
"""What MySQL explains, and does not describe."""


def _shows(tokens: Sequence[Token]) -> bool:
    words = [token.text for token in tokens[1:4] if token.kind == WORD and token.text not in _SHOW_MODIFIERS]
    return bool(words) and words[0] in _SHOW_MYSQL


def _options(tokens: Sequence[Token]) -> list[Token]:
    """The words behind the last name of `CHECK TABLE a, b.c QUICK FAST`."""
    at = 2
    while at < len(tokens):
        at += 1
        if at < len(tokens) and tokens[at].kind in (".", ","):
            at += 1
        else:
            break
    return list(tokens[at:])


def _sign(tokens: Sequence[Token], index: int) -> str:
    return tokens[index].kind if index < len(tokens) else ""


def query_after_explain(dialect: str, tokens: Sequence[Token]) -> int:
    """Where the query begins behind `EXPLAIN …`; 0 if the statement does not begin so."""
    first = tokens[0].text if tokens[0].kind == WORD else ""
    explains = {"explain", "analyze", "describe", "desc"} if dialect == "mysql" else {"explain"}
    if dialect == "duckdb":
        explains = {"explain", "describe", "desc", "summarize"}
    if first not in explains or (first == "analyze" and len(tokens) > 1 and tokens[1].text == "table"):
        return 0
    at = 1
    if _sign(tokens, 1) == "(":
        end = 2
        while end < len(tokens) and (
            tokens[end].kind in (",", STRING, NUMBER) or (tokens[end].kind == WORD and tokens[end].text in _EXPLAIN_WORDS)
        ):
            end += 1
        if _sign(tokens, end) == ")":
            return end + 1
    while at < len(tokens) and (
        tokens[at].kind == "="
        or (tokens[at].kind in (STRING, NAME) and tokens[at - 1].kind == "=")
        or (tokens[at].kind == WORD and tokens[at].text in _EXPLAIN_WORDS)
    ):
        at += 1
    return at
