"""Columns of PostgreSQL and MySQL as lines of CSV that the server writes, and as types of DuckDB.

The server makes one text of each row, since a driver takes as long for a value as for a whole row of text.

| PostgreSQL, MySQL | DuckDB |
|---|---|
| integers, `unsigned` ones, `year` | the integer of the same range |
| `numeric(12,2)`, `decimal(12,2)` | DECIMAL of the same digits |
| `numeric` without digits, `money`, more than 38 digits | DECIMAL of the digits that the values have |
| `real`, `float`, `double precision`, `double` | FLOAT, DOUBLE |
| `boolean`; `tinyint(1)` | BOOLEAN; TINYINT, as it may hold more |
| `date`, `time` of PostgreSQL, `timestamp`, `datetime` | DATE, TIME, TIMESTAMP |
| `timestamptz`, `timestamp` of MySQL; `timetz` | TIMESTAMP WITH TIME ZONE; TIME WITH TIME ZONE |
| `interval`, `time` of MySQL, which is one | INTERVAL |
| `uuid`, `json`, `jsonb`; `bytea`, `blob`, `binary` | UUID, JSON; BLOB |
| `bit` of PostgreSQL; of MySQL | BIT; UBIGINT |
| `bit varying`, as BIT has no value of no digits | VARCHAR |
| arrays | a list of the element's type |
| texts, enums, sets, all else | VARCHAR |

A column with a value that its type cannot have, as `0000-00-00`, NaN among decimals, an infinite date or one before Christ,
is a VARCHAR, or JSON for a list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from rrext.nodes.sql.duckdb.text_tables import DIGITS

Form = Literal["text", "hex", "list"]

NUMERIC: Final = "NUMERIC"
"""Stands for the DECIMAL whose digits the values decide."""
MOST_ARGUMENTS: Final = 90
"""Arguments of one call: PostgreSQL's functions have at most 100."""

_PARENTHESES: Final = re.compile(r"\((\d+)(?:,\s*(-?\d+))?\)|\(.*\)")

