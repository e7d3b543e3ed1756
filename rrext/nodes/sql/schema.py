"""Tables, columns and keys of a database: the records, the answer of `get_schema`, and the text for a language model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from rrext.errors import ToolError, near_matches

MAX_SCHEMA_TEXT: Final = 24_000
"""Characters of the schema in a prompt, about 6,000 tokens: what a model of any size still reads with attention."""
MAX_COLUMNS: Final = 150
"""Columns of one table that are shown; those that the question names first."""
SHORTEST_WORD: Final = 3
"""Letters of a word that counts as relevant."""


class Column(msgspec.Struct, frozen=True):
    """`type` is written as the database writes it."""

    name: str
    type: str


class ForeignKey(msgspec.Struct, frozen=True):
    """`columns` of this table name a row of `table` by its columns `references`."""

    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...]


class SqlTable(msgspec.Struct, frozen=True):
    """A table or a view. Its name has its schema as a prefix, unless that is the default schema."""

    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    is_view: bool = False
    problem: str | None = None
    """The database's error, if it cannot list the columns."""

    def as_json(self) -> dict[str, Any]:
        """`{columns: [{column, type}], primary_key?, foreign_keys?, view?, problem?}`."""
        answer: dict[str, Any] = {"columns": [{"column": column.name, "type": column.type} for column in self.columns]}
        if self.primary_key:
            answer["primary_key"] = list(self.primary_key)
        if self.foreign_keys:
            answer["foreign_keys"] = [
                {"columns": list(key.columns), "references": {"table": key.table, "columns": list(key.references)}}
                for key in self.foreign_keys
            ]
        if self.is_view:
            answer["view"] = True
        if self.problem is not None:
            answer["problem"] = self.problem
        return answer


class Schema(msgspec.Struct, frozen=True):
    """The snapshot of a database's tables. `database` is its name; of a file, the file's."""

    database: str
    tables: Mapping[str, SqlTable]
    read_at: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))

    def as_json(self, table: str | None = None) -> dict[str, Any]:
        """`{database, tables}`, of one table only if it is named. Raises `ToolError` (`table_not_found`) with near names."""
        tables = self.tables if table is None else {table: self.table(table)}
        return {"database": self.database, "tables": {name: entry.as_json() for name, entry in tables.items()}}

    def table(self, name: str) -> SqlTable:
        """The table of that name."""
        found = self.tables.get(name)
        if found is not None:
            return found
        near = near_matches(name, self.tables)
        hint = f"Did you mean {' or '.join(near)}?" if near else "refresh_schema reads the tables again."
        raise ToolError(
            f'There is no table "{name}" in the database "{self.database}"',
            code="table_not_found",
            hint=hint,
            data={"near": near},
        )


def schema_of(
    database: str,
    columns: Iterable[tuple[str, bool, str | None, str]],
    keys: Iterable[tuple[str, bool, Sequence[str], str, Sequence[str]]],
) -> Schema:
    """The schema of columns and keys, as catalogs list them.

    A column is its table, whether that is a view, its name (None: the table has no column) and its type. A key is its table,
    whether it is the primary key, its columns, and of a foreign key the other table and its columns.
    """
    found: dict[str, list[Column]] = {}
    views: set[str] = set()
    primary: dict[str, tuple[str, ...]] = {}
    foreign: dict[str, list[ForeignKey]] = {}
    for table, is_view, column, kind in columns:
        known = found.setdefault(table, [])
        if column is not None:
            known.append(Column(column, kind))
        if is_view:
            views.add(table)
    for table, is_primary, own, other, references in keys:
        if is_primary:
            primary[table] = tuple(own)
        else:
            foreign.setdefault(table, []).append(ForeignKey(tuple(own), other, tuple(references)))
    return Schema(
        database,
        {
            name: SqlTable(name, tuple(known), primary.get(name, ()), tuple(foreign.get(name, ())), name in views)
            for name, known in found.items()
        },
    )


_WORDS: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LINE: Final = re.compile(r"\s+")


def schema_text(schema: Schema, question: str) -> str:
    """One line per table. The most relevant ones come first; how many are left out is said at the end."""
    asked = _stems(question)
    scores = {name: _score(table, asked) for name, table in schema.tables.items()}
    for name, table in schema.tables.items():  # a table that connects relevant tables is needed for the join
        if scores[name]:
            for key in table.foreign_keys:
                if key.table in scores and not scores[key.table]:
                    scores[key.table] = 1
    lines: list[str] = []
    size = 0
    for name in sorted(schema.tables, key=lambda name: (-scores[name], name)):
        line = _line(schema.tables[name], asked)
        size += len(line) + 1
        if size > MAX_SCHEMA_TEXT:
            break
        lines.append(line)
    left = len(schema.tables) - len(lines)
    if left:
        lines.append(f"({left} more tables are not shown)")
    return "\n".join(lines)


def _line(table: SqlTable, asked: frozenset[str]) -> str:
    columns = table.columns
    if len(columns) > MAX_COLUMNS:
        columns = tuple(sorted(columns, key=lambda column: not (_stems(column.name) & asked))[:MAX_COLUMNS])
    told = [f"{_one_line(column.name)} {_one_line(column.type)}" for column in columns]
    if len(table.columns) > len(columns):
        told.append(f"({len(table.columns) - len(columns)} more columns)")
    if table.primary_key:
        told.append(f"primary key ({', '.join(map(_one_line, table.primary_key))})")
    for key in table.foreign_keys:
        here, there = ", ".join(map(_one_line, key.columns)), ", ".join(map(_one_line, key.references))
        told.append(f"({here}) references {_one_line(key.table)} ({there})")
    return f"{'view' if table.is_view else 'table'} {_one_line(table.name)}: {'; '.join(told)}"[:MAX_SCHEMA_TEXT]


def _one_line(name: str) -> str:
    """The text on one line: names may hold anything, even line breaks."""
    return _LINE.sub(" ", name)[:128]


def _score(table: SqlTable, asked: frozenset[str]) -> int:
    of_columns = {stem for column in table.columns for stem in _stems(column.name)}
    return 4 * len(_stems(table.name) & asked) + len(of_columns & asked)


def _stems(text: str) -> frozenset[str]:
    """The words of a text or of a name, without plural endings."""
    words = _WORDS.findall(_CAMEL.sub(" ", text).casefold())
    return frozenset(_stem(word) for word in words if len(word) >= SHORTEST_WORD)


def _stem(word: str) -> str:
    if word.endswith("ies") and len(word) > SHORTEST_WORD + 1:
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word
