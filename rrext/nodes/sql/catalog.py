"""`SHOW`, `DESCRIBE` and `EXPLAIN`: the few forms that only read, word by word. sqlglot does not parse most of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

__all__ = ["catalog_statement", "explain_prefix"]

_SHOW: Final = {
    "postgres": frozenset(("ALL",)),
    "duckdb": frozenset(("TABLES", "ALL", "DATABASES", "SCHEMAS")),
    "mysql": frozenset(
        (
            *("FULL", "EXTENDED", "GLOBAL", "SESSION", "TABLES", "COLUMNS", "FIELDS", "INDEX", "INDEXES", "KEYS", "DATABASES"),
            *("SCHEMAS", "CREATE", "TABLE", "VIEW", "VARIABLES", "STATUS", "WARNINGS", "ERRORS", "ENGINES", "CHARACTER", "SET"),
            *("CHARSET", "COLLATION", "FROM", "IN", "LIKE", "GRANTS", "TRIGGERS"),
        )
    ),
}
"""Words that may follow `SHOW`, beside names and a text after `LIKE`."""

_EXPLAIN_WORDS: Final = frozenset(
    (
        *(
            "ANALYZE",
            "VERBOSE",
            "COSTS",
            "SETTINGS",
            "GENERIC_PLAN",
            "BUFFERS",
            "SERIALIZE",
            "WAL",
            "TIMING",
            "SUMMARY",
            "MEMORY",
        ),
        *("FORMAT", "TEXT", "JSON", "XML", "YAML", "TREE", "TRADITIONAL", "ON", "OFF", "TRUE", "FALSE", "NONE"),
        *("EXTENDED", "PARTITIONS", "QUERY", "PLAN"),
    )
)
"""Words between `EXPLAIN` and the query. Some databases run the query for it; it only reads, whether it runs or not."""

_BEFORE_NAMES: Final = frozenset(("SHOW", "DESCRIBE", "DESC", "SUMMARIZE", "FROM", "IN", "TABLE", "VIEW", "."))
"""What a name may follow."""


def catalog_statement(dialect: str, tokens: list[Token]) -> str | None:
    """The text of a statement that looks at the catalog, or None if this is none."""
    first = tokens[0].text.upper()
    rest = tokens[1:]
    if first == "SHOW" and dialect in _SHOW:
        return _written("SHOW", dialect, rest, _SHOW[dialect]) if rest else None
    if first in ("DESCRIBE", "DESC", "SUMMARIZE") and rest and dialect in ("mysql", "duckdb"):
        return _written(first, dialect, rest, frozenset())
    return None


def explain_prefix(dialect: str, tokens: list[Token]) -> tuple[str, list[Token]]:
    """`EXPLAIN …` as it is sent, with a blank at its end, and the tokens of the query; an empty text if it is a query."""
    words = ["EXPLAIN"]
    if tokens[0].text.upper() not in ("EXPLAIN", "DESCRIBE", "DESC", "SUMMARIZE") or (
        tokens[0].text.upper() != "EXPLAIN" and dialect != "duckdb"
    ):
        return "", tokens
    words = [tokens[0].text.upper()]
    index = 1
    if _bracketed_options(tokens):
        while tokens[index].token_type.name != "R_PAREN":
            words.append(tokens[index].text.upper())
            index += 1
        return " ".join([*words, ") "]), tokens[index + 1 :]
    while index < len(tokens) and (tokens[index].text.upper() in _EXPLAIN_WORDS or tokens[index].text == "="):
        words.append(tokens[index].text.upper())
        index += 1
    return " ".join(words) + " ", tokens[index:]


def _bracketed_options(tokens: list[Token]) -> bool:
    """Whether `EXPLAIN (ANALYZE, FORMAT JSON) …` begins here, and not a query in brackets."""
    if len(tokens) < 3 or tokens[1].token_type.name != "L_PAREN":
        return False
    for token in tokens[2:]:
        if token.token_type.name == "R_PAREN":
            return True
        if token.text.upper() not in _EXPLAIN_WORDS and token.token_type.name != "COMMA":
            return False
    return False


def _written(first: str, dialect: str, tokens: list[Token], words: frozenset[str]) -> str | None:
    """The statement with its known words, names where names may be, and a text after LIKE; None for anything else."""
    parts = [first]
    for token in tokens:
        kind, text, before = token.token_type.name, token.text, parts[-1]
        if text.upper() in words and kind != "IDENTIFIER":
            parts.append(text.upper())
        elif kind == "STRING" and before == "LIKE" and "\\" not in text:
            parts.append("'" + text.replace("'", "''") + "'")
        elif kind == "DOT" and len(parts) > 1:
            parts.append(text)
        elif before in _BEFORE_NAMES and (named := _name(kind, text, dialect)):
            parts.append(named)
        else:
            return None
    return " ".join(parts)


def _name(kind: str, text: str, dialect: str) -> str | None:
    if kind == "IDENTIFIER":
        quote = "`" if dialect == "mysql" else '"'
        return quote + text.replace(quote, quote * 2) + quote
    return text if kind != "STRING" and text.isidentifier() and text.isascii() else None
