"""Problems with line and column beside the JSON pointer, for readers of the text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rrext.pipefile.text.problems import Problem, Span

if TYPE_CHECKING:
    from rrext.pipefile.text.source import SourceMap


def located(problem: Problem, where: SourceMap | None) -> dict[str, Any]:
    """Convert a problem to JSON; for a text with `line`, `column`, `endLine` and `endColumn`, all from 1."""
    shown = problem.as_json()
    if where is None:
        return shown
    (start, end), related = where.span_of(problem), []
    line, column = where.position(start)
    end_line, end_column = where.position(end)
    for other, span in related_places(problem, where):
        other_line, other_column = where.position(span[0])
        related.append({**other, "line": other_line, "column": other_column})
    place = {"line": line, "column": column, "endLine": end_line, "endColumn": end_column}
    return {**shown, **place, "related": related}


def related_places(problem: Problem, where: SourceMap) -> Iterator[tuple[dict[str, str], Span]]:
    """The related places of a problem, each `{path, message}` with its span."""
    for other in problem.related:
        span = other.span if other.span is not None else where.span(other.path)
        yield {"path": other.path, "message": other.message}, span
