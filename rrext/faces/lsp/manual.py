"""Links from problem codes to protocol.md, in the copy of this version."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_ROW: Final = re.compile(r"\| `(\w+)` \|")


class Manual:
    """The lines of protocol.md that explain each code. Without the file there are no links."""

    def __init__(self, path: Path | None = None) -> None:
        """Find the file in the package (in a wheel) or beside it (in a checkout)."""
        package = Path(__file__).resolve().parents[2]
        candidates = [path] if path is not None else [package / "protocol.md", package.parent / "protocol.md"]
        found = next((candidate for candidate in candidates if candidate.is_file()), None)
        self._uri = None if found is None else found.as_uri()
        lines = () if found is None else found.read_text(encoding="utf-8").split("\n")
        self._lines = {match[1]: number for number, line in enumerate(lines, 1) if (match := _ROW.match(line)) is not None}

    def link(self, code: str) -> str | None:
        """The URI of the line about a code, or None."""
        line = self._lines.get(code)
        return None if line is None else f"{self._uri}#L{line}"

    def __repr__(self) -> str:
        return f"<Manual {self._uri}, {len(self._lines)} codes>"
