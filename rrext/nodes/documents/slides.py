"""The speaker notes of a presentation, which kreuzberg leaves out."""

from __future__ import annotations

import re
import zipfile
from io import BytesIO
from typing import Final
from xml.etree import ElementTree

from rrext.nodes.documents.records import corrupt

_PART: Final = re.compile(r"ppt/notesSlides/notesSlide(\d{1,6})\.xml")
_DRAWING: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_SHEET: Final = "{http://schemas.openxmlformats.org/presentationml/2006/main}"


def speaker_notes(data: bytes) -> str:
    """The notes of a PPTX file as Markdown, in the order of their files; "" if there are none. Raises `ToolError`."""
    texts: list[str] = []
    with zipfile.ZipFile(BytesIO(data)) as archive:
        parts = sorted((int(found[1]), name) for name in archive.namelist() if (found := _PART.fullmatch(name)))
        for _, name in parts:
            try:
                root = ElementTree.fromstring(archive.read(name))
            except ElementTree.ParseError as error:
                raise corrupt(f'Its part "{name}" is damaged: {error}') from None
            if text := _body(root):
                texts.append(text)
    return "".join(f"\n## Notes\n\n{text}\n" for text in texts)


def _body(root: ElementTree.Element) -> str:
    """The paragraphs of the notes' own shape; others hold the slide's number and picture."""
    for shape in root.iter(f"{_SHEET}sp"):
        place = shape.find(f".//{_SHEET}ph")
        if place is not None and place.get("type") == "body":
            paragraphs = ("".join(run.text or "" for run in p.iter(f"{_DRAWING}t")) for p in shape.iter(f"{_DRAWING}p"))
            return "\n\n".join(text for text in paragraphs if text.strip())
    return ""
