"""Results as strict JSON. A value that JSON cannot hold is an error with its path; nothing becomes `null`."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from itertools import chain, starmap
from math import isfinite
from threading import Lock
from typing import Any, Final

import msgspec

from rrext.limits import KIB, MAX_LOOPED_ENTRIES, memory_limits
from rrext.tools.validation import pointer

LARGE_VALUES: Final = Lock()
"""Held by a thread while it has the value of a large JSON text: that takes up to thirty times the memory of the text."""
LARGE_TEXT: Final = 256 * KIB
"""Bytes of such a text: 64 threads that have smaller ones at once take no more than one with the largest."""


class JsonText:
    """A value in a result as strict JSON that was checked, as it is handed on."""

    __slots__ = ("text",)

    def __init__(self, text: bytes) -> None:
        self.text = text


def _hand_on(value: Any) -> msgspec.Raw:
    if type(value) is JsonText:
        return msgspec.Raw(value.text)
    raise TypeError(f"an object of type {type(value).__qualname__}")


# bytes become base64 strings.
_ATOMS = frozenset({str, int, bool, type(None), bytes, bytearray, JsonText})
_CONTAINERS = frozenset({dict, list, tuple})
_PLAIN = _ATOMS | _CONTAINERS | {float}
_STRINGS = frozenset({str})


_encoder = msgspec.json.Encoder(enc_hook=_hand_on)


def _encode_in_bounds(value: Any) -> bytes:
    """Encode where an allocation may fail: there `encode`, which is three times as fast, crashes the process (msgspec 0.22)."""
    buffer = bytearray()
    _encoder.encode_into(value, buffer)
    return bytes(buffer)


_encode = _encode_in_bounds if memory_limits() else _encoder.encode


class NotJson(Exception):
    """A value that JSON cannot hold: its JSON Pointer and the reason."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or '/'}: {reason}")
        self.path = path
        self.reason = reason


def encode_json(value: Any) -> bytes:
    """A value as JSON. Raises `NotJson` for NaN, Infinity, a lone surrogate, a cycle, a key that is not a string, and any
    object other than JSON, dataclass, attrs class, Struct, enum, set, tuple, bytes, date, time, UUID, Decimal."""
    try:
        raw = _encode(value)
    except MemoryError:
        raise
    except Exception as error:
        raise _located(value, error) from None
    # msgspec writes NaN as null and turns keys into strings, so its output is checked against its input.
    if type(value) is dict and len(value) <= MAX_LOOPED_ENTRIES:
        for key, entry in value.items():
            if type(key) is not str or type(entry) not in _ATOMS:
                break
        else:
            return raw
    if not _is_plain(value, raw):
        for path, reason in _problems(value):
            raise NotJson(path, reason)
    return raw


def table_json(rows: Sequence[Sequence[Any]], columns: Sequence[str] | None) -> JsonText:
    """Many rows as JSON: objects by the names of the columns, or arrays. Raises `NotJson` as `encode_json` does.

    No object of Python is made for a row: for thousands of rows that takes several times as long as to encode them.
    """
    try:
        raw = _encode(rows if columns is None else list(starmap(_row_type(tuple(columns)), rows)))
    except MemoryError:
        raise
    except Exception as error:
        raise NotJson("", str(error)) from None
    if not _is_plain(list(chain.from_iterable(rows)), raw):
        raise NotJson("", "an entry that JSON cannot hold")
    return JsonText(raw)


@lru_cache(maxsize=128)
def _row_type(columns: tuple[str, ...]) -> type[msgspec.Struct]:
    """A class whose instances are written as objects with these keys. Raises `ValueError` for names with quotes in them."""
    keys = {f"column_{place}": name for place, name in enumerate(columns)}
    return msgspec.defstruct("Row", list(keys), rename=keys, gc=False)


def plain_json(value: Any) -> Any:
    """A value as new dicts, lists and scalars. Raises `NotJson` as `encode_json` does."""
    return msgspec.json.decode(encode_json(value))


def _is_plain(value: Any, raw: bytes) -> bool:
    """Whether an encoded value is finite JSON with string keys alone. Small containers are checked entry by entry, large ones
    by set operations in C."""
    waiting: list[Any] = [value] if type(value) in _CONTAINERS else [(value,)]
    while waiting:
        container = waiting.pop()
        entries = container
        if type(container) is dict:
            entries = container.values()
            if not set(map(type, container)) <= _STRINGS:
                return False
        if len(container) > MAX_LOOPED_ENTRIES:
            inner = _inner_of_many(entries, raw)
            if inner is None:
                return False
            waiting += inner
            continue
        for entry in entries:
            kind = type(entry)
            if kind in _ATOMS:
                continue
            if kind in _CONTAINERS:
                waiting.append(entry)
            elif kind is not float or not isfinite(entry):
                return False
    return True


