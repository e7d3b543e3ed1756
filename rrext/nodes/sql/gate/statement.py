"""A statement that only reads, as the gate has judged it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["select", "explain", "show"]


class ReadingSql(msgspec.Struct, frozen=True):
    """A statement that only reads."""

    sql: str
    """The caller's own text, sent to the database."""
    kind: Kind
    """`select`: any query; `explain` shows how one would run; `show` looks at the catalog or a setting."""
    tables: tuple[str, ...] = ()
    """Names in the places of tables, without those that `WITH` defines; each once, with its schema."""
