"""The tokens of an SQL statement, as the lexer makes them, and the statement that the gate let pass."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

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
