"""Statements that only read, as people and models write them: their meaning must survive the gate.

Each runs over the tables of `TABLES`. They are chosen for what a rewriting of syntax trees gets wrong: literals, escapes,
quoting, operators, casts, intervals, windows, lateral joins, JSON, and the special grammar of some functions. They stand
in `reading/<dialect>.sql`, one a line; `reading/common.sql` is for all dialects.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["READING", "TABLES"]

TABLES: Final = """
CREATE TABLE people (id INTEGER PRIMARY KEY, name VARCHAR(40), age INTEGER, city VARCHAR(40), score DOUBLE PRECISION);
CREATE TABLE orders (id INTEGER PRIMARY KEY, person INTEGER, item VARCHAR(40), price DECIMAL(10, 2), day DATE);
INSERT INTO people VALUES (1, 'Ann', 34, 'Oslo', 1.5), (2, 'Bob', NULL, 'oslo', -2.25), (3, 'O''Hara', 51, NULL, 0.0),
  (4, 'back\\slash', 19, 'Rome', 3.75), (5, 'per%cent_', 34, 'Rome', NULL);
INSERT INTO orders VALUES (1, 1, 'tea', 2.50, '2024-01-31'), (2, 1, 'milk', 1.20, '2024-02-29'),
  (3, 2, 'tea', 2.75, '2024-02-01'), (4, 4, 'bread', 3.00, '2023-12-31'), (5, 4, 'tea', 2.50, '2024-03-10');
"""


def _lines(name: str) -> tuple[str, ...]:
    text = (Path(__file__).parent / "reading" / f"{name}.sql").read_text()
    return tuple(line for line in text.splitlines() if line)


_NOT_MYSQL: Final = ('"', "NULLS", "FILTER", "VARCHAR(10)", "AS INTEGER", "VALUES", "COUNT(*), COUNT", "EXCEPT", "AS v ORDER")

READING: Final = {
    "sqlite": _lines("common") + _lines("sqlite"),
    "duckdb": _lines("common") + _lines("duckdb"),
    "postgres": _lines("common") + _lines("postgres"),
    "mysql": tuple(line for line in _lines("common") if not any(word in line for word in _NOT_MYSQL)) + _lines("mysql"),
}
"""SqlDialect → statements. What the gate does not let through is in `REFUSED` of the test, with the reason."""
