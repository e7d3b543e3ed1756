"""Answers and errors that statements of SQL and of Cypher have in common."""

from __future__ import annotations

from typing import Any

from rrext.errors import RrextError, ToolError


def too_many_rows(max_rows: int, kept: str) -> ToolError:
    """The error of `execute` for a statement with more rows than `max_execute_rows`; `kept` tells what became of its writes."""
    return ToolError(
        f"The statement gives more rows than max_execute_rows ({max_rows:,})",
        code="too_many_rows",
        hint=f"Add a LIMIT, or read with query_stream. {kept}",
        data={"limit": "max_execute_rows", "maximum": max_rows},
    )


def session_is_over(error: RrextError) -> None:
    """Add to the error of a statement that it ended the transaction of its session."""
    error.hint = f"{error.hint or ''} The transaction is rolled back, and its session is over.".strip()
    error.data["session"] = "over"


def model_answer(found: dict[str, Any], language: str, statement: str, limit: int) -> dict[str, Any]:
    """The answer of `get_data`: the rows of `found`, the statement that a model wrote, and the limit of rows."""
    return {
        "valid": True,
        "columns": found["columns"],
        "rows": found["rows"],
        language: statement,
        "row_limit": limit,
        "truncated": found["truncated"],
    }
