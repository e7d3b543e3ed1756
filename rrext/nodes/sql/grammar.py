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
    from sqlglot.expressions import Expression
    from sqlglot.tokens import Token

__all__ = ["MARK", "MAX_NESTING", "MAX_STATEMENT", "MAX_TOKENS", "Grammar"]

MAX_STATEMENT: Final = 256 * 1024
"""Characters of a statement. Parsing holds up everything else in the process; values belong into parameters."""
MAX_TOKENS: Final = 40_000
"""Words, numbers and signs of a statement: half a second of parsing at most."""
MAX_NESTING: Final = 100
"""Brackets within brackets. The parser is recursive, and one that was compiled may run out of the thread's stack."""
MARK: Final = "\ue000"
"""A character for private use, which no statement may contain."""

_SPECIAL: Final = {
    "sqlite": ("CAST",),
    "duckdb": ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION", "OVERLAY", "STRUCT_PACK"),
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
    *("CURRENT_SCHEMA", "SESSION_USER", "CURRENT_USER", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME"),
    *("LOCALTIMESTAMP", "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP", "DATABASE", "SCHEMA", "CURRENT_CATALOG", "INDEX", "GET"),
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
_OPAQUE: Final = ("HEX_STRING", "BIT_STRING", "BYTE_STRING", "NATIONAL_STRING", "UNICODE_STRING")


class Grammar:
    """A dialect's parser and generator. Importing sqlglot takes a tenth of a second: make one on a worker thread."""

    __slots__ = ("_brackets", "_dialect", "_keywords", "_no_call", "_opaque", "_special", "_types", "name")

    def __init__(self, dialect: str) -> None:
        from sqlglot.dialects.dialect import Dialect
        from sqlglot.tokens import TokenType

        self.name = dialect
        self._dialect: Dialect = Dialect.get_or_raise(dialect)
        self._special = frozenset(_SPECIAL[dialect])
        self._keywords = frozenset(getattr(TokenType, name) for name in _KEYWORDS)
        self._types = frozenset(getattr(TokenType, name) for name in _TYPES)
        self._opaque = frozenset(getattr(TokenType, name) for name in _OPAQUE)
        self._no_call = frozenset((TokenType.ALIAS, TokenType.DCOLON, TokenType.VAR, TokenType.IDENTIFIER))
        self._brackets = {
            **dict.fromkeys((TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE), 1),
            **dict.fromkeys((TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END), -1),
        }

    def tokens(self, sql: str) -> list[Token]:
        """The tokens of a statement within the limits. Raises `InvalidArguments`."""
        from sqlglot.errors import TokenError

        if len(sql) > MAX_STATEMENT:
            raise _too_large("MAX_STATEMENT", MAX_STATEMENT, f"{len(sql):,} characters")
        at = next((index for index, char in enumerate(sql) if char == MARK or char == "\0"), None)
        if at is not None:
            raise InvalidArguments.at("/input/sql", f"character {at + 1} is U+{ord(sql[at]):04X}, which SQL cannot contain")
        try:
            found = self._dialect.tokenize(sql)
            if found and found[0].token_type.name == "COMMAND" and found[0].text.upper() == "EXPLAIN":
                found[1:] = self._dialect.tokenize(" " * (found[0].end + 1) + sql[found[0].end + 1 :])  # it was one text
        except TokenError as error:
            raise InvalidArguments.at("/input/sql", _token_problem(str(error))) from None
        if len(found) > MAX_TOKENS:
            raise _too_large("MAX_TOKENS", MAX_TOKENS, f"{len(found):,} words and signs")
        depth = 0
        for token in found:
            depth += self._brackets.get(token.token_type, 0)
            if depth > MAX_NESTING:
                raise _too_large("MAX_NESTING", MAX_NESTING, f"more than {MAX_NESTING} brackets within each other")
        return found

    def parse(self, sql: str, tokens: list[Token]) -> list[Expression | None]:
        """The syntax trees of the statements that the tokens are. Raises `InvalidArguments` with the place."""
        from sqlglot.errors import ErrorLevel, ParseError

        parser = self._dialect.parser(error_level=ErrorLevel.IMMEDIATE)
        try:
            return parser.parse(self._verbatim(sql, tokens), sql)
        except ParseError as error:
            raise _parse_problem(error) from None
        except RecursionError:
            raise _too_large("MAX_NESTING", MAX_NESTING, "too deep a structure") from None

    def text(self, tree: Expression) -> str:
        """The statement of a tree, without comments. Raises `InvalidArguments` for what cannot be written as it was."""
        from sqlglot.errors import ErrorLevel, UnsupportedError

        try:
            written = self._dialect.generate(
                tree, copy=False, comments=False, normalize_functions=False, unsupported_level=ErrorLevel.RAISE
            )
        except UnsupportedError as error:
            raise InvalidArguments.at("/input/sql", f"{self.name} has no such syntax: {error}") from None
        except RecursionError:
            raise _too_large("MAX_NESTING", MAX_NESTING, "too deep a structure") from None
        return written.replace(MARK, "")

    def _verbatim(self, sql: str, tokens: list[Token]) -> list[Token]:
        """The tokens with marks on the names of functions and opaque literals."""
        from sqlglot.tokens import Token, TokenType

        made: list[Token] = []
        last = len(tokens) - 1
        for index, token in enumerate(tokens):
            kind, text = token.token_type, token.text
            if kind in self._opaque:
                kind, text = TokenType.NUMBER, sql[token.start : token.end + 1]
            elif index < last and tokens[index + 1].token_type is TokenType.L_PAREN and self._is_call(tokens, index):
                kind, text = TokenType.VAR, text + MARK
            made.append(Token(kind, text, token.line, token.col, token.start, token.end, []))
        return made

    def _is_call(self, tokens: list[Token], index: int) -> bool:
        token = tokens[index]
        if token.text.upper() in self._special:
            return False
        if token.token_type in self._keywords:
            return True
        before = tokens[index - 1].token_type if index else None
        return token.token_type in self._types and before not in self._no_call


_TERMINAL: Final = re.compile("\x1b\\[[0-9;]*m")
_TOKEN: Final = re.compile(r"<Token token_type.*?>")


def _token_problem(text: str) -> str:
    """sqlglot's sentence quotes half of the statement; the reason is enough."""
    return f"these are no SQL words: {text.splitlines()[0][:200]}"


def _parse_problem(error: Any) -> InvalidArguments:
    first: dict[str, Any] = error.errors[0] if error.errors else {}
    line, column = first.get("line"), first.get("col")
    reason = _TOKEN.sub(
        "the end of the statement", str(first.get("description") or _TERMINAL.sub("", str(error)).splitlines()[0])
    ).rstrip(".")
    near = str(first.get("highlight") or "").replace(MARK, "")[:60]
    place = f"line {line}, column {column}: " if line else ""
    problem = InvalidArguments.at("/input/sql", f"{place}{reason}" + (f' at "{near}"' if near else ""))
    if line:
        problem.data["line"], problem.data["column"] = line, column
    return problem


def _too_large(name: str, limit: int, found: str) -> InvalidArguments:
    problem = InvalidArguments.at("/input/sql", f"the statement has {found}: {name} is {limit:,}")
    problem.data["limit"], problem.data["maximum"] = name, limit
    return problem
