"""Rows as a Markdown table, for the lanes `table` and `text`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

_BREAKS: Final = re.compile(r"\s*[\r\n]+\s*")


def markdown_table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """A head, a rule and a line per row. `|` is escaped, and line breaks become blanks; null is an empty cell."""
    lines = [_line(columns), _line(["---"] * len(columns))]
    lines += [_line([row.get(name) for name in columns]) for row in rows]
    return "\n".join(lines)


def _line(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _BREAKS.sub(" ", text).replace("\\", "\\\\").replace("|", "\\|")
