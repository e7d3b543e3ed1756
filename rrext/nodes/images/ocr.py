"""`ocr`: the text that is in pictures, by a model that comes with its package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final

import msgspec

from rrext.errors import Unavailable, near_matches
from rrext.nodes.images.pictures import ImageLimits, ImageNode
from rrext.nodes.images.records import PictureText, ReadText
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

READ: Final = ("latin", "latin-extended", "chinese-simplified", "chinese-traditional", "japanese")
"""The families of scripts that the model has the letters of; it has Greek ones too."""

PROFILES: Final = (*READ, "cyrillic", "arabic", "devanagari", "korean", "doctr", "surya", "trocr")
"""RocketRide's profiles; the last three name engines, which read Latin letters."""

OUTPUT_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "The text, line by line; the frames of a picture one after the other."},
        "tables": {"type": "array", "items": {"type": "string"}, "description": "What stands there as tables, as Markdown."},
        "frames": {"type": "integer"},
        "read": {"type": "integer", "description": "How many of the frames were read."},
    },
    "required": ["text", "tables", "frames", "read"],
    "additionalProperties": False,
}


def _profile(name: str) -> dict[str, Any]:
    return {"script_family": name if name not in ("doctr", "surya", "trocr") else "latin"}


class OcrNode(ImageNode):
    """Reads the text in pictures: photos of signs, screenshots, scanned pages.

    A small model on the processor (PP-OCRv6 by RapidOCR, which comes with the package) finds lines and reads them. Text goes
    out line by line; what stands in columns below each other also goes out on `table`, as Markdown. Documents of type `Image`
    also become documents of their text. A picture without text is no failure, and nothing goes out of it. Of a picture with
    several frames each is read.

    Pictures are read in processes of their own with bounded memory, shut off from files and the network where the kernel can do
    that, and killed at `timeout` and after a cancel.
    """

    provider = "ocr"
    title = "OCR"
    class_types = ("image", "tool")
    lanes = {"documents": ("text", "documents"), "image": ("text", "table")}
    extra = "ocr"
    packages = ("rapidocr", "onnxruntime")
    reads_text = True
    profiles = {name: _profile(name) for name in PROFILES}
    default_profile = "latin"

    class Config(ImageLimits):
        script_family: Annotated[
            str, "The script of the texts: latin, latin-extended, chinese-simplified, chinese-traditional or japanese."
        ] = "latin"
        engine: Annotated[str, "RocketRide's name of an engine. Here there is one, whatever this says."] = ""
        table_engine: Annotated[str, "RocketRide's name of an engine for tables. Here there is one, whatever this says."] = ""
        score: Annotated[float, msgspec.Meta(ge=0, le=1), "Lines that the model is less sure of are left out."] = 0.5
        maxFrames: Annotated[int, msgspec.Meta(ge=1), "Frames of a picture that are read, as pages of a TIFF."] = 100
        memory: Annotated[int, msgspec.Meta(ge=1024), "MiB of address space of a reading process; it uses some 500."] = 4096

    @classmethod
    def missing(cls, config: Any, path: Callable[[str], str]) -> Iterable[tuple[str, str]]:
        if config.script_family not in READ:
            yield "script_family", _unread(config.script_family)

    @tool_function(output_schema=OUTPUT_SCHEMA, annotations={"readOnlyHint": True, "openWorldHint": False})
    def read_image(self, content_base64: Annotated[str, msgspec.Meta(min_length=1)], *, ctx: ToolContext) -> dict[str, Any]:
        """Read the text in a picture, which is given in base64: PNG, JPEG, WebP, GIF, TIFF or BMP.

        Args:
            content_base64: The picture; white space is left out, as between lines.
        """
        return msgspec.to_builtins(self._read(self._decoded(content_base64), ctx))

    def _picture(self, data: bytes, ctx: ToolContext) -> None:
        found = self._read(data, ctx)
        if found.text:
            self.emit("text", found.text)
        for table in found.tables:
            self.emit("table", table)

    def _document(self, document: Mapping[str, Any], data: bytes, ctx: ToolContext) -> None:
        found = self._read(data, ctx)
        if found.text:
            self.emit("text", found.text)
            self.emit("documents", [{**document, "type": "Document", "page_content": found.text}])

    def _read(self, data: bytes, ctx: ToolContext) -> PictureText:
        config = self.config
        if config.script_family not in READ:
            raise Unavailable(_unread(config.script_family))
        request = ReadText(data, config.maxPixels, config.maxFrames, config.score)
        return msgspec.json.decode(self._ask(request, ctx), type=PictureText)


def _unread(family: str) -> str:
    near = near_matches(family, READ)
    hint = f' Did you mean "{near[0]}"?' if near else f" It reads {', '.join(READ)}."
    return f'The model that comes with the package has no letters of "{family}".{hint}'
