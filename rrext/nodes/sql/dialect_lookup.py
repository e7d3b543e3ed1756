"""SQL dialects by their names."""

from __future__ import annotations

from importlib import import_module

from rrext.nodes import BUILTIN
from rrext.nodes.sql.gate.dialect import SqlDialect


def sql_dialect(name: str) -> SqlDialect | None:
    """The dialect of the node `db_NAME`; None for another language. Imports the module of the node, and no driver."""
    module, _, node = BUILTIN.get(f"db_{name}", "").partition(":")
    return getattr(import_module(module), node).sql_dialect if module else None
