"""The MIME types of the documents that can be read, the splitting strategy for each, and tables in Markdown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Final

from rrext.nodes.documents.records import DocumentPiece

SMALLEST_CHUNK, LARGEST_CHUNK = 16, 100_000
"""Units of a piece: below, words are cut; above, a store may not take it."""

# workbook.py, cell_formats.py: of the format of workbooks
ROWS, COLUMNS = 1_048_576, 16_384
"""How many rows and columns a sheet has at most."""

_OFFICE: Final = "application/vnd.openxmlformats-officedocument."
PDF: Final = "application/pdf"
DOCX: Final = _OFFICE + "wordprocessingml.document"
XLSX: Final = _OFFICE + "spreadsheetml.sheet"
PPTX: Final = _OFFICE + "presentationml.presentation"
ODT: Final = "application/vnd.oasis.opendocument.text"
EPUB: Final = "application/epub+zip"
RTF: Final = "application/rtf"
HTML: Final = "text/html"
EML: Final = "message/rfc822"
MARKDOWN: Final = "text/markdown"
CSV: Final = "text/csv"
TSV: Final = "text/tab-separated-values"
TEXT: Final = "text/plain"

_CODE: Final = frozenset(
    """
    bash c cc clj cpp cs css cxx dart ex exs fish go gradle groovy h hpp hs hxx java jl js jsx kt kts less lua m mjs ml mm
    php pl pm proto ps1 py pyi r rb rs sass scala scss sh sql swift ts tsx vb vue zig zsh
    """.split()  # noqa: SIM905 – a table, read as words
)
"""Extensions of source code."""

_CODE_TYPES: Final = frozenset(
    {"application/javascript", "application/x-sh", "application/sql", "text/javascript", "text/x-shellscript", "text/css"}
)
_MARKDOWN: Final = frozenset(
    {
        MARKDOWN,
        HTML,
        EML,
        DOCX,
        XLSX,
        PPTX,
        ODT,
        EPUB,
        RTF,
    }
)
"""Types that are Markdown after parsing. HTML that was not parsed has no such headings, and loses nothing."""


def strategy_for(name: str, mime_type: str) -> str:
    """The strategy for a document of this name and type."""
    essence = mime_type.partition(";")[0].strip().lower()
    extension = _extension(name)
    if essence in _MARKDOWN or (extension in ("md", "markdown") and not essence.startswith("application/pdf")):
        return "markdown"
    if is_code(name) or essence in _CODE_TYPES or essence.startswith("text/x-source"):
        return "code"
    return "characters"


def is_code(name: str) -> bool:
    """Whether a file of this name is source code."""
    return _extension(name) in _CODE


def _extension(name: str) -> str:
    return os.path.splitext(name)[1].lower().removeprefix(".")


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
