"""`parse`: files become text and tables, in processes that are kept warm, get one document at a time, and are killed when
one will not end.

Why processes: kreuzberg lets other threads run while it works, but it cannot be stopped. Measured with a PDF of 1 MB that
unpacks to 370 MB: when its own time limit had passed, its threads went on with a full core and 1.7 GB; and where memory
has a limit, reaching it ends the process. An untrusted document must not do that to the server.
"""

from __future__ import annotations

import binascii
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, Literal

import msgspec

from rrext.errors import InvalidArguments, Unavailable
from rrext.nodes.base.lanes import Media, Tag
from rrext.nodes.base.node import Entry
from rrext.nodes.base.setup import missing_packages
from rrext.nodes.child.pool import ReaderPool, ReaderProcess
from rrext.nodes.child.process import module_command
from rrext.nodes.documents.records import DocumentRequest, LoadParser, ParsedDocument, ReadDocument, ReaderSettings, too_large
from rrext.nodes.files.offered_files import OfferingNode, open_root
from rrext.threads import FEW_HEAPS
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

MIB = 1024 * 1024

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "The whole document as Markdown, its tables too; plain text as it is."},
        "tables": {"type": "array", "items": {"type": "string"}, "description": "Each table alone, as Markdown."},
        "metadata": {"type": "object", "description": "What the file says of itself: title, author, pages …"},
        "mime_type": {"type": "string", "description": "What the file really is, whatever it is called."},
    },
    "required": ["text", "tables", "metadata", "mime_type"],
    "additionalProperties": False,
}


