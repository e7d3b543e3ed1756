"""The splitting strategy of a document, by its name and type."""

from __future__ import annotations

import os
from typing import Final

from rrext.nodes.documents import formats

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
        formats.MARKDOWN,
        formats.HTML,
        formats.EML,
        formats.DOCX,
        formats.XLSX,
        formats.PPTX,
        formats.ODT,
        formats.EPUB,
        formats.RTF,
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
