"""The endings of files that hold several tables."""

from __future__ import annotations

import os
from typing import Final

WORKBOOKS: Final = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
"""Of Excel and of OpenDocument."""
SQLITES: Final = (".sqlite", ".sqlite3", ".db")
DUCKDBS: Final = (".duckdb",)
CONTAINERS: Final = (*WORKBOOKS, *SQLITES, *DUCKDBS)


OWN_SCHEMAS: Final = frozenset({"main", "temp", "system", "information_schema", "pg_catalog"})
"""Schemas that DuckDB has itself: no file's tables go into one."""


def ending_of(name: str) -> str:
    """The ending of a file's name, in small letters."""
    return os.path.splitext(name)[1].lower()


def holds_tables(name: str) -> bool:
    """Whether a file of this name holds several tables."""
    return ending_of(name) in CONTAINERS
