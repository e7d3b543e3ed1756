"""Plans are lines that a person reads."""

from __future__ import annotations

from typing import Any

from rrext.nodes.graph.node import plan_lines

SCAN: dict[str, Any] = {"operatorType": "NodeByLabelScan@neo4j", "args": {"Details": "p:Person", "EstimatedRows": 3.0}}
PLAN = {"operatorType": "ProduceResults@neo4j", "args": {"Details": "p.name"}, "children": [SCAN]}


def test_operators_stand_above_those_that_feed_them() -> None:
    assert plan_lines(PLAN) == [
        "+ ProduceResults@neo4j (Details: p.name)",
        "  + NodeByLabelScan@neo4j (Details: p:Person, EstimatedRows: 3.0)",
    ]


def test_what_a_profile_counted_is_shown() -> None:
    assert plan_lines({**SCAN, "args": {}, "rows": 3, "dbHits": 7}) == ["+ NodeByLabelScan@neo4j (rows: 3, dbHits: 7)"]


def test_a_plan_that_the_server_draws_is_shown_as_it_is() -> None:
    assert plan_lines({**PLAN, "args": {"string-representation": "+---+\n| a |\n"}}) == ["+---+", "| a |"]
    assert plan_lines("a\nb\n") == ["a", "b"]
