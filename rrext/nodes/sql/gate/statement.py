"""A statement that only reads, as the gate has judged it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["select", "explain", "show"]


class ReadingSql(msgspec.Struct, frozen=True):
    """A statement that only reads."""

    sql: str
    """What is sent to the database: the caller's own text."""
    kind: Kind
    """`select`: any query; `explain` shows how one would run; `show` looks at the catalog or a setting."""
    tables: tuple[str, ...] = ()
    """Names in the places of tables, without those that `WITH` defines; each once, with its schema."""
