"""SQL text to syntax tree and back, so that what comes back means the same: the part of the gate that knows sqlglot.

sqlglot is made to translate between dialects, and so gives functions and literals the shape that it thinks best. Here
nothing is to be translated. So before the parser sees them, names of functions get a mark, which makes them functions
that it does not know and leaves as they are; literals that it would rewrite become opaque. The marks are taken out of
the text that is generated.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from rrext.errors import InvalidArguments

if TYPE_CHECKING:
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.expressions.core import Expr
    from sqlglot.tokenizer_core import Token

__all__ = ["MAX_NESTING", "MAX_STATEMENT", "MAX_TOKENS", "Grammar", "plain"]

MAX_STATEMENT: Final = 256 * 1024
"""Characters of a statement. Parsing holds up everything else in the process; values belong into parameters."""
MAX_TOKENS: Final = 40_000
"""Words, numbers and signs of a statement: half a second of parsing at most."""
MAX_NESTING: Final = 100
"""Brackets within brackets. The parser is recursive, and one that was compiled may run out of the thread's stack."""
MARK: Final = "\ue000"
"""A character for private use; no statement may contain it, nor the two after it."""
_MARKS: Final = re.compile("[\ue000\ue001]")
_FORBIDDEN: Final = re.compile("[\0\ue000-\ue002]")

