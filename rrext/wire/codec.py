"""Strict JSON: nothing is read that is no JSON, nothing is written that JSON cannot hold."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, Final, TypeAlias, TypeVar, cast

import msgspec

from rrext.errors import ParseError, RrextError, Unavailable
from rrext.limits import MIB, READ_BUFFER, memory_limits

Bytes: TypeAlias = bytes | bytearray | memoryview
E = TypeVar("E")

IS_MEMORY_BOUNDED: Final = bool(memory_limits())
MOST_PER_BYTE: Final = 32
"""Bytes of memory that a byte of JSON takes at most: an empty object in a list has three, and 96 of memory."""
PER_QUOTE: Final = 32
"""Bytes of memory for half a string, beside its characters."""
PER_VALUE: Final = 128
"""Bytes of memory for a container or a number, and its place in another one while that grows."""

_decode = msgspec.json.Decoder().decode

encode_own = msgspec.json.Encoder().encode
"""JSON of a value that rrext itself made of strings, whole numbers and containers: `encode` without its check."""


def decode(body: Bytes) -> Any:
    """The value of a JSON text; of equal keys the last one counts.

    Raises `ParseError` for bytes that are not UTF-8 or not JSON (NaN, Infinity and lone surrogates), or nested too deeply.
    """
    try:
        return _decode(body)
    except RecursionError:
        raise ParseError("the body is nested too deeply") from None
    except ValueError as error:
        if isinstance(error, UnicodeDecodeError) or "UTF-8" in str(error):  # as msgspec says it before 0.23, and since
            raise ParseError(f"the body is not UTF-8{_where(body)}") from None
        reason = "it is empty" if not len(body) else str(error)
        raise ParseError(f"the body is not JSON: {reason}") from None


def no_memory() -> Unavailable:
    """The error of a message for which there is no memory."""
    return Unavailable(
        "no memory is left for this message", hint="send less at a time, or raise the limit of memory (ulimit -v, ulimit -d)"
    )


def within_memory(
    on_body: Callable[[memoryview, bytes | None, int], E], on_refused: Callable[[RrextError, memoryview], E], start: int
) -> Callable[[memoryview, bytes | None, int], E]:
    """`on_body`, which makes the event of a message, or of its first `start` bytes if there is no memory for its value.

    Where memory is bounded it is asked for before: msgspec (0.22) crashes the process where it gets none for a string.
    """
    if not IS_MEMORY_BOUNDED:
        return on_body

    def bounded(json: memoryview, tail: bytes | None, nbytes: int) -> E:
        try:
            _require_memory(json)
            return on_body(json, tail, nbytes)
        except MemoryError:
            return on_refused(no_memory(), json[:start])

    return bounded


def _require_memory(json: Bytes) -> None:
    """Raise `MemoryError` if there is none for the value of a JSON text."""
    size = len(json)
    if size <= READ_BUFFER:
        size *= MOST_PER_BYTE
    else:
        text = bytes(json)
        size += PER_QUOTE * text.count(b'"') + PER_VALUE * sum(map(text.count, (b",", b"{", b"[")))
        del text
    room = bytearray(size + MIB)
    del room


def _where(body: Bytes) -> str:
    try:
        str(body, "utf-8")
    except UnicodeDecodeError as error:
        return f" (byte {error.start})"
    return ""


def encode(value: Any, message: Any = None) -> bytes:
    """The JSON text of a value, or of the message around it that rrext made; bytes become base64 strings.

    Raises `ValueError`, with the place as a JSON pointer, for values outside of JSON: NaN, Infinity, a key that is no
    string, a lone surrogate, an object of another type, a value that contains itself.
    """
    try:
        problem = _problem_in_object(value) if type(value) is dict else _problem(value)  # pyright: ignore[reportUnknownArgumentType]
        if problem is None:
            return encode_own(value if message is None else message)
    except RecursionError:
        raise ValueError("it is nested too deeply, or contains itself") from None
    except UnicodeEncodeError:
        raise ValueError("a string in it has a lone surrogate, which is not UTF-8") from None
    except TypeError as error:
        raise ValueError(str(error)) from None
    path, reason = problem
    raise ValueError(f"{path or '/'}: {reason}")


_PLAIN = frozenset({str, int, bool, type(None), bytes})


def _problem(value: Any) -> tuple[str, str] | None:
    """The first place that JSON cannot hold, as pointer and reason."""
    kind = type(value)
    if kind in _PLAIN:
        return None
    if kind is dict:
        return _problem_in_object(value)
    if isinstance(value, float):
        return None if isfinite(value) else ("", f"{value} is not JSON")
    if isinstance(value, dict):
        return _problem_in_object(cast("dict[Any, Any]", value))
    if isinstance(value, list | tuple):
        return _problem_in_array(cast("list[Any]", value))
    if isinstance(value, str | int | bytes | bytearray):
        return None
    return "", f"a value of type {type(value).__name__} is not JSON"


def _problem_in_object(value: dict[Any, Any]) -> tuple[str, str] | None:
    for key, item in value.items():
        if type(key) is not str and not isinstance(key, str):
            return "", f"the key {key!r} is no string"
        kind = type(item)
        if kind is str or kind is int or kind in _PLAIN:
            continue
        if found := _problem_in_object(item) if kind is dict else _problem(item):
            return f"/{key.replace('~', '~0').replace('/', '~1')}{found[0]}", found[1]
    return None


def _problem_in_array(value: list[Any]) -> tuple[str, str] | None:
    for index, item in enumerate(value):
        if type(item) not in _PLAIN and (found := _problem(item)):
            return f"/{index}{found[0]}", found[1]
    return None


def quote(text: str) -> bytes:
    """A string as JSON; lone surrogates, which UTF-8 cannot hold, become `?`."""
    try:
        return encode_own(text)
    except UnicodeEncodeError:
        return encode_own(text.encode("utf-8", "replace").decode())


def insert_member(body: bytes, name: str, value: bytes) -> bytes:
    """An encoded object with one more member; `value` is encoded too."""
    comma = b"" if body == b"{}" else b","
    return b"%b%b%b:%b}" % (body[:-1], comma, quote(name), value)
