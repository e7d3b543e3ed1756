"""The SQL dialect of MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rrext.nodes.databases.word_lists import words, words_of
from rrext.nodes.sql.gate.dialect import KEYWORDS, QUERIES, SqlDialect, opening
from rrext.nodes.sql.gate.explain import EXPLAIN_WORDS
from rrext.nodes.sql.gate.patterns import (
    BACKTICKED_NAME,
    BLOCK,
    ESCAPED_LITERAL,
    LIST,
    NUMBER,
    NUMBERED,
    SIGN,
    SPACES,
    STRAIGHT,
    WORD,
)
from rrext.nodes.sql.gate.tokens import NAME, SqlToken
from rrext.nodes.sql.gate.tokens import WORD as A_WORD

_NUMBER: Final = NUMBER.replace("_]", "]")
"""`1_000` is a name in MySQL."""
_COMMENT: Final = r"(?:--(?=[\x00-\x20\x7f]|\Z)|\#)[^\n\r]*+"
_TORN: Final = rf"(?P<torn>{_COMMENT}\r(?!\n)|\$?\d|@[\w.$]*+[\x80-\U0010ffff])"
_VARIABLE: Final = r"(?P<variable>@(?![@`'\"])[\w.$]*+)"
"""A variable of a session in MySQL: dots belong to its name."""

_KEYWORDS: Final = words("""
against columns convert default distinctrow div force ignore index json_table key keys mediumtext match mod path partitions
persistent regexp returning rlike sounds straight_join use xor system_time nested partition recursive
""")

_FUNCTIONS: Final = words_of(__file__, "functions.txt")

_SHOWN: Final = words(
    """all authors binary binlog character charset client_statistics collation columns contributors count create databases
    engine engines errors events fields function grants index index_statistics indexes keys locales master open package
    plugins privileges procedure processlist profile profiles relaylog replica schemas slave status storage table
    table_statistics tables triggers user_statistics variables warnings"""
)
"""Objects of MySQL's SHOW, after FULL, EXTENDED, GLOBAL or SESSION."""
_MODIFIERS: Final = frozenset({"full", "extended", "global", "session", "local"})
_DESCRIBED: Final = words(
    """select with values table insert update delete replace merge for call create alter drop set do load truncate"""
)
"""Words after DESCRIBE that explain a statement instead of describing a table."""
_CHECKS: Final = frozenset({"quick", "fast", "medium", "extended", "changed"})


def _shows(tokens: Sequence[SqlToken]) -> bool:
    match opening(tokens):
        case "show", _:
            names = [token.text for token in tokens[1:4] if token.kind == A_WORD and token.text not in _MODIFIERS]
            return bool(names) and names[0] in _SHOWN
        case "describe" | "desc" | "explain", second:
            if not second or tokens[1].kind == NAME:
                return bool(second)
            return second not in _DESCRIBED and (len(tokens) == 2 or second not in EXPLAIN_WORDS)
        case "check", "table" | "view":
            return all(token.text in _CHECKS for token in _options(tokens))
        case "checksum", "table":
            return True
        case "help", _:
            return len(tokens) == 2
    return False


def _options(tokens: Sequence[SqlToken]) -> list[SqlToken]:
    """The words behind the last name of `CHECK TABLE a, b.c QUICK FAST`."""
    at = 2
    while at < len(tokens):
        at += 1
        if at < len(tokens) and tokens[at].kind in (".", ","):
            at += 1
        else:
            break
    return list(tokens[at:])


MYSQL: Final = SqlDialect(
    name="mysql",
    patterns=(
        SPACES, LIST, _NUMBER, NUMBERED, _TORN, rf"(?P<line>{_COMMENT})", BLOCK, WORD, STRAIGHT,
        r'(?P<name>["`])', _VARIABLE, r"(?P<other>\?)", SIGN,
    ),
    literals=rf"--(?=\s|\Z)[^\n]*|\#[^\n]*|{ESCAPED_LITERAL}|\"(?:[^\"\\]|\\(?:.|\Z)|\"\")*(?:\"|\Z)|{BACKTICKED_NAME}",
    queries=QUERIES | {"table"},
    quote="`",
    functions=_FUNCTIONS,
    keywords=KEYWORDS | _KEYWORDS,
    own_schemas=frozenset(),
    shows=_shows,
    explains=frozenset({"explain", "analyze", "describe", "desc"}),
    sql_modes=True,
    reserved_words=True,
    assignment=True,
)  # fmt: skip
