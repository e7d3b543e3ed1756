"""What the nodes for pictures share: the settings, the bytes that come piece by piece, and the processes that read pictures."""

from __future__ import annotations

import binascii
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, ClassVar, Final

import msgspec

from rrext.errors import ToolError, Unavailable
from rrext.limits import MIB
from rrext.nodes.base.lanes import Media
from rrext.nodes.base.node import Entry, Node
from rrext.nodes.base.setup import missing_packages
from rrext.nodes.child.pool import ReaderPool, ReaderProcess
from rrext.nodes.child.process import ChildRequest, module_command
from rrext.nodes.documents.split import ChunkMaker
from rrext.nodes.images.records import LoadLibraries, PictureSettings, too_large
from rrext.threads import FEW_HEAPS
from rrext.tools.context import ToolContext

START_TIMEOUT: Final = 60.0
"""Seconds for a process to load its libraries, and the model for text; a loaded machine needs a dozen."""

ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **FEW_HEAPS}
"""A thread that starts with a library would stay outside of the walls of its process; processes read in parallel."""


class ImageLimits:
    """The settings of all nodes for pictures."""

    maxBytes: Annotated[int, msgspec.Meta(ge=1), "Bytes of a picture. It is held in memory."] = 32 * MIB
    maxPixels: Annotated[int, msgspec.Meta(ge=1), "Pixels of a picture, or of a frame; a photo has 12 to 50 million."] = (
        64_000_000
    )
    timeout: Annotated[float, msgspec.Meta(gt=0), "Seconds that reading a picture may take."] = 60.0
    processes: Annotated[int, msgspec.Meta(ge=1, le=64), "How many pictures are read at a time, each in a process."] = 2


class ImageNode(Node):
    """The base of the nodes for pictures: `_picture` takes a whole one of the lane `image`, `_document` one of a document."""

    class_types = ("image",)
    extra: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    reads_text: ClassVar[bool] = False
    shared: PictureReader
    config: Any

    @classmethod
    def unavailable(cls) -> str | None:
        return missing_packages(cls.extra, *cls.packages)

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any) -> AsyncIterator[PictureReader]:
        """Make the reader for all objects; its first process starts at the first picture."""
        reader = PictureReader(config.processes, config.memory * MIB, reads_text=cls.reads_text)
        try:
            yield reader
        finally:
            reader.close()

    def open(self, entry: Entry) -> None:
        self._chunks = ChunkMaker(entry, self.node_id)
        self._data = bytearray()

    def write_image(self, media: Media, ctx: ToolContext) -> None:
        if media.action == "begin":
            self._data.clear()
        elif media.action == "write":
            self._check_size(len(self._data) + len(media.data))
            self._data += media.data
        else:
            data, self._data = bytes(self._data), bytearray()
            self._picture(data, ctx)

    def write_documents(self, documents: list[dict[str, Any]], ctx: ToolContext) -> None:
        for number, document in enumerate(documents):
            self._document(document, self._bytes_of(document, number), ctx)

    def _picture(self, data: bytes, ctx: ToolContext) -> None:
        raise NotImplementedError

    def _document(self, document: Mapping[str, Any], data: bytes, ctx: ToolContext) -> None:
        raise NotImplementedError

    def _ask(self, request: ChildRequest, ctx: ToolContext) -> bytes:
        """The answer of a reading process to a request."""
        missing = self.unavailable()
        if missing is not None:
            raise Unavailable(missing)
        return self.shared.ask(request, self.config.timeout, ctx)

    def _bytes_of(self, document: Mapping[str, Any], number: int) -> bytes:
        if document.get("type") != "Image":
            raise ToolError(
                f'Document {number} is of type "{document.get("type")}", and node "{self.node_id}" takes those of type "Image"',
                code="document_not_image",
                hint="Wire texts past this node.",
            )
        return self._decoded(str(document.get("page_content") or ""))

    def _decoded(self, encoded: str) -> bytes:
        encoded = "".join(encoded.split())  # lines, as `base64` and MIME write them
        self._check_size(len(encoded) * 3 // 4)
        try:
            return binascii.a2b_base64(encoded, strict_mode=True)
        except (binascii.Error, ValueError):
            raise ToolError("The picture is no base64", code="image_corrupt") from None

    def _check_size(self, size: int) -> None:
        if size > self.config.maxBytes:
            raise too_large(
                f"The picture has more than {self.config.maxBytes:,} bytes (maxBytes)",
                hint=f'Raise "maxBytes" of node "{self.node_id}".',
            )


class PictureProcess(ReaderProcess):
    """A process that reads one picture after the other."""

    noun = "picture"
    kind = "image"
    library = "library"
    smaller = "send it smaller"
    loading = LoadLibraries
    start_timeout = START_TIMEOUT
    start_hint = 'Look whether "memory" of the node is enough.'

    def __init__(self, memory: int, *, reads_text: bool) -> None:
        """Start the process, with `memory` bytes of address space at most. Raises `Unavailable`."""
        super().__init__(
            module_command("rrext.nodes.images.worker"),
            PictureSettings(memory, reads_text),
            what="a reader of pictures",
            crash=("image_crashed", ""),
            closed="The pipeline ends",
            variables=ONE_THREAD,
        )


class PictureReader(ReaderPool[PictureProcess]):
    """Reads pictures in up to `processes` processes; `memory` is the address space of each in bytes."""

    def __init__(self, processes: int, memory: int, *, reads_text: bool) -> None:
        super().__init__(lambda: PictureProcess(memory, reads_text=reads_text), processes, memory)