_SPECIAL: Final = {
    "sqlite": ("CAST",),
    "duckdb": (
        "CAST",
        "TRY_CAST",
        "EXTRACT",
        "TRIM",
        "SUBSTRING",
        "POSITION",
        "OVERLAY",
        "STRUCT_PACK",
        "PERCENTILE_CONT",
        "PERCENTILE_DISC",
    ),
    "postgres": (
        *("CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION", "OVERLAY", "NORMALIZE"),
        *("JSON_OBJECT", "JSON_OBJECTAGG", "JSON_TABLE", "JSON_VALUE", "XMLELEMENT", "XMLTABLE"),
    ),
    "mysql": (
        *("CAST", "EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "POSITION", "CONVERT", "CHAR", "GROUP_CONCAT", "MATCH"),
        *("JSON_TABLE", "JSON_VALUE", "VALUES", "WEIGHT_STRING"),
    ),
}
"""Functions whose arguments have a grammar of their own; the parser has to know them."""

_KEYWORDS: Final = (
    *("VAR", "LEFT", "RIGHT", "REPLACE", "INSERT", "TRUNCATE", "FORMAT", "FIRST", "MOD", "GLOB", "LIKE", "RANGE", "LIST"),
    *(
        "ROW",
        "CURRENT_SCHEMA",
        "SESSION_USER",
        "CURRENT_USER",
        "CURRENT_DATE",
        "CURRENT_TIME",
        "CURRENT_TIMESTAMP",
        "LOCALTIME",
    ),
    *("LOCALTIMESTAMP", "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP", "DATABASE", "SCHEMA", "CURRENT_CATALOG", "GET"),
)
_TYPES: Final = (
    "DATE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "DATETIME",
    "YEAR",
    "CHAR",
    "JSON",
    "JSONB",
    "UUID",
    "POINT",
    "XML",
)
"""Types that are functions too; after `AS`, `::` or a name they are types."""
_OPERATORS: Final = frozenset(("LIKE", "GLOB", "MOD", "LEFT", "RIGHT"))
"""Words that are operators, or parts of a join, after something, and functions otherwise."""
_OPERANDS: Final = frozenset(
    ("NUMBER", "STRING", "IDENTIFIER", "VAR", "R_PAREN", "R_BRACKET", "END", "NULL", "TRUE", "FALSE", "NOT", "PARAMETER")
)
_NO_CALL: Final = ("ALIAS", "DCOLON", "VAR", "IDENTIFIER")
_OPAQUE: Final = ("HEX_STRING", "BIT_STRING", "BYTE_STRING", "NATIONAL_STRING", "UNICODE_STRING")
_ARROWS: Final = ("ARROW", "DARROW", "HASH_ARROW", "DHASH_ARROW")
"""Operators whose right side sqlglot takes for a JSON path and writes anew: `->` with `a.b` means one key, not two."""
_NO_NAMES: Final = frozenset(
    (
        "MATERIALIZED",
        "EXCLUDE",
        "EXCEPT",
        "REPLACE",
        "RENAME",
        "GROUP",
        "ALL",
        "SOME",
        "PASSING",
        "BERNOULLI",
        "SYSTEM",
        "AGAINST",
    )
)
"""Words before a bracket that are no functions, but for REPLACE after anything else than `*`."""
_LOOSE: Final = {
    "postgres": frozenset(("@", "|/", "||/", "!!", "@-@", "@@@")),
    "duckdb": frozenset(("@",)),
    "mysql": frozenset(),
    "sqlite": frozenset(),
}
"""Operators that stand before what they work on and bind more loosely in the database than in sqlglot."""
_DISTINCT: Final = "\ue001"
"""Stands after the name of a function whose arguments begin with DISTINCT; sqlglot would make one argument of several."""
_HIDDEN: Final = re.compile("\ue002(\\d+)\ue002")
"""Stands for a literal that sqlglot is not to see: which one."""


def plain(name: str) -> str:
    """A name from a tree as it stands in the statement."""
    return _MARKS.sub("", name)


class Grammar:
    """A dialect's parser and generator. Importing sqlglot takes a tenth of a second: make one on a worker thread."""

    __slots__ = (
        "_all_types",
        "_arrows",
        "_brackets",
        "_dialect",
        "_keywords",
        "_literals",
        "_loose",
        "_opaque",
        "_special",
        "_types",
        "name",
    )

    def __init__(self, dialect: str) -> None:
        from sqlglot.dialects.dialect import Dialect
        from sqlglot.tokenizer_core import TokenType

        self.name = dialect
        self._dialect: Dialect = Dialect.get_or_raise(dialect)
        self._special = frozenset(_SPECIAL[dialect])
        self._keywords = frozenset(getattr(TokenType, name) for name in _KEYWORDS)
        self._types = frozenset(getattr(TokenType, name) for name in _TYPES)
        self._opaque = frozenset(getattr(TokenType, name) for name in _OPAQUE)
        self._arrows = frozenset(getattr(TokenType, name) for name in _ARROWS)
        self._literals = frozenset((TokenType.STRING, TokenType.NUMBER))
        self._loose = _LOOSE[dialect]
        self._all_types = frozenset(self._dialect.parser_class.TYPE_TOKENS) - {TokenType.VAR, TokenType.IDENTIFIER}
        self._brackets = {
            **dict.fromkeys((TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE), 1),
            **dict.fromkeys((TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END), -1),
        }

    def tokens(self, sql: str) -> list[Token]:
        """The tokens of a statement within the limits. Raises `InvalidArguments`."""
        from sqlglot.errors import TokenError

        if len(sql) > MAX_STATEMENT:
            raise _too_large("MAX_STATEMENT", MAX_STATEMENT, f"{len(sql):,} characters")
        odd = _FORBIDDEN.search(sql)
        if odd is not None:
            raise InvalidArguments.at(
                "/input/sql", f"character {odd.start() + 1} is U+{ord(odd[0]):04X}, which cannot stand here"
            )
        try:
            found = self._dialect.tokenize(sql)
            if found and found[0].token_type.name in ("COMMAND", "SHOW"):
                found[1:] = self._dialect.tokenize(" " * (found[0].end + 1) + sql[found[0].end + 1 :])  # it was one text
        except TokenError as error:
            raise InvalidArguments.at("/input/sql", _token_problem(error)) from None
        if len(found) > MAX_TOKENS:
            raise _too_large("MAX_TOKENS", MAX_TOKENS, f"{len(found):,} words and signs")
        depth = 0
        for token in found:
            depth += self._brackets.get(token.token_type, 0)
            if depth > MAX_NESTING:
                raise _too_large("MAX_NESTING", MAX_NESTING, f"more than {MAX_NESTING} brackets within each other")
        return found

    def read(self, sql: str, tokens: list[Token]) -> Expr:
        """The syntax tree of the statement that the tokens are. Raises `InvalidArguments` with the place."""
        from sqlglot.errors import ErrorLevel, ParseError

        parser = self._dialect.parser(error_level=ErrorLevel.IMMEDIATE)
        try:
            trees = parser.parse(self._verbatim(sql, tokens), sql)
        except ParseError as error:
            raise _parse_problem(error) from None
        except RecursionError:
            raise _too_large("MAX_NESTING", MAX_NESTING, "too deep a structure") from None
        if len(trees) != 1 or trees[0] is None:
            raise InvalidArguments.at("/input/sql", f"expected one statement, not {len(trees)}")
        return trees[0]

    def text(self, tree: Expr, sql: str, tokens: list[Token]) -> str:
        """The statement of a tree, without comments. `sql` and `tokens` are those that it was read from.

        Raises `InvalidArguments` for what cannot be written as it was.
        """
        from sqlglot.errors import ErrorLevel, UnsupportedError

        try:
            written = self._dialect.generate(
                tree, copy=False, comments=False, normalize_functions=False, unsupported_level=ErrorLevel.RAISE
            )
        except UnsupportedError as error:
            raise InvalidArguments.at("/input/sql", f"{self.name} has no such syntax: {error}") from None
        except RecursionError:
            raise _too_large("MAX_NESTING", MAX_NESTING, "too deep a structure") from None
        if any(token.token_type.name == "RLIKE" for token in tokens):
            written = self._with_regexp(written)
        written = written.replace(_DISTINCT + "(", "(DISTINCT ").replace(MARK, "")
        return _HIDDEN.sub(lambda found: _source(sql, tokens[int(found[1])]), written)

    def _with_regexp(self, written: str) -> str:
        """MySQL's REGEXP was read as GLOB, which MySQL lacks; sqlglot would write a function that MariaDB lacks."""
        for token in reversed(self._dialect.tokenize(written)):
            if token.token_type.name == "GLOB":
                written = f"{written[: token.start]}REGEXP{written[token.end + 1 :]}"
        return written

    def _verbatim(self, sql: str, tokens: list[Token]) -> list[Token]:
        """The tokens with marks on the names of functions, and without the literals that sqlglot would rewrite."""
        from sqlglot.tokenizer_core import Token, TokenType

        made: list[Token] = []
        last = len(tokens) - 1
        for index, token in enumerate(tokens):
            kind, text = token.token_type, token.text
            if kind in self._opaque:
                kind, text = TokenType.NUMBER, _source(sql, token)
            elif kind in self._literals and index and tokens[index - 1].token_type in self._arrows:
                kind, text = TokenType.VAR, f"\ue002{index}\ue002"
                if index < last and tokens[index + 1].token_type is TokenType.DCOLON:
                    raise _unclear(token, "put brackets around what is before or after ::")
            elif kind is TokenType.DISTINCT and index > 1 and made[-2].text.endswith(_DISTINCT):
                continue
            elif index < last and tokens[index + 1].token_type is TokenType.L_PAREN and self._is_call(tokens, index):
                distinct = index + 1 < last and tokens[index + 2].token_type is TokenType.DISTINCT
                kind, text = TokenType.VAR, text + (_DISTINCT if distinct else MARK)
            elif self.name == "sqlite" and kind in self._all_types and tokens[index - 1].token_type is TokenType.ALIAS:
                kind, text = TokenType.VAR, text + MARK  # sqlglot has other affinities in mind than SQLite
            elif self.name == "mysql" and kind is TokenType.RLIKE:
                kind = TokenType.GLOB
            elif self.name == "mysql" and text.upper() == "DUAL":
                text += MARK  # no table, so it must not be quoted
            elif text in self._loose:
                raise _unclear(token, f"write a function instead of the operator {text}")
            made.append(Token(kind, text, token.line, token.col, token.start, token.end, []))
        return _with_times(made) if self.name == "mysql" else made

    def _is_call(self, tokens: list[Token], index: int) -> bool:
        token = tokens[index]
        word = token.text.upper()
        before = tokens[index - 1].token_type.name if index else ""
        if word in self._special or (word in _NO_NAMES and (word != "REPLACE" or before == "STAR")):
            return False
        if not token.text[:1].isalpha() and token.token_type.name != "IDENTIFIER" and token.text[:1] != "_":
            return False
        if token.token_type.name in _OPERATORS:
            return before not in _OPERANDS
        if token.token_type in self._keywords:
            return True
        return token.token_type in self._types and before not in _NO_CALL


_TIMES: Final = ("DATE", "TIME", "TIMESTAMPTZ")
"""Kinds of the words before the literal of a time in MySQL."""
_TIME: Final = re.compile(r"[-+:. T/\d]*")


def _with_times(tokens: list[Token]) -> list[Token]:
    """The tokens with `TIME '10:00:00.5'` as one: sqlglot would make a CAST of it, which in MySQL has no fraction."""
    from sqlglot.tokenizer_core import Token, TokenType

    made: list[Token] = []
    for token in tokens:
        word = made[-1] if made else None
        is_literal = token.token_type is TokenType.STRING and _TIME.fullmatch(token.text)
        if is_literal and word is not None and word.token_type.name in _TIMES:
            text = f"{word.text} '{token.text}'"
            made[-1] = Token(TokenType.NUMBER, text, word.line, word.col, word.start, token.end, [])
        else:
            made.append(token)
    return made


_TERMINAL: Final = re.compile("\x1b\\[[0-9;]*m")
_TOKEN: Final = re.compile(r"<Token token_type.*?>")
_UNCLOSED: Final = re.compile(r"Missing (\S+) from (\d+):")


def _token_problem(error: Exception) -> str:
    """sqlglot's sentence only quotes a part of the statement; its context says why."""
    unclosed = _UNCLOSED.match(str(error.__context__))
    return f"line {unclosed[2]}: {unclosed[1]} is not closed" if unclosed else "it is not made of SQL's words and signs"


def _source(sql: str, token: Token) -> str:
    return sql[token.start : token.end + 1]


def _unclear(token: Token, advice: str) -> InvalidArguments:
    """What sqlglot and the database would read differently."""
    return _placed(
        token.line, token.col, f'"{token.text[:20]}" can be read in two ways', hint=advice[0].upper() + advice[1:] + "."
    )


def _placed(line: int, column: int, message: str, *, hint: str | None = None) -> InvalidArguments:
    problem = InvalidArguments.at("/input/sql", f"line {line}, column {column}: {message}", hint=hint)
    problem.data["line"], problem.data["column"] = line, column
    return problem


def _parse_problem(error: Any) -> InvalidArguments:
    first: dict[str, Any] = error.errors[0] if error.errors else {}
    reason = str(first.get("description") or _TERMINAL.sub("", str(error)).splitlines()[0])
    reason = _TOKEN.sub("the end of the statement", reason).rstrip(".")
    near = _FORBIDDEN.sub("", str(first.get("highlight") or ""))[:60]
    if near:
        reason += f' at "{near}"'
    if first.get("line"):
        return _placed(first["line"], first["col"], reason)
    return InvalidArguments.at("/input/sql", reason)


def _too_large(name: str, limit: int, found: str) -> InvalidArguments:
    problem = InvalidArguments.at("/input/sql", f"the statement has {found}: {name} is {limit:,}")
    problem.data["limit"], problem.data["maximum"] = name, limit
    return problem
