"""Tables, columns and keys of a database: the records, how SQLAlchemy reads them, and the answer of `get_schema`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from rrext.errors import ToolError, near_matches

__all__ = ["Column", "ForeignKey", "Schema", "Table", "inspected"]


class Column(msgspec.Struct, frozen=True):
    """`type` is written as the database writes it."""

    name: str
    type: str


class ForeignKey(msgspec.Struct, frozen=True):
    """`columns` of this table name a row of `table` by its columns `references`."""

    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...]


class Table(msgspec.Struct, frozen=True):
    """A table, or a view. Its name has its schema before it, if that is not the one that is searched by default."""

    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    is_view: bool = False

    def as_json(self) -> dict[str, Any]:
        """`{columns: [{column, type}], primary_key?, foreign_keys?, view?}`."""
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
        return answer


class Schema(msgspec.Struct, frozen=True):
    """What a database held when it was read. `database` is its name; of a file, the file's."""

    database: str
    tables: Mapping[str, Table]
    read_at: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))

    def as_json(self, table: str | None = None) -> dict[str, Any]:
        """`{database, tables}`, of one table only if it is named. Raises `ToolError` (`table_not_found`) with near names."""
        tables = self.tables if table is None else {table: self.table(table)}
        return {"database": self.database, "tables": {name: entry.as_json() for name, entry in tables.items()}}

    def table(self, name: str) -> Table:
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


def inspected(connection: Any, url: str, database: str, schemas: Sequence[str | None] = (None,)) -> Schema:
    """What SQLAlchemy's inspector finds on a DBAPI connection, inside of the transaction that is open there.

    `url` names SQLAlchemy's dialect and driver, as `postgresql+psycopg://`. `schemas` are looked into one after the other;
    None is the one that is searched by default, and its tables have plain names.
    """
    from sqlalchemy import create_engine, inspect
    from sqlalchemy.pool import StaticPool

    engine = create_engine(url, creator=lambda: connection, poolclass=StaticPool, pool_reset_on_return=None)
    tables: dict[str, Table] = {}
    with engine.connect() as connected:
        inspector = inspect(connected)
        for schema in schemas:
            found = _tables_of(inspector, schema)
            tables.update((table.name, table) for table in sorted(found, key=lambda table: table.name))
        connected.detach()  # the connection is the caller's: it must be neither closed nor rolled back here
    return Schema(database, tables)


def _tables_of(inspector: Any, schema: str | None) -> list[Table]:
    from sqlalchemy.engine.reflection import ObjectKind

    columns = inspector.get_multi_columns(schema=schema, kind=ObjectKind.ANY)
    primary = inspector.get_multi_pk_constraint(schema=schema)
    foreign = inspector.get_multi_foreign_keys(schema=schema)
    views = {*inspector.get_view_names(schema=schema)}
    return [
        Table(
            _name(schema, name),
            tuple(Column(column["name"], _type(column["type"], inspector.dialect)) for column in columns[schema, name]),
            tuple((primary.get((schema, name)) or {}).get("constrained_columns") or ()),
            tuple(_foreign_key(key) for key in foreign.get((schema, name)) or ()),
            name in views,
        )
        for _, name in columns
    ]


def _name(schema: str | None, name: str) -> str:
    return name if schema is None else f"{schema}.{name}"


def _type(kind: Any, dialect: Any) -> str:
    try:
        return kind.compile(dialect=dialect)
    except Exception:  # a type that SQLAlchemy does not know: what it shows of it is better than no schema
        return str(kind)


def _foreign_key(key: Mapping[str, Any]) -> ForeignKey:
    table = _name(key.get("referred_schema"), key["referred_table"])
    return ForeignKey(tuple(key["constrained_columns"]), table, tuple(key["referred_columns"]))
