"""Types of a PostgreSQL database: their names in answers, and the kinds of values that parameters of a type take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from psycopg import Connection, adapters

from rrext.nodes.sql.limits import KEPT_STATEMENTS, LONGEST_KEPT
from rrext.nodes.sql.postgres.libpq import described, rows_of

_IS: Final = "OPERATOR(pg_catalog.=)"
"""Users may have operators of the same name."""
_FACTS: Final = f"""
SELECT t.oid, CASE WHEN t.typtype {_IS} 'd' THEN t.typbasetype END,
  CASE WHEN t.typcategory {_IS} 'A' AND t.typlen {_IS} '-1' THEN t.typelem END, coalesce(e.typdelim, ',')
FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_type e ON e.oid {_IS} t.typelem WHERE t.oid {_IS} '{{}}'"""


class ParameterType(msgspec.Struct, frozen=True):
    """The type that the server expects of a parameter."""

    oid: int
    """The number declared to the server, which reports an error if it expects another type by now."""
    base: int
    """The base type of a domain; for other types the type itself."""
    element: ParameterType | None = None
    delimiter: str = ","


class PostgresTypes:
    """The types of one database. Shared by its connections, which add to it."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, int], str | None] = {}
        self._facts: dict[int, ParameterType] = {}
        self._statements: dict[str, tuple[int, ...] | None] = {}

    # results

    def names(self, connection: Connection[Any], columns: Sequence[tuple[int, int]]) -> list[str | None]:
        """The names of types with their modifiers, as `numeric(10,2)`. Queries the server for unknown ones."""
        names = self._names
        if not all(map(names.__contains__, columns)):
            self._ask_names(connection, sorted({column for column in columns if column not in names}))
        return [names[column] for column in columns]

    def _ask_names(self, connection: Connection[Any], unknown: list[tuple[int, int]]) -> None:
        asked: list[tuple[int, int]] = []
        for oid, modifier in unknown:
            known = adapters.types.get(oid)
            if known is not None and modifier == -1:
                self._names[oid, modifier] = known.regtype + "[]" * (oid == known.array_oid)
            else:
                asked.append((oid, modifier))
        if asked:
            calls = ", ".join(f"pg_catalog.format_type({oid}, {modifier})" for oid, modifier in asked)
            (row,) = rows_of(connection, f"SELECT {calls}".encode())
            self._names.update(zip(asked, row, strict=True))

    # parameters

    def parameters(self, connection: Connection[Any], sql: str, text: bytes) -> Sequence[ParameterType | None]:
        """The parameter types that the server infers; none if it cannot."""
        oids = self._statements.get(sql)
        if oids is None and sql not in self._statements:
            oids = described(connection, text)
            if len(sql) <= LONGEST_KEPT:
                if len(self._statements) >= KEPT_STATEMENTS:
                    self._statements.clear()
                self._statements[sql] = oids
        return [self._fact(connection, oid) for oid in oids or ()]

    def forget(self) -> None:
        """Drop the cached types, because tables may have changed: after a definition or a failed statement."""
        self._statements.clear()
        self._facts.clear()

    def _fact(self, connection: Connection[Any], oid: int) -> ParameterType:
        found = self._facts.get(oid)
        if found is None:
            found = self._facts[oid] = self._built_in(oid) or self._asked(connection, oid)
        return found

    def _built_in(self, oid: int) -> ParameterType | None:
        info = adapters.types.get(oid)
        if info is None:
            return None
        if info.array_oid != oid:
            return ParameterType(oid, oid)
        return ParameterType(oid, oid, ParameterType(info.oid, info.oid), info.delimiter)

    def _asked(self, connection: Connection[Any], oid: int) -> ParameterType:
        rows = rows_of(connection, _FACTS.format(oid).encode())
        _, base, element, delimiter = rows[0] if rows else ("", None, None, ",")
        if base:
            return msgspec.structs.replace(self._fact(connection, int(base)), oid=oid)
        of = self._fact(connection, int(element)) if element else None
        return ParameterType(oid, oid, of, delimiter or ",")
