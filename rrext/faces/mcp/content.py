"""The result of a tool, and its failure, as members of a result of the protocol."""

from __future__ import annotations

from typing import Final

import msgspec

from rrext.content import are_blocks
from rrext.errors import InvalidArguments, RrextError
from rrext.wire.codec import encode_own, quote
from rrext.wire.dialect import wire_error

_BODY: Final = len(b'{"result":{')

ERROR_KEY: Final = "rrext/error"
"""The member of `_meta` with the code, the hint and the data of a tool's error."""


def content_of(body: bytes) -> bytes:
    """The members of a result, encoded; `body` is the encoded `{"result": {"content": …}}` of a call with `content: true`."""
    return body[_BODY:-2]


def content_of_error(error: RrextError) -> bytes:
    """The members of a result that tells a model about a failure, so that it can do better. Blocks in `data.content` are what
    the tool itself said.
    """
    parts = wire_error(error)
    data = dict(parts.data)
    blocks = data.pop("content", None)
    if are_blocks(blocks):
        said = {key: data.pop(key) for key in ("structuredContent", "_meta") if isinstance(data.get(key), dict)}
        about = {name: value for name, value in {**msgspec.structs.asdict(parts), "data": data}.items() if value}
        said["_meta"] = {**said.get("_meta", {}), ERROR_KEY: about}
        return encode_own({"content": blocks, **said, "isError": True})[1:-1]
    text = parts.message
    if isinstance(error, InvalidArguments) and len(problems := parts.data.get("errors", ())) > 1:
        text = "\n".join(f"{problem['path']}: {problem['message']}" for problem in problems)
    if parts.hint is not None and parts.hint not in text:
        text = f"{text} ({parts.hint})"
    meta = encode_own({ERROR_KEY: {name: value for name, value in msgspec.structs.asdict(parts).items() if value}})
    return b'"content":[{"type":"text","text":%b}],"isError":true,"_meta":%b' % (quote(text), meta)
