"""A statement that only reads, as the gate gives it back."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["Statement"]


class Statement(msgspec.Struct, frozen=True):
    """A statement that only reads."""

    sql: str
    """What is sent to the database: made from the syntax tree, without comments."""
    kind: Literal["select", "explain", "show"]
    """`select`: any query; `explain` shows how one would run; `show` looks at the catalog or a setting."""
    tables: tuple[str, ...] = ()
    """The tables and views that are named, without those that `WITH` defines; each once, with its schema."""
