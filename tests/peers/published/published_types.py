"""Whether an answer is what the types of the published client say."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

__all__ = ["misfits"]


def misfits(value: Any, hint: Any) -> list[str]:
    """The places in a value that are not of the type, each with what stands there. Further fields may be."""
    return list(_misfits(value, hint, ""))


def _misfits(value: Any, hint: Any, path: str) -> Iterator[str]:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return
    if is_typeddict(hint):
        if not isinstance(value, dict):
            yield f"{path}: {value!r} is no object"
            return
        for name, kind in get_type_hints(hint).items():
            if name in value:
                yield from _misfits(value[name], kind, f"{path}/{name}")
            elif name in hint.__required_keys__:
                yield f"{path}/{name} is missing"
    elif origin in (Union, UnionType):
        found = [list(_misfits(value, each, path)) for each in inner]
        if all(found):
            yield found[0][0]
    elif origin is Literal:
        if value not in inner:
            yield f"{path}: {value!r} is none of {inner}"
    elif origin is list:
        if not isinstance(value, list):
            yield f"{path}: {value!r} is no list"
            return
        for index, each in enumerate(value):
            yield from _misfits(each, inner[0], f"{path}/{index}")
    elif origin is dict:
        if not isinstance(value, dict):
            yield f"{path}: {value!r} is no object"
            return
        for name, each in value.items():
            yield from _misfits(each, inner[1], f"{path}/{name}")
    else:
        plain = {float: (int, float), None: NoneType}.get(hint, hint)
        if not isinstance(value, plain) or (isinstance(value, bool) and hint is not bool):
            yield f"{path}: {value!r} is no {hint}"
