"""Places of a text as an editor sends them, and pieces of a text as it gets them."""

from __future__ import annotations

from typing import Any

from faces.lsp.editors import URI

from rrext.editor.text import Text, Unit

DOCUMENT = {"textDocument": {"uri": URI}}


def place(text: str, piece: str, nth: int = 0, inside: int = 1, unit: Unit = "utf-16") -> dict[str, int]:
    """The position inside of the nth piece of that text."""
    at = -1
    for _ in range(nth + 1):
        at = text.index(piece, at + 1)
    line, character = Text(text, unit).position(at + inside)
    return {"line": line, "character": character}


def asked(text: str, piece: str, nth: int = 0, inside: int = 1, unit: Unit = "utf-16", **more: Any) -> dict[str, Any]:
    """The parameters of a request about a place."""
    return {**DOCUMENT, "position": place(text, piece, nth, inside, unit), **more}


def piece_of(text: str, found: dict[str, Any], unit: Unit = "utf-16") -> str:
    """What stands in a range."""
    lines = Text(text, unit)
    start, end = (lines.offset(found[key]["line"], found[key]["character"]) for key in ("start", "end"))
    return text[start:end]
