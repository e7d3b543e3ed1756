"""`thumbnail`: small pictures of pictures."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from rrext.nodes.base.lanes import Media
from rrext.nodes.images.pictures import ImageLimits, ImageNode
from rrext.nodes.images.records import MakeThumbnail
from rrext.tools.context import ToolContext

PNG = "image/png"


class ThumbnailNode(ImageNode):
    """Makes a small PNG of each picture, by default of 128 × 128 pixels at most, upright, without what cameras write into it.

    A picture goes out on `image`, and as a document of type `Image`, with the picture in base64. Documents of that type keep
    their metadata. Pictures are read in processes of their own with bounded memory, shut off from files and the network where
    the kernel can do that.
    """

    provider = "thumbnail"
    title = "Thumbnail"
    lanes = {"image": ("documents", "image"), "documents": ("documents",)}
    extra = "images"
    packages = ("PIL",)

    class Config(ImageLimits):
        size: Annotated[int, msgspec.Meta(ge=1, le=4096), "Pixels of the longer side at most."] = 128
        memory: Annotated[int, msgspec.Meta(ge=192), "MiB of address space of a reading process."] = 1024

    def _picture(self, data: bytes, ctx: ToolContext) -> None:
        small = self._thumbnail(data, ctx)
        if self.is_heard("documents"):
            self.emit("documents", [self._chunks.of_picture(_encoded(small))])
        if self.is_heard("image"):
            for media in (Media("begin", PNG), Media("write", PNG, small), Media("end", PNG)):
                self.emit("image", media)

    def _document(self, document: Mapping[str, Any], data: bytes, ctx: ToolContext) -> None:
        self.emit("documents", [{**document, "page_content": _encoded(self._thumbnail(data, ctx))}])

    def _thumbnail(self, data: bytes, ctx: ToolContext) -> bytes:
        request = MakeThumbnail(data, self.config.size, self.config.maxPixels)
        return msgspec.json.decode(self._ask(request, ctx), type=bytes)


def _encoded(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")
