"""Markdown tables: cut out of a text in reading order, and made from rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from rrext.nodes.documents.records import DocumentPiece

_RULE: Final = re.compile(r"\s{0,3}\|[ :|-]*-[ :|-]*\s*")
_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE: Final = re.compile(r" {0,3}(```|~~~)")


def cut_tables(markdown: str) -> list[DocumentPiece]:
    """Split a Markdown document into texts and tables in reading order; joined they are the document again.

    A table is two or more lines that begin with `|`, the second being its rule, outside of fenced code.
    """
    pieces: list[DocumentPiece] = []
    lines = _LINES.findall(markdown)
    fence, begin, at = "", 0, 0
    while at < len(lines):
        mark = _FENCE.match(lines[at])
        if mark is not None and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        elif not fence and lines[at].startswith("|") and at + 1 < len(lines) and is_rule(lines[at + 1]):
            end = at
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            _add(pieces, "text", lines[begin:at])
            _add(pieces, "table", lines[at:end])
            begin = at = end
            continue
        at += 1
    _add(pieces, "text", lines[begin:])
    return pieces


def is_rule(line: str) -> bool:
    """Whether a line is the rule between the columns' names and the rows."""
    return _RULE.fullmatch(line) is not None


def table_of(rows: Iterable[Sequence[str]]) -> str:
    """Make a Markdown table of rows, the first being the columns' names; short rows are filled. Empty without rows."""
    kept = [row for row in rows if row]
    if not kept:
        return ""
    width = max(len(row) for row in kept)
    lines = [_line(row, width) for row in kept]
    lines.insert(1, "| " + " | ".join(["---"] * width) + " |")
    return "\n".join(lines) + "\n"


def _line(row: Sequence[str], width: int) -> str:
    cells = [" ".join(cell.split()).replace("|", "\\|") for cell in row]
    return "| " + " | ".join(cells + [""] * (width - len(cells))) + " |"


def _add(pieces: list[DocumentPiece], kind: str, lines: list[str]) -> None:
    text = "".join(lines)
    if kind == "table":
        pieces.append(DocumentPiece("table", text))
    elif text:
        pieces.append(DocumentPiece("text", text))
