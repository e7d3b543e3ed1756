"""Answers and errors that statements of SQL and of Cypher have in common."""

from __future__ import annotations

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
