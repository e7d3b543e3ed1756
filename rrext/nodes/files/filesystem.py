"""`tool_filesystem`: the files below one directory, for agents and other callers that are not trusted with more; and the
encodings of their texts.
"""

from __future__ import annotations

import binascii
import codecs
import os
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final

import msgspec

from rrext.errors import InvalidArguments, ToolError, fold
from rrext.files.confinement import Confinement, FileInfo
from rrext.limits import KIB
from rrext.nodes.base.node import Switch
from rrext.nodes.files.offered_files import LIST_MAX, READ_MAX, OfferingNode, open_root
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

READ_DEFAULT: Final = 256 * KIB
"""Bytes that are read unless the caller names others."""

LIST_DEFAULT: Final = 1000
"""Entries that are listed unless the caller names others."""

READS = {"readOnlyHint": True}
WRITES = {"readOnlyHint": False, "destructiveHint": True}
ADDS = {"readOnlyHint": False, "destructiveHint": False}

ALLOW_WRITE = Switch("allow_write")
ALLOW_DELETE = Switch("allow_delete")
ALLOW_CREATE_DIRECTORY = Switch("allow_create_directory")


class FilesystemNode(OfferingNode):
    """Reads, and if allowed writes, the files below one directory. No path leads out of it.

    Paths are relative to `root`, with `/` between names. Absolute paths and `..` are refused, and symbolic links are never
    followed. Reading, listing and looking are always possible; each kind of change has a switch of its own, off by default.
    Tools that are switched off are not listed and cannot be called.
    """

    provider = "tool_filesystem"
    title = "File system"
    class_types = ("tool",)
    capabilities = ("filesystem",)

    paths = {"root": "folder"}
    paths_may_be_shared = True

    class Config:
        root: Annotated[
            str, "The directory. A relative one begins at --root, or else at the folder of the pipeline's file."
        ] = "."
        allow_write: Annotated[bool, "Let write_file create and replace files."] = False
        allow_delete: Annotated[bool, "Let delete_file remove files."] = False
        allow_create_directory: Annotated[bool, "Let create_directory make directories."] = False
        resources: Annotated[
            tuple[str, ...],
            "Patterns of the paths that are offered as resources to hosts (Model Context Protocol), and listed by list_files; "
            "* stands for any characters, / too.",
        ] = ()

    @classmethod
    def missing(cls, config: Any, path: Callable[[str], str]) -> Iterable[tuple[str, str]]:
        if not os.path.isdir(path(config.root)):
            yield "root", f'There is no folder "{config.root}".'

    @tool_function(group="files", annotations=READS)
    def read_file(
        self,
        path: str,
        encoding: str = "utf-8",
        maxBytes: Annotated[int, msgspec.Meta(ge=1, le=READ_MAX)] = READ_DEFAULT,
        offset: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = None,
    ) -> dict[str, Any]:
        """Read a file. Answers `{path, content, size}`, `size` being the file's bytes.

        A file of more than `maxBytes` is an error. With `offset` one part of a file of any size is read instead; the
        answer then has `nextOffset`, from which the next part can be read, null at the end of the file.

        Args:
            path: Path below the root, as `notes/today.md`.
            encoding: How the bytes become text; "base64" fits every file.
            maxBytes: How much is read at most, in bytes.
            offset: The byte to begin with, to read a file part by part.
        """
        encoding = known_encoding(encoding)
        with self._files() as files:
            if offset is not None:
                return _part(files, path, encoding, maxBytes, offset)
            data, size = files.read(path, limit=maxBytes + 1)
        if len(data) > maxBytes:
            raise ToolError(
                f'"{path}" has {size} bytes, more than maxBytes ({maxBytes})',
                code="file_too_large",
                hint=f'Raise "maxBytes" (up to {READ_MAX}), or read it part by part: begin with "offset": 0.',
                data={"size": size, "maxBytes": maxBytes},
            )
        return {"path": path, "content": decode(data, encoding, path=path)[0], "size": size}

    @tool_function(group="files", annotations=READS)
    def list_directory(
        self,
        path: str = ".",
        maxEntries: Annotated[int, msgspec.Meta(ge=1, le=LIST_MAX)] = LIST_DEFAULT,
        after: str = "",
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """List what stands in a directory, by name.

        Answers `{path, entries: [{name, type, size, modified}], count, truncated}`. `type` is file, dir, symlink or
        other; `size` is in bytes (files only); `modified` is in seconds since 1970.
        If `truncated`, there is more: call again with the last name as `after`.

        Args:
            path: Path below the root; the root itself if left out.
            maxEntries: How many are listed at most.
            after: List only names that come after this one.
        """
        with self._files() as files:
            found = files.listing(path, limit=maxEntries + 1, after=after, check=ctx.check)
        entries = [_entry(info) for info in found[:maxEntries]]
        return {"path": path, "entries": entries, "count": len(entries), "truncated": len(found) > maxEntries}

    @tool_function(group="files", annotations=READS)
    def stat_file(self, path: str) -> dict[str, Any]:
        """Say what a path leads to. Answers `{path, exists}` and, if something is there, `type`, `size` and `modified`.

        `type` is file, dir, symlink or other; `size` is in bytes (files only); `modified` is in seconds since 1970.

        Args:
            path: Path below the root.
        """
        with self._files() as files:
            info = files.info(path)
        return {"path": path, "exists": info is not None, **(_facts(info) if info is not None else {})}

    @tool_function(group="files", annotations=WRITES, available=ALLOW_WRITE)
    def write_file(self, path: str, content: str, encoding: str = "utf-8") -> dict[str, Any]:
        """Create a file, or replace all of it at once. Answers `{path, bytesWritten}`.

        Args:
            path: Path below the root; its directory must exist.
            content: The new content.
            encoding: How the content becomes bytes; "base64" if it is base64 of any bytes.
        """
        ALLOW_WRITE.require(self, "write_file")
        data = encode(content, known_encoding(encoding))
        with self._files() as files:
            files.write(path, data)
        return {"path": path, "bytesWritten": len(data)}

    @tool_function(group="files", annotations=WRITES, available=ALLOW_DELETE)
    def delete_file(self, path: str) -> dict[str, Any]:
        """Remove one file, for good. Directories are never removed. Answers `{path, deleted}`.

        Args:
            path: Path below the root.
        """
        ALLOW_DELETE.require(self, "delete_file")
        with self._files() as files:
            files.delete(path)
        return {"path": path, "deleted": True}

    @tool_function(group="files", annotations=ADDS, available=ALLOW_CREATE_DIRECTORY)
    def create_directory(self, path: str) -> dict[str, Any]:
        """Make a directory, and those above it that are missing. Answers `{path, created}`; false if it was there.

        Args:
            path: Path below the root.
        """
        ALLOW_CREATE_DIRECTORY.require(self, "create_directory")
        with self._files() as files:
            return {"path": path, "created": files.make_directory(path) > 0}

    def _files(self) -> Confinement:
        return open_root(self, self.config.root)


def _part(files: Confinement, path: str, encoding: str, limit: int, offset: int) -> dict[str, Any]:
    data, size = files.read(path, offset=offset, limit=limit + 1)
    is_end = len(data) <= limit
    content, used = decode(data[:limit], encoding, path=path, offset=offset, is_end=is_end)
    if data and not used:
        raise InvalidArguments.at("/input/maxBytes", "is less than one character takes")
    return {
        "path": path,
        "content": content,
        "size": size,
        "offset": offset,
        "nextOffset": None if is_end else offset + used,
    }


def _entry(info: FileInfo) -> dict[str, Any]:
    return {"name": info.name, **({} if info.addressable else {"addressable": False}), **_facts(info)}


def _facts(info: FileInfo) -> dict[str, Any]:
    size = {"size": info.size} if info.type == "file" else {}
    return {"type": info.type, **size, "modified": info.modified}


BASE64: Final = "base64"
ENCODINGS: Final = (
    "utf-8",
    "ascii",
    "latin-1",
    "cp1252",
    "utf-16-le",
    "utf-16-be",
    "shift_jis",
    "euc_jp",
    "euc_kr",
    "big5",
    "gb18030",
    BASE64,
)
"""Encodings whose text can be read from any character on: none keeps a state between characters or starts with a mark."""

_BY_FOLDED: Final = {fold(name): name for name in ENCODINGS}


def known_encoding(name: str) -> str:
    """The name in `ENCODINGS` for a caller's spelling (`UTF8`, `utf_8`). Raises `InvalidArguments`."""
    found = _BY_FOLDED.get(fold(name))
    if found is None:
        raise InvalidArguments.at("/input/encoding", f"is not one of {', '.join(ENCODINGS)}")
    return found


def decode(data: bytes, encoding: str, *, path: str, offset: int = 0, is_end: bool = True) -> tuple[str, int]:
    """Decode a piece of a file; return the text and the number of bytes it took.

    Unless `is_end`, a character that is cut off at the end is left out. Raises `ToolError` for bytes that are no text
    in this encoding; `path` and `offset` are for its message.
    """
    if encoding == BASE64:
        return binascii.b2a_base64(data, newline=False).decode("ascii"), len(data)
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    try:
        text = decoder.decode(data, final=is_end)
    except UnicodeDecodeError as error:
        raise ToolError(
            f'"{path}" is not {encoding} text: byte {offset + error.start} does not fit',
            code="wrong_encoding",
            hint='Read it with another "encoding"; "base64" fits every file.',
        ) from error
    return text, len(data) - len(decoder.getstate()[0])


def encode(text: str, encoding: str) -> bytes:
    """Encode a text. Raises `ToolError` for characters that the encoding lacks."""
    if encoding == BASE64:
        try:
            return binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
        except (binascii.Error, UnicodeEncodeError) as error:
            raise ToolError("content is not base64", code="wrong_encoding") from error
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        raise ToolError(
            f"content cannot be written as {encoding}: character {error.start} does not fit",
            code="wrong_encoding",
            hint='"utf-8" holds every text.',
        ) from error
