"""Finds the id of an unreadable request, so that its caller does not wait for ever.

The start of the body is taken apart into tokens. Text is never searched: an `"id"` inside a string or a nested object is not
the id of the message. The content of strings is ignored, and may be bad UTF-8. Where the structure is broken or cut off, the
search ends with the members found so far.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from rrext.wire.codec import Bytes
from rrext.wire.dialect import Members
from rrext.wire.messages import MAX_ID

_WANTED = frozenset({"id", "seq", "request_seq", "jsonrpc"})

_TOKEN = re.compile(rb'[ \t\r\n]*+("(?:[^"\\]|\\.)*+"|["{}\[\]:,]|[^ \t\r\n{}\[\]:,"]++)', re.DOTALL)
"""A string, a mark of structure (a lone quote begins a string that is cut off), or a run of anything else."""

_INTEGER = re.compile(rb"-?(?:0|[1-9][0-9]{0,15})")
_CLOSES = {b"{": b"}", b"[": b"]"}


def recover_members(start: Bytes) -> Members:
    """The members `id`, `seq`, `request_seq` and `jsonrpc` of an object. Never raises.

    The input may end anywhere; a member counts only if a token follows it. Of duplicate keys the last one counts.
    """
    found: Members = {}
    tokens = _tokens(bytes(start))
    if next(tokens, None) != b"{":
        return found
    for token in tokens:
        name = _string(token)
        if name is None or next(tokens, None) != b":":
            break
        value = next(tokens, b"")
        if not _skip_value(value, tokens):
            break
        after = next(tokens, b"")
        if after not in (b",", b"}"):
            break
        if name in _WANTED:
            found[name] = _usable(value)
        if after == b"}":
            break
    return found


def _tokens(text: bytes) -> Iterator[bytes]:
    for match in _TOKEN.finditer(text):
        token = match[1]
        if token == b'"':
            return
        yield token


def _skip_value(first: bytes, tokens: Iterator[bytes]) -> bool:
    """Skip a value, reading only strings and brackets; False if the value is incomplete."""
    if first not in _CLOSES:
        return first not in (b"", b"}", b"]", b":", b",")
    closes = [_CLOSES[first]]
    for token in tokens:
        if token in _CLOSES:
            closes.append(_CLOSES[token])
        elif token in (b"}", b"]"):
            if token != closes.pop():
                return False
            if not closes:
                return True
    return False


def _string(token: bytes) -> str | None:
    try:
        return msgspec.json.decode(token, type=str)
    except ValueError:
        return None


def _usable(token: bytes) -> int | str | None:
    if _INTEGER.fullmatch(token):
        number = int(token)
        return number if -MAX_ID <= number <= MAX_ID else None
    return _string(token)