class ParseNode(OfferingNode):
    """Reads documents: PDF, Word, Excel, PowerPoint, OpenDocument, EPUB, RTF, HTML, e-mail, Markdown, CSV and plain text.

    Text goes out as Markdown, each table also alone on `table`. The file's own metadata (title, author, pages …) and its true
    MIME type become metadata of the object; metadata of the client stays. A document that cannot be read fails its object with
    the reason. Tables of PDFs stay text. If a node takes them, pictures go out on `image`: those in Office files, EPUBs and
    PDFs, such as scanned pages, each once, and pictures that are sent themselves.

    Reading happens in processes of its own with bounded memory, shut off from files and TCP where the kernel can do that,
    and killed at `timeout` and after a cancel; so a document can neither stall nor break the server.
    """

    provider = "parse"
    title = "Parse"
    class_types = ("data", "tool")
    lanes = {"tags": ("text", "table", "image")}
    shared: DocumentReader

    paths = {"root": "folder"}

    class Config:
        tables: Annotated[
            Literal["both", "apart"], 'Where tables go: "both" leaves them in the text too, "apart" takes them out of it.'
        ] = "both"
        root: Annotated[str, "The directory whose files parse_document may read; empty: none, only what it is given."] = ""
        resources: Annotated[
            tuple[str, ...],
            "Patterns of the paths below root whose text is offered as resources to hosts (Model Context Protocol), and which "
            "list_files lists; * stands for any characters, / too.",
        ] = ()
        maxBytes: Annotated[int, "Bytes of a document. It is held in memory, and reading takes a multiple."] = 64 * MIB
        maxUnpacked: Annotated[
            int, "Bytes that an Office file or EPUB may unpack to; a bomb has thousands of times its size."
        ] = 256 * MIB
        maxCharacters: Annotated[int, "Characters that may come of a document; a book has a million."] = 10_000_000
        maxImages: Annotated[int, msgspec.Meta(ge=1), "Pictures that may come of a document."] = 1000
        timeout: Annotated[float, "Seconds that reading a document may take; most take milliseconds."] = 60.0
        memory: Annotated[int, "MiB of address space of a reading process; with less than 192 none starts."] = 2048
        processes: Annotated[int, "How many documents are read at a time, each in a process that is kept."] = 2
        charset: Annotated[
            str, "The charset of texts that neither are UTF-8 nor say theirs, as windows-1252; empty: what their bytes show."
        ] = ""
        allowEmpty: Annotated[
            bool, "Let documents without any text pass, as scans; else they fail, as nobody could find them. Empty files pass."
        ] = False

    @classmethod
    def unavailable(cls) -> str | None:
        return missing_packages("docs", "kreuzberg")

    @classmethod
    def missing(cls, config: Any, path: Callable[[str], str]) -> Iterable[tuple[str, str]]:
        if config.root and not os.path.isdir(path(config.root)):
            yield "root", f'There is no folder "{config.root}".'
        if config.resources and not config.root:
            yield "resources", 'The files are offered from the folder "root", which is not set.'

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any) -> AsyncIterator[DocumentReader]:
        """Make the reader for all objects; its first process starts at the first document."""

        reader = DocumentReader(processes=max(config.processes, 1), memory=config.memory * MIB)
        try:
            yield reader
        finally:
            reader.close()

    def open(self, entry: Entry) -> None:
        self._entry = entry
        self._data = bytearray()
        if entry.size is not None:
            self._check_size(entry.size)

    def write_tags(self, tag: Tag, ctx: ToolContext) -> None:
        if tag.kind == "begin":
            self._data.clear()
        elif tag.kind == "data":
            self._check_size(len(self._data) + len(tag.data))
            self._data += tag.data
        else:
            data, self._data = bytes(self._data), bytearray()
            parsed = self._read(data, self._entry.name, self._entry.mime_type, ctx)
            for name, value in {"mimeType": parsed.mime_type, **parsed.metadata}.items():
                self._entry.metadata.setdefault(name, value)
            self._send(parsed)

    @tool_function(output_schema=OUTPUT_SCHEMA, annotations={"readOnlyHint": True, "openWorldHint": False})
    def parse_document(
        self,
        path: Annotated[str, msgspec.Meta(min_length=1)] | None = None,
        content_base64: str | None = None,
        name: str = "",
        mime_type: str = "",
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Read one document: a file below the node's `root`, or bytes that are given. Exactly one of the two.

        Args:
            path: Path below the root.
            content_base64: The document itself, in base64.
            name: The file's name; its extension helps to tell text formats apart. Of a path, it is known.
            mime_type: The type, if it is known. What the bytes are without doubt wins.
        """
        if (path is None) == (content_base64 is None):
            raise InvalidArguments.at("/input", 'expected either "path" or "content_base64"')
        data = self._file(path) if path is not None else _decoded(content_base64 or "")
        self._check_size(len(data))
        parsed = self._read(data, name or os.path.basename(path or ""), mime_type, ctx)
        return {
            "text": "".join(piece.content for piece in parsed.pieces),
            "tables": [piece.content for piece in parsed.pieces if piece.kind == "table"],
            "metadata": parsed.metadata,
            "mime_type": parsed.mime_type,
        }

    def _file(self, path: str) -> bytes:
        if not self.config.root:
            raise Unavailable(
                f'Node "{self.node_id}" may read no files', hint='The operator has to set "root"; or send "content_base64".'
            )
        with open_root(self, self.config.root) as files:
            data, size = files.read(path, limit=self.config.maxBytes + 1)
        self._check_size(size)
        return data

    def _read(self, data: bytes, name: str, mime_type: str, ctx: ToolContext) -> ParsedDocument:
        wants_images = self.is_heard("image")
        missing = self.unavailable() or (missing_packages("docs", "pypdfium2", "PIL") if wants_images else None)
        if missing is not None:
            raise Unavailable(missing)
        config = self.config
        request = DocumentRequest(
            name=name,
            mime_type=mime_type,
            max_characters=config.maxCharacters,
            max_unpacked=config.maxUnpacked,
            allow_empty=config.allowEmpty,
            timeout=config.timeout,
            charset=config.charset,
            images=wants_images,
            max_images=config.maxImages,
        )
        return self.shared.read(data, request, ctx)

    def _send(self, parsed: ParsedDocument) -> None:
        """Send text and tables in reading order, so that receivers know the headings above a table."""
        takes_out = self.config.tables == "apart"
        for piece in parsed.pieces:
            if piece.kind == "text" or not takes_out:
                self.emit("text", piece.content)
            if piece.kind == "table":
                self.emit("table", piece.content)
        for image in parsed.images:
            mime = image.mime_type
            for media in (Media("begin", mime), Media("write", mime, image.data), Media("end", mime)):
                self.emit("image", media)

    def _check_size(self, size: int) -> None:
        if size > self.config.maxBytes:
            raise too_large(
                f"The document has more than {self.config.maxBytes:,} bytes (maxBytes)",
                hint=f'Raise "maxBytes" of node "{self.node_id}", or send it in parts.',
            )


def _decoded(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True) if text else b""
    except (binascii.Error, ValueError):
        raise InvalidArguments.at("/input/content_base64", "expected base64 (RFC 4648, with padding)") from None


START_TIMEOUT: Final = 30.0
"""Seconds for the process to start; a loaded machine needs a few."""


class DocumentProcess(ReaderProcess):
    """A process that reads one document after the other."""

    noun = "document"
    kind = "document"
    library = "parser"
    smaller = "send it in parts"
    loading = LoadParser
    start_timeout = START_TIMEOUT
    start_hint = 'Look whether "import kreuzberg" works, and whether "memory" of the node is enough.'

    def __init__(self, memory: int) -> None:
        """Start the process, with `memory` bytes of address space at most. Raises `Unavailable`."""
        super().__init__(
            module_command("rrext.nodes.documents.worker"),
            ReaderSettings(memory),
            what="a document reader",
            crash=("document_crashed", ""),
            closed="The pipeline ends",
            variables=FEW_HEAPS,  # each arena takes address space, which is limited
        )


class DocumentReader(ReaderPool[DocumentProcess]):
    """Reads documents in up to `processes` processes; `memory` is the address space of each in bytes."""

    def __init__(self, *, processes: int, memory: int) -> None:
        super().__init__(lambda: DocumentProcess(memory), processes, memory)

    def read(self, data: bytes, request: DocumentRequest, ctx: ToolContext) -> ParsedDocument:
        """Read one document. Raises `ToolError` with the reason, and the error of `ctx.check` for a cancelled call.

        `request.timeout` begins when a process is free for it.
        """
        return msgspec.json.decode(self.ask(ReadDocument(data, request), request.timeout, ctx), type=ParsedDocument)
