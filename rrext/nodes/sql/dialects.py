"""SQL dialects by their names."""

from __future__ import annotations

from importlib import import_module

from rrext.nodes import BUILTIN
from rrext.nodes.sql.gate.dialect import SqlDialect


def sql_dialect(name: str) -> SqlDialect | None:
    """The dialect of the node `db_NAME`: the record `NAME` of `NAME/dialect.py`. None for another language."""
    if f"db_{name}" not in BUILTIN:
        return None
    return getattr(import_module(f"rrext.nodes.sql.{name}.dialect"), name.upper())
