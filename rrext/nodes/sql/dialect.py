"""`SqlDialect`: the properties of one SQL dialect, for the gate and for the placeholders, and what dialects are made of.

That is: the tokens as the lexer makes them, the statement that the gate let pass, the query behind `EXPLAIN`, and regular
expressions of tokens that several dialects share. The name of a group tells the lexer the kind of the token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from rrext.nodes.databases.word_lists import words


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


# Of scripts: text that is not closed goes on to the end.
LINE_COMMENT: Final = r"--[^\n]*"
LITERAL: Final = r"'(?:[^']|'')*(?:'|\Z)"
ESCAPED_LITERAL: Final = r"'(?:[^'\\]|\\(?:.|\Z)|'')*(?:'|\Z)"
QUOTED_NAME: Final = r'"(?:[^"]|"")*(?:"|\Z)'
BACKTICKED_NAME: Final = r"`(?:[^`]|``)*(?:`|\Z)"
DOLLAR_LITERAL: Final = r"\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z)"
POSTGRES_LITERALS: Final = rf"{LINE_COMMENT}|[eE]{ESCAPED_LITERAL}|{LITERAL}|{QUOTED_NAME}|{DOLLAR_LITERAL}"


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


EXPLAIN_WORDS: Final = words(
    """analyze analyse verbose costs settings generic_plan buffers serialize wal timing summary memory format text json xml yaml
    html graphviz mermaid tree query_tree query_tree_optimizer no_output default traditional on off true false none binary
    extended partitions query plan"""
)
"""Words between `EXPLAIN` and the query. Some databases run the query for it; a query that only reads may run."""


def _sign(tokens: Sequence[SqlToken], index: int) -> str:
    return tokens[index].kind if index < len(tokens) else ""


def query_after_explain(explains: frozenset[str], tokens: Sequence[SqlToken]) -> int:
    """The position of the query after `EXPLAIN …`; 0 if the statement does not begin with that."""
    first = tokens[0].text if tokens[0].kind == WORD else ""
    if first not in explains or (first == "analyze" and len(tokens) > 1 and tokens[1].text == "table"):
        return 0
    at = 1
    while at < len(tokens) and (
        tokens[at].kind == "="
        or (tokens[at].kind in (STRING, NAME) and tokens[at - 1].kind == "=")
        or (tokens[at].kind == WORD and tokens[at].text in EXPLAIN_WORDS)
    ):
        at += 1
    end = at + (_sign(tokens, at) == "(")
    while end < len(tokens) and (
        tokens[end].kind in (",", STRING, NUMBER) or (tokens[end].kind == WORD and tokens[end].text in EXPLAIN_WORDS)
    ):
        end += 1
    return end + 1 if end > at and _sign(tokens, end) == ")" else at


WORD: Final = "word"
NAME: Final = "name"
STRING: Final = "string"
NUMBER: Final = "number"
PLACEHOLDER: Final = "placeholder"
PLACEHOLDERS: Final = "placeholders"
"""Several one after another, with the signs between them."""

OTHER_PLACEHOLDER: Final = "other"
VARIABLE: Final = "variable"
ESCAPED_NAME: Final = "escaped name"


class SqlToken(NamedTuple):
    """A part of a statement. `kind` is one of the constants of this module; for a sign, the sign itself.

    `text` is a word in small letters, a quoted name without its quotes, or the token as written; for a literal it is
    empty. `start` is the token's place in the statement.
    """

    kind: str
    text: str
    start: int


Kind: TypeAlias = Literal["select", "explain", "show"]


class ReadingSql(msgspec.Struct, frozen=True):
    """A statement that only reads."""

    sql: str
    """The caller's own text, sent to the database."""
    kind: Kind
    """`select`: any query; `explain` shows how one would run; `show` looks at the catalog or a setting."""
    tables: tuple[str, ...] = ()
    """Names in the places of tables, without those that `WITH` defines; each once, with its schema."""


SPACE: Final = r"[ \t\n\r\f\v]"
SPACES: Final = rf"(?P<space>{SPACE}++)"
LIST: Final = rf"(?P<list>(?:,{SPACE}*+(?:'[^'\\]*+'|\d++(?:\.\d++)?){SPACE}*+(?=[,)])){{1,1000}})"
"""The rest of a list of plain literals: `, 1, 'a'`."""

JUNK: Final = r"[\w$\x80-\U0010ffff]"
"""A letter, digit or sign that continues a word."""

PLAIN_NUMBER: Final = (
    r"(?P<number>(?>0[xX][\da-fA-F_]++|0[bB][01_]++|0[oO][0-7_]++|\d[\d_]*+(?:\.(?!\.)[\d_]*+)?(?:[eE][+-]?\d[\d_]*+)?)"
    rf"(?!{JUNK}))"
)
NUMBERED: Final = rf"(?P<placeholder>\$\d++(?!{JUNK}))"
RUN: Final = rf"(?P<placeholders>(?:[ \t\n\r\f\v(,)]*+\$\d++(?!{JUNK})){{2,1000}}+)"
"""Placeholders one after another, with blanks, commas and brackets between them: rows of values."""

PLAIN_WORD: Final = r"(?P<word>[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*+)"
STRAIGHT: Final = r"(?P<string>')"
DOLLARS: Final = r"(?P<dollars>\$(?:[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*+)?\$)"
LINE: Final = r"(?P<line>--[^\n\r]*+)"
BLOCK: Final = r"(?P<block>/\*)"
TORN: Final = r"(?P<torn>--[^\n\r]*+\r(?!\n)|\$?\d)"
"""Text with two readings: a carriage return that ends a comment or does not, a number with a word at its end."""

SIGN: Final = r"(?P<sign>::|:=|.)"
