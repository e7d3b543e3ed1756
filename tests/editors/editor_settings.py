"""The settings that the page of the language server shows, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "rrext" / "faces" / "lsp" / "EDITORS.md"


def settings(title: str) -> str:
    """The code block that follows the paragraph that begins with a title in bold."""
    page = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^\*\*{re.escape(title)}\*\*.*?^```\w+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert found is not None, f"EDITORS.md shows no settings for {title}"
    return found[1]
