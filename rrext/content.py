"""`Content`: the result of a tool as blocks of the Model Context Protocol: texts, images, sounds, resources and links."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import msgspec

from rrext.errors import ToolError

Block = Mapping[str, Any]

NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource": ("resource",),
    "resource_link": ("uri", "name"),
}
"""Type of a block → the members that the protocol demands beside it."""

_SIGNATURES: Final[tuple[tuple[bytes, int, bytes, str], ...]] = (
    (b"\x89PNG\r\n\x1a\n", 0, b"", "image/png"),
    (b"\xff\xd8\xff", 0, b"", "image/jpeg"),
    (b"GIF8", 0, b"", "image/gif"),
    (b"RIFF", 8, b"WEBP", "image/webp"),
    (b"RIFF", 8, b"WAVE", "audio/wav"),
    (b"ID3", 0, b"", "audio/mpeg"),
    (b"OggS", 0, b"", "audio/ogg"),
    (b"fLaC", 0, b"", "audio/flac"),
)
"""The first bytes of a format, an offset with further bytes of it, and its MIME type (the registered signatures)."""


@final
class Content:
    """A result of several blocks: `Content("Sales by month:", png, Content.link("file:///sales.csv"))`.

    A text is a block of text; bytes are an image or a sound by their first bytes, else a resource of bytes; a mapping is a
    block of the Model Context Protocol, with its annotations and all else that it has. `structured` is the result for
    programs, `meta` the `_meta` of the result. Raises `ValueError` for a mapping that is no block.
    """

    __slots__ = ("blocks", "meta", "structured")

    def __init__(self, *blocks: str | bytes | Block, structured: Any = msgspec.UNSET, meta: Block | None = None) -> None:
        self.blocks: Sequence[Any] = [block_of(block) for block in blocks]
        self.structured: Any = structured
        self.meta: Block | None = meta

    @classmethod
    def of_members(cls, members: Mapping[str, Any]) -> Content:
        """The content of a result as a server sent it: `{content, structuredContent?, _meta?}`."""
        found = cls(structured=members.get("structuredContent", msgspec.UNSET), meta=members.get("_meta"))
        found.blocks = members.get("content") or []
        return found

    @staticmethod
    def link(uri: str, name: str = "", **more: Any) -> dict[str, Any]:
        """A link to a resource; its name is the last part of the URI if none is given."""
        return {"type": "resource_link", "uri": uri, "name": name or uri.rstrip("/").rpartition("/")[2], **more}

    @property
    def members(self) -> dict[str, Any]:
        """`{content, structuredContent?, _meta?}`."""
        found: dict[str, Any] = {"content": self.blocks}
        if self.structured is not msgspec.UNSET:
            found["structuredContent"] = self.structured
        return found if self.meta is None else {**found, "_meta": self.meta}

    @property
    def value(self) -> Any:
        """The result for callers that ask for no blocks. Raises `ToolError` for an image, sound or blob that is no base64.

        It is the structured result, if the blocks are texts, which say the same; a single text; the bytes of a single image,
        sound or resource; else `{content, structuredContent?}`.
        """
        blocks = self.blocks
        if self.structured is not msgspec.UNSET:
            if all(map(_is_text, blocks)):
                return self.structured
            return {"structuredContent": self.structured, "content": blocks}
        if len(blocks) == 1:
            if _is_text(blocks[0]):
                return blocks[0]["text"]
            packed = _packed(blocks[0])
            if packed is not None:
                try:
                    return b64decode(packed, validate=True)
                except (binascii.Error, ValueError):
                    raise ToolError(f"The {blocks[0]['type']} of the result is no base64") from None
        return {"content": blocks}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Content) and self.members == other.members

    def __hash__(self) -> int:
        raise TypeError("a Content has no hash")

    def __repr__(self) -> str:
        return f"<Content of {len(self.blocks)} blocks>"


def are_blocks(value: object) -> bool:
    """Whether a value is a list of blocks."""
    return isinstance(value, list) and all(isinstance(each, dict) and isinstance(each.get("type"), str) for each in value)


def block_of(block: str | bytes | Block) -> dict[str, Any]:
    """A block of what stands for one. Raises `ValueError`."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if isinstance(block, bytes | bytearray | memoryview):
        return msgspec.json.decode(block_of_bytes(bytes(block)))
    kind = block.get("type") if isinstance(block, Mapping) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if not isinstance(kind, str):
        raise ValueError(f'a block of content is a text, bytes, or a mapping with a "type", not {type(block).__name__}')
    missing = [name for name in NEEDED.get(kind, ()) if name not in block]
    if missing:
        raise ValueError(f'a block of the type "{kind}" has no {" and no ".join(missing)}')
    return dict(block)


def block_of_bytes(data: bytes) -> bytes:
    """The block of bytes, encoded: an image or a sound, if they are one, else a resource."""
    encoded = b64encode(data)
    mime = media_type_of(data)
    kind = mime.partition("/")[0]
    if kind in ("image", "audio"):
        return b'{"type":"%b","data":"%b","mimeType":"%b"}' % (kind.encode(), encoded, mime.encode())
    return b'{"type":"resource","resource":{"uri":"rrext:result","mimeType":"%b","blob":"%b"}}' % (mime.encode(), encoded)


def encoded_content(value: bytes, *, wraps: bool) -> bytes:
    """`{content, structuredContent}` of an encoded JSON value, encoded: a string is its own text, any other value its JSON."""
    text = value if value[:1] == b'"' else msgspec.json.encode(str(value, "utf-8"))
    return b'{"content":[{"type":"text","text":%b}],"structuredContent":%b}' % (text, encoded_structure(value, wraps=wraps))


def encoded_structure(value: bytes, *, wraps: bool) -> bytes:
    """Structured content, which is an object, as versions up to 2025-11-25 require: a value that is none, and any value of a
    tool that `wraps`, is `{result: value}`.
    """
    return value if value[:1] == b"{" and not wraps else b'{"result":%b}' % value


def media_type_of(data: bytes) -> str:
    """The MIME type of the formats that hosts show; `application/octet-stream` for others."""
    for signature, offset, more, mime in _SIGNATURES:
        if data.startswith(signature) and data.startswith(more, offset):
            return mime
    return "application/octet-stream"


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)


def _packed(block: Any) -> str | None:
    """The base64 of a block that consists of bytes."""
    if not isinstance(block, dict):
        return None
    packed: Any = block.get("data") if block.get("type") in ("image", "audio") else None
    if block.get("type") == "resource" and isinstance(block.get("resource"), dict):
        packed = block["resource"].get("blob")
    return packed if isinstance(packed, str) else None