def _inner_of_many(entries: Collection[Any], raw: bytes) -> list[Any] | None:
    """The containers among many entries; None if an entry is not plain."""
    kinds = set(map(type, entries))
    if not kinds <= _PLAIN:
        return None
    # NaN and infinite numbers were written as null.
    if float in kinds and b"null" in raw and not all(map(isfinite, [entry for entry in entries if type(entry) is float])):
        return None
    return [entry for entry in entries if type(entry) in _CONTAINERS] if kinds & _CONTAINERS else []


def _located(value: Any, error: Exception) -> NotJson:
    for path, reason in _problems(value):
        return NotJson(path, reason)
    return NotJson("", "nested too deeply" if isinstance(error, RecursionError) else str(error))


class _Position:
    """A value with the step that leads to it and the position of its owner."""

    __slots__ = ("depth", "owner", "step", "value")

    def __init__(self, value: Any, step: str | int, owner: _Position | None) -> None:
        self.value = value
        self.step = step
        self.owner = owner
        self.depth: int = owner.depth + 1 if owner is not None else 0

    def pointer(self) -> str:
        steps: list[str | int] = []
        position = self
        while position.owner is not None:
            steps.append(position.step)
            position = position.owner
        return pointer("", reversed(steps))

    def is_inside_itself(self) -> bool:
        position = self.owner
        while position is not None:
            if position.value is self.value:
                return True
            position = position.owner
        return False


def _problems(value: Any) -> Iterator[tuple[str, str]]:
    """Every value that JSON cannot hold, in order. Slow: used after a failure, or for objects of a class."""
    waiting = [_Position(value, "", None)]
    while waiting:
        position = waiting.pop()
        if position.depth > sys.getrecursionlimit():
            yield position.pointer(), "nested too deeply"
            return
        if isinstance(position.value, Enum):
            position.value = position.value.value
        inner = _inside(position.value)
        if inner is None:
            reason = _leaf_problem(position.value)
            if reason is not None:
                yield position.pointer(), reason
        elif position.is_inside_itself():
            yield position.pointer(), "contains itself"
        else:
            if isinstance(inner, Mapping):
                for key in inner:
                    if not isinstance(key, str):
                        yield position.pointer(), f"a key is no string but {type(key).__name__}"
                    elif _has_surrogate(key):
                        yield position.pointer(), "a key has a lone surrogate"
                inner = inner.items()
            waiting += reversed([_Position(entry, _step(step), position) for step, entry in inner])


def _step(step: Any) -> str | int:
    return step if isinstance(step, str | int) else type(step).__name__


def _inside(value: Any) -> Any:
    """The entries of a container, by name or index; None for any other value."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return enumerate(value)
    kind = type(value)
    if issubclass(kind, msgspec.Struct):
        pairs = zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)
        entries = [(key, getattr(value, name)) for key, name in pairs]
        return enumerate(entry for _, entry in entries) if kind.__struct_config__.array_like else _set_only(entries)
    if hasattr(kind, "__attrs_attrs__"):
        return _set_only([(field.name, getattr(value, field.name)) for field in kind.__attrs_attrs__ if field.name[0] != "_"])
    if hasattr(kind, "__dataclass_fields__"):
        return _set_only([(name, getattr(value, name)) for name in kind.__dataclass_fields__ if hasattr(value, name)])
    return None


def _set_only(entries: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [entry for entry in entries if entry[1] is not msgspec.UNSET]


def _leaf_problem(value: Any) -> str | None:
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if value != value else "Infinity"
    if isinstance(value, str) and _has_surrogate(value):
        return "a lone surrogate"
    if type(value) in _PLAIN:
        return None
    if isinstance(value, msgspec.Raw):
        return "an object of type Raw"
    try:
        text = msgspec.json.encode(value)
    except Exception:
        return f"an object of type {type(value).__qualname__}"
    return "a decimal that is no number" if text in (b'"NaN"', b'"sNaN"', b'"Infinity"', b'"-Infinity"') else None


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)
