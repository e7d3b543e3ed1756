"""Plans as lines that a person reads."""

from __future__ import annotations

import pytest
from sql_contract import opened

from rrext.nodes.sql.node import plan_lines
from rrext.nodes.sql.sqlite import SqliteNode

UNION = "SELECT max(id) FROM a UNION SELECT 1"


@pytest.mark.parametrize("plan", [{"sql": UNION, "explain": True}, {"sql": f"EXPLAIN QUERY PLAN {UNION}"}])
async def test_a_plan_of_sqlite_is_a_tree(plan: dict[str, object]) -> None:
    async with opened(SqliteNode, {"allow_execute": True}) as db:
        await db("execute", sql="CREATE TABLE a (id INTEGER PRIMARY KEY)")
        for mode in ("object", "array"):
            answer = await db("query", **plan, row_mode=mode)
            assert answer["plan"] == [
                "COMPOUND QUERY", "  LEFT-MOST SUBQUERY", "    SEARCH a", "  UNION USING TEMP B-TREE", "    SCAN CONSTANT ROW"
            ]  # fmt: skip
            assert answer["columns"] == ["id", "parent", "notused", "detail"]
            assert len(answer["rows"]) == answer["row_count"] == 5
        assert "plan" not in await db("query", sql="SELECT id FROM a")


def test_a_plan_of_postgresql_is_its_lines() -> None:
    assert plan_lines(["QUERY PLAN"], [["Sort"], ["  ->  Seq Scan on t"]]) == ["Sort", "  ->  Seq Scan on t"]
    assert plan_lines(["QUERY PLAN"], [[[{"Plan": {}}]]]) == []


def test_a_plan_of_mysql_is_a_table_without_its_empty_columns() -> None:
    columns = ["id", "table", "key", "rows", "Extra"]
    assert plan_lines(columns, [[1, "a", None, "10", ""], [1, "items", None, "2", "Using where"]]) == [
        "id  table  rows  Extra",
        "1   a      10",
        "1   items  2     Using where",
    ]
    assert plan_lines(["EXPLAIN"], [['{\n  "query_block": {}\n}']]) == ["{", '  "query_block": {}', "}"]


def test_a_plan_that_is_drawn_is_its_lines() -> None:
    assert plan_lines(["explain_key", "explain_value"], [["physical_plan", "┌──┐\n│  │  \n└──┘\n"]]) == ["┌──┐", "│  │", "└──┘"]
