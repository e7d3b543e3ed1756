"""Pictures with text, drawn for tests."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from PIL import Image, ImageDraw, ImageFont

TITLE = "The quick brown fox"
ROWS = (("Name", "Count", "Price"), ("Widget", "12", "3.50"), ("Gadget", "7", "11.00"), ("Alice", "120", "0.99"))
"""The rows of the table in a picture."""


def picture(
    width: int = 900, height: int = 420, *, title: str = "The quick brown fox", rows: Any = (), mode: str = "RGB"
) -> Any:
    """A picture with a title, and a table below it."""
    ground: Any = "white" if mode == "RGB" else (0, 0, 0, 0)
    drawn = Image.new(mode, (width, height), ground)
    pen, font = ImageDraw.Draw(drawn), ImageFont.load_default(34)
    pen.text((20, 15), title, fill="black", font=font)
    for y, row in enumerate(rows):
        for x, cell in enumerate(row):
            pen.text((30 + x * 300, 100 + y * 70), cell, fill="black", font=font)
    return drawn


def encoded(drawn: Any, kind: str = "PNG", **options: Any) -> bytes:
    """The bytes of a picture."""
    out = BytesIO()
    drawn.save(out, kind, **options)
    return out.getvalue()
