"""Files of data that `rrext sql` asks in the place of a pipeline: their names, and the pipeline that has them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from rrext.errors import UsageError
from rrext.nodes.sql.duckdb.endings import OWN_SCHEMAS, ending_of, holds_tables
from rrext.nodes.sql.duckdb.files import is_table

FILES: Final = "(files)"
"""The id of the database of files that were named in place of a pipeline."""
DATABASES: Final = {".sqlite": "db_sqlite", ".sqlite3": "db_sqlite", ".db": "db_sqlite", ".duckdb": "db_duckdb"}
"""Endings of databases, and their nodes."""
_RESERVED: Final = (
    "all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by case cast check collate "
    "collation column concurrently constraint create cross default deferrable desc describe distinct do else end except "
    "false fetch for foreign freeze from full glob group having ilike in initially inner intersect into is isnull join "
    "lambda lateral leading left like limit natural not notnull null offset on only or order outer overlaps pivot "
    "pivot_longer pivot_wider placing positional primary qualify references returning right select semi show similar some "
    "summarize symmetric table tablesample then to trailing true union unique unpack unpivot using variadic verbose when "
    "where window with"
)
"""Words that DuckDB takes for no table without quotes."""


def pipeline_of(files: Sequence[str]) -> bytes:
    """A pipeline whose one database has these files, each a table or, if it holds several, a schema. A database of SQLite or
    DuckDB alone is asked itself, by its own node. Raises `UsageError`.
    """
    node = DATABASES.get(ending_of(files[0])) if len(files) == 1 else None
    config: dict[str, Any] = {"path": os.path.abspath(files[0])}
    if node is None:
        tables: dict[str, str] = {}
        for file in files:
            name = table_of(file)
            if name in tables:
                raise UsageError(f"{tables[name]} and {file} would both be the table {name}: rename one")
            tables[name] = file
        config = {"files": {name: os.path.abspath(file) for name, file in tables.items()}}
    config["statement_timeout"] = 0  # who waits for the end can stop it too: --timeout, Ctrl-C
    components = [
        {"id": "source", "provider": "tools", "config": {}},
        {"id": FILES, "provider": node or "db_duckdb", "config": config, "control": [{"classType": "tool", "from": "source"}]},
    ]
    return msgspec.json.encode({"source": "source", "components": components})


def is_data(name: str) -> bool:
    """Whether a name is that of a file which `pipeline_of` takes: by its ending."""
    return ending_of(name) in DATABASES or is_table(name)


def names_data(word: str) -> bool:
    """Whether a word that may also be a statement names a file of data: with a blank, as SQL has, only one that exists."""
    return is_data(word) and (len(word.split()) == 1 or os.path.isfile(word))


def table_of(file: str) -> str:
    """The name of the table or schema of a file: its own without folders and endings, in a form that needs no quotes."""
    name = re.sub(r"\W+", "_", os.path.basename(file).split(".")[0]).strip("_").lower()
    is_taken = name in _RESERVED.split() or (holds_tables(file) and name in OWN_SCHEMAS)
    return f"t_{name}" if not name or name[0].isdigit() or is_taken else name
