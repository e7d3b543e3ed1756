"""The result of a tool as the protocol's content: text, an image, sound, or a resource of bytes."""

from __future__ import annotations

from binascii import b2a_base64
from typing import Final

import msgspec

from rrext.errors import InvalidArguments, RrextError
from rrext.wire.codec import encode_own, quote
from rrext.wire.wire_error import wire_error

_BODY: Final = len(b'{"result":')

ERROR_KEY: Final = "rrext/error"
"""The member of `_meta` with the code, the hint and the data of a tool's error."""

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


def content_of(body: bytes, *, wraps: bool) -> bytes:
    """The members `content` and `structuredContent` of a result, encoded; `body` is the encoded `{"result": …}` of the call.

    A string is its own text, any other value its JSON. Structured content is an object, as versions up to 2025-11-25 require:
    a value that is none, and any value of a tool that `wraps`, stays in its `{"result": …}`.
    """
    value = body[_BODY:-1]
    first = value[:1]
    text = value if first == b'"' else encode_own(str(value, "utf-8"))
    structured = value if first == b"{" and not wraps else body
    return b'"content":[{"type":"text","text":%b}],"structuredContent":%b' % (text, structured)


def content_of_bytes(data: bytes) -> bytes:
    """The member `content` of a result that consists of bytes, encoded."""
    encoded = b2a_base64(data, newline=False)
    mime = mime_type_of(data)
    kind = mime.partition("/")[0]
    if kind in ("image", "audio"):
        return b'"content":[{"type":"%b","data":"%b","mimeType":"%b"}]' % (kind.encode(), encoded, mime.encode())
    resource = b'{"uri":"rrext:result","mimeType":"%b","blob":"%b"}' % (mime.encode(), encoded)
    return b'"content":[{"type":"resource","resource":%b}]' % resource


def content_of_error(error: RrextError) -> bytes:
    """The members of a result that tells a model about a failure, so that it can do better."""
    parts = wire_error(error)
    text = parts.message
    if isinstance(error, InvalidArguments) and len(problems := parts.data.get("errors", ())) > 1:
        text = "\n".join(f"{problem['path']}: {problem['message']}" for problem in problems)
    if parts.hint is not None and parts.hint not in text:
        text = f"{text} ({parts.hint})"
    meta = encode_own({ERROR_KEY: {name: value for name, value in msgspec.structs.asdict(parts).items() if value}})
    return b'"content":[{"type":"text","text":%b}],"isError":true,"_meta":%b' % (quote(text), meta)


def mime_type_of(data: bytes) -> str:
    """The MIME type of the formats that hosts show; `application/octet-stream` for others."""
    for signature, offset, more, mime in _SIGNATURES:
        if data.startswith(signature) and data.startswith(more, offset):
            return mime
    return "application/octet-stream"
