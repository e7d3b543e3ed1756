"""`SqlDialect`: the properties of one SQL dialect, for the gate and for the placeholders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from rrext.nodes.databases.word_lists import words
from rrext.nodes.sql.gate.patterns import LINE_COMMENT, LITERAL, QUOTED_NAME
from rrext.nodes.sql.gate.tokens import NAME, WORD, SqlToken


def opening(tokens: Sequence[SqlToken]) -> tuple[str, str]:
    """The first word of a statement, and the word or name after it; "" for anything else."""
    first = tokens[0].text if tokens[0].kind == WORD else ""
    return first, tokens[1].text if len(tokens) > 1 and tokens[1].kind in (WORD, NAME) else ""


QUERIES: Final = frozenset({"select", "with", "values"})
"""First words of queries in every dialect."""

KEYWORDS: Final = words("""
all and any array as asc between by case cast check collate cross cube day desc distinct else end escape except exists extract
fetch filter first following for from full group grouping having if ilike in inner intersect interval is isnull join last
lateral left like limit local minus natural next not notnull null nulls of offset on only operator or order outer over overlay
partition position preceding qualify range recursive right rollup row rows select separator set sets similar some substring
symmetric table then to treat trim try_cast unbounded union unique unnest using value values variadic when where window with
within without zone
bigint binary bit blob bool boolean char character clob date datetime dec decimal double enum fixed float float4 float8 int
int2 int4 int8 integer long mediumint national nchar number numeric nvarchar precision real signed smallint text time
timestamp timestamptz timetz tinyint unsigned varbinary varchar varying year
""")
"""Words before a bracket that call no function in any dialect: keywords, and types with a length."""


def _never(tokens: Sequence[SqlToken]) -> bool:
    return False


class SqlDialect(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One SQL dialect, made once by the module of its database. All words are in small letters.

    A dialect of a database that judges statements itself, as SQLite does, needs `name`, `patterns` and `queries` only.
    """

    name: str
    """The answer of the tool `dialect`."""
    patterns: tuple[str, ...]
    """Regular expressions of its tokens (see `patterns`), tried in this order at each place."""
    queries: frozenset[str] = QUERIES
    """First words of queries; a bracket may stand before them."""
    quote: str = '"'
    """The quote of names."""
    literals: str = rf"{LINE_COMMENT}|{LITERAL}|{QUOTED_NAME}"
    """Literals, quoted names and line comments, within which no `;` ends a statement of a script."""

    functions: frozenset[str] | None = None
    """Functions that only compute or look at the catalog; the gate refuses others. None: the database judges functions."""
    keywords: frozenset[str] = frozenset()
    """Words before a bracket that call no function."""
    own_schemas: frozenset[str] | None = None
    """Schemas in which a known function is the system's own; None: a function has its name in every schema."""
    exact_quotes: bool = False
    """Whether large letters make a quoted name another name."""
    attributes: frozenset[str] | None = None
    """Functions that `x.f` may not call; None: the dialect has no such calls."""

    shows: Callable[[Sequence[SqlToken]], bool] = _never
    """Whether a statement such as SHOW or DESCRIBE reads the catalog or a setting, and does nothing else."""
    explains: frozenset[str] = frozenset({"explain"})
    """Words before a query that show its plan or its columns."""

    nested_comments: bool = False
    """Whether comments may contain each other."""
    open_comments: bool = False
    """Whether the end of the text ends a comment."""
    sql_modes: bool = False
    """Whether a setting of the server decides how backslashes are read, whether `[` quotes, and which comments are run."""
    reserved_words: bool = False
    """Whether words such as `update` are never names unless they are quoted."""
    assignment: bool = False
    """Whether `:=` assigns a variable."""
    tables_from_files: bool = False
    """Whether a text or a quoted name in the place of a table may name a file."""
    into_name: bool = False
    """Whether `INTO NAME` belongs to a query, as in UNPIVOT."""