_POSTGRES: Final = {
    "boolean": "BOOLEAN", "smallint": "SMALLINT", "integer": "INTEGER", "bigint": "BIGINT", "oid": "UINTEGER",
    "real": "FLOAT", "double precision": "DOUBLE", "numeric": NUMERIC, "money": NUMERIC,
    "date": "DATE", "time without time zone": "TIME", "time with time zone": "TIME WITH TIME ZONE",
    "timestamp without time zone": "TIMESTAMP", "timestamp with time zone": "TIMESTAMP WITH TIME ZONE",
    "interval": "INTERVAL", "uuid": "UUID", "json": "JSON", "jsonb": "JSON", "bytea": "BLOB",
    "bit": "BIT",
}  # fmt: skip
_MYSQL: Final = {
    "tinyint": "TINYINT", "smallint": "SMALLINT", "mediumint": "INTEGER", "int": "INTEGER", "bigint": "BIGINT",
    "year": "USMALLINT", "bit": "UBIGINT", "float": "FLOAT", "double": "DOUBLE", "decimal": NUMERIC,
    "date": "DATE", "datetime": "TIMESTAMP", "timestamp": "TIMESTAMP WITH TIME ZONE", "time": "INTERVAL",
    "uuid": "UUID", "json": "JSON", "binary": "BLOB", "varbinary": "BLOB",
    "tinyblob": "BLOB", "blob": "BLOB", "mediumblob": "BLOB", "longblob": "BLOB",
}  # fmt: skip
_PADDED: Final = frozenset({"character", "bpchar"})
_SHAPES: Final = frozenset(
    {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection"}
)
_BARE: Final = frozenset(
    {"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE"}
) | {NUMERIC}
"""Types whose texts need no quotes in CSV."""
_NO_ELEMENTS: Final = frozenset({NUMERIC, "BLOB", "INTERVAL"})
"""Types whose texts in an array are not those that DuckDB reads: they stay texts."""


class CopiedColumn(msgspec.Struct, frozen=True, array_like=True):
    """A column of a copy: its name, its type in DuckDB, and the form of its text: hexadecimal digits for bytes and for long
    texts, JSON for lists."""

    name: str
    kind: str
    form: Form = "text"


class ServerDialect(msgspec.Struct, frozen=True):
    """How a kind of server writes rows as texts. `setup` are statements at the beginning of the transaction."""

    quote: str
    setup: Sequence[str]
    types: dict[str, str]
    cell: Callable[[str, str, CopiedColumn], str]
    """The expression for a field of CSV: of a quoted name, the base type of the server, and the column."""
    call: str
    long_texts: frozenset[str] = frozenset()
    """Types of texts in which the server would double quotes too slowly: they come as hexadecimal digits."""
    has_schemas: bool = False
    bases: str = ""
    """The statement for types that stand for others: the name of each, and of the type that the columns of a result have."""

    def column(self, name: str, kind: str | None) -> CopiedColumn:
        """The column for a name and a type of the server."""
        base, digits, scale = parts_of(kind or "")
        if base.endswith("[]"):
            element = self.column(name, (kind or "").lower().removesuffix("[]")).kind
            return CopiedColumn(name, f"{'VARCHAR' if element in _NO_ELEMENTS or '[' in element else element}[]", "list")
        found = self.types.get(base.removesuffix(" zerofill").removesuffix(" unsigned"), "VARCHAR")
        if " unsigned" in base and found.endswith(("INT", "INTEGER")):
            found = f"U{found}"
        if found == NUMERIC and base != "money" and digits is not None and 0 <= scale <= digits <= DIGITS:
            found = f"DECIMAL({digits}, {scale})"
        return CopiedColumn(name, found, "hex" if found == "BLOB" or base in self.long_texts else "text")

    def quoted(self, name: str) -> str:
        """A name, as the server quotes names."""
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def query(self, source: str, columns: Sequence[tuple[str, str | None]]) -> tuple[list[CopiedColumn], str]:
        """The columns for names and types of the server, and the statement that gives each row of `source` as a line of CSV."""
        made = [self.column(*given) for given in columns]
        cells = [
            self.cell(self.quoted(name), parts_of(kind or "")[0], column)
            for (name, kind), column in zip(columns, made, strict=True)
        ]
        parts = [part for cell in cells for part in (cell, "','")][:-1]
        while len(parts) > 1:
            groups = [parts[at : at + MOST_ARGUMENTS] for at in range(0, len(parts), MOST_ARGUMENTS)]
            parts = [f"{self.call}({', '.join(group)})" for group in groups]
        return made, f"SELECT {parts[0]} FROM {source}"


def parts_of(kind: str) -> tuple[str, int | None, int]:
    """A type without what stands in parentheses, and its digits and scale: `numeric`, 12, 2."""
    found = _PARENTHESES.search(kind)
    base = " ".join(_PARENTHESES.sub("", kind.lower()).split())
    if found is None or found[1] is None:
        return base, None, 0
    return base, int(found[1]), int(found[2] or 0)


def _is_bare(column: CopiedColumn) -> bool:
    return column.form == "text" and (column.kind in _BARE or column.kind.startswith("DECIMAL"))


def _of_postgres(name: str, base: str, column: CopiedColumn) -> str:
    text = f"{name}::pg_catalog.text"
    if column.form == "hex":
        text = f"pg_catalog.encode({name}, 'hex')"
    elif column.form == "list":
        given = name if base.removesuffix("[]") in _PADDED else f"{name}::pg_catalog.text[]"
        text = f"pg_catalog.to_json({given})::pg_catalog.text"
    elif base in _PADDED:
        text = f"pg_catalog.concat({name})"  # a cast to text would drop blanks at its end
    elif base == "money":
        text = f"{name}::pg_catalog.numeric::pg_catalog.text"
    elif column.kind == "INTERVAL":
        text = f"pg_catalog.replace({text}, '+', '')"
    if not _is_bare(column):
        text = f"""pg_catalog.concat('"', pg_catalog.replace({text}, '"', '""'), '"')"""
        return f"CASE WHEN {name} IS NULL THEN 'NULL' ELSE {text} END"
    return f"COALESCE({text}, 'NULL')"


def _of_mysql(name: str, base: str, column: CopiedColumn) -> str:
    text = name
    if column.form == "hex":
        text = f"HEX({name})" if column.kind == "BLOB" else f"HEX(CONVERT({name} USING utf8mb4))"
    elif base in _SHAPES:
        text = f"ST_AsText({name})"
    elif column.kind == "FLOAT":
        text = f"{name} + 0e0"  # as a text it would be rounded to six digits
    elif base == "bit":
        text = f"{name} + 0"
    elif base == "timestamp":
        text = f"CONCAT({name}, '+00:00')"  # DuckDB would take it for a time in this machine's zone
    text = f"CONVERT({text} USING utf8mb4)"  # texts of different collations make no text
    if column.form == "hex":
        text = f"""CONCAT('"', {text}, '"')"""
    elif not _is_bare(column):
        text = f"""CONCAT('"', REPLACE({text}, '"', '""'), '"')"""
    return f"IF({name} IS NULL, 'NULL', {text})"


POSTGRES_ROWS: Final = ServerDialect(
    '"',
    (
        "SET LOCAL DateStyle = 'ISO'", "SET LOCAL IntervalStyle = 'postgres'", "SET LOCAL TimeZone = 'UTC'",
        "SET LOCAL extra_float_digits = 1",
    ),
    _POSTGRES,
    _of_postgres,
    "pg_catalog.concat",
    has_schemas=True,
    bases="""WITH RECURSIVE base(name, oid, modifier) AS (
  SELECT pg_catalog.format_type(oid, NULL), typbasetype, typtypmod
  FROM pg_catalog.pg_type WHERE typtype OPERATOR(pg_catalog.=) 'd'
  UNION ALL
  SELECT b.name, t.typbasetype, CASE WHEN b.modifier OPERATOR(pg_catalog.=) -1 THEN t.typtypmod ELSE b.modifier END
  FROM base b JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) b.oid AND t.typtype OPERATOR(pg_catalog.=) 'd')
SELECT b.name, pg_catalog.format_type(b.oid, b.modifier)
FROM base b JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) b.oid AND t.typtype OPERATOR(pg_catalog.<>) 'd'""",
)  # fmt: skip
MYSQL_ROWS: Final = ServerDialect(
    "`", ("SET time_zone = '+00:00'",), _MYSQL, _of_mysql, "CONCAT", frozenset({"mediumtext", "longtext", "json"})
)
"""In MySQL a NULL anywhere, as of a text that is too large for it, makes the whole line NULL, which is seen."""
