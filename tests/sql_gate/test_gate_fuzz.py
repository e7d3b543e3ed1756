"""Statements nobody thought of: whatever the text, the gate answers or refuses; operators keep their order of binding."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_attacks import attacks

from rrext.errors import InvalidArguments, RrextError, ToolError
from rrext.nodes.sql.gate import Gate

GATES = {dialect: Gate(dialect) for dialect in ("sqlite", "duckdb", "postgres", "mysql")}

PIECES = sorted({word for dialect in GATES for attack in attacks(dialect) for word in attack.sql.split()})
ALL = "+ - * % || = <> < <= > >= AND OR LIKE & | << >> IN_ NOT_IN BETWEEN IS_NULL NOT_NULL"
OPERATORS = {name: f"{ALL} {more}".split() for name, more in {"sqlite": "/ == IS COLLATE GLOB", "duckdb": "CAST //"}.items()}
WRITTEN = {
    "IN_": "{a} IN (1, {b})",
    "NOT_IN": "{a} NOT IN (1, {b})",
    "BETWEEN": "{a} NOT BETWEEN 0 AND {b}",
    "IS_NULL": "{a} IS NULL",
    "NOT_NULL": "{a} IS NOT NULL",
    "COLLATE": "{a} COLLATE NOCASE",
    "CAST": "{a}::INTEGER",
    "IS": "{a} IS NOT {b}",
}


@settings(max_examples=150)
@given(st.sampled_from(sorted(GATES)), st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=12))
def test_any_text_is_answered_or_refused(dialect: str, words: list[str]) -> None:
    gate = GATES[dialect]
    try:
        sent = gate.read_only(" ".join(words)).sql
    except (InvalidArguments, ToolError):
        return
    assert gate.read_only(sent).sql == sent


def expressions(dialect: str) -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["1", "0", "2", "3", "-1", "NULL", "'a'" if dialect == "sqlite" else "7"])

    def joined(parts: tuple[str, str, str]) -> str:
        operator, a, b = parts
        return WRITTEN.get(operator, f"{{a}} {operator} {{b}}").format(a=a, b=b)

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        two = st.tuples(st.sampled_from(OPERATORS[dialect]), inner, inner).map(joined)
        return two | inner.map(lambda a: f"NOT {a}") | inner.map(lambda a: f"({a})") | inner.map(lambda a: f"- {a}")

    return st.recursive(leaves, larger, max_leaves=5)


def same(dialect: str, sql: str, run: Callable[[str], Any]) -> None:
    """What runs at all gives the same after the gate, if that lets it through."""
    try:
        wanted = run(sql)
    except Exception:  # no sense in this database: nothing to compare
        return
    try:
        sent = GATES[dialect].read_only(sql).sql
    except RrextError:
        return
    assert run(sent) == wanted, sent


@pytest.fixture(scope="module")
def sqlite() -> Any:
    connection = sqlite3.connect(":memory:")
    yield lambda sql: repr(connection.execute(sql).fetchall())
    connection.close()


@pytest.fixture(scope="module")
def duckdb() -> Any:
    import duckdb as driver

    with driver.connect() as connection:
        yield lambda sql: repr(connection.execute(sql).fetchall())


@settings(max_examples=300)
@given(expressions("sqlite"))
def test_operators_of_sqlite_bind_as_before(sqlite: Callable[[str], Any], expression: str) -> None:
    same("sqlite", f"SELECT {expression}", sqlite)


@settings(max_examples=200)
@given(expressions("duckdb"))
def test_operators_of_duckdb_bind_as_before(duckdb: Callable[[str], Any], expression: str) -> None:
    same("duckdb", f"SELECT {expression}", duckdb)
