"""Values of parameters as OpenAPI writes them: `style` and `explode`. All that these functions return is percent-encoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import msgspec

_SEPARATORS: Final = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}
_PREFIXES: Final = {"label": ".", "matrix": ";"}


def text_of(value: Any) -> str:
    """A value as plain text: JSON, but texts without quotes and null as nothing."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def encoded(value: Any) -> str:
    """A value as percent-encoded text."""
    return quote(text_of(value).encode("utf-8", "surrogatepass"), safe="")


def query_pairs(name: str, value: Any, style: str, explode: bool) -> Iterator[tuple[str, str]]:
    """A parameter of the query as pairs of name and value."""
    if value is None:
        return
    if isinstance(value, dict):
        if style == "deepObject":
            yield from _deep(name, value)
        elif explode:
            for key, item in value.items():
                yield encoded(key), encoded(item)
        else:
            yield encoded(name), _joined([part for pair in value.items() for part in pair], ",")
    elif isinstance(value, list):
        if style == "deepObject" or (explode and style not in _SEPARATORS):
            for item in value:
                yield encoded(name), encoded(item)
        elif value:
            yield encoded(name), _joined(value, _SEPARATORS.get(style, ","))
    else:
        yield encoded(name), encoded(value)


def _deep(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _deep(f"{name}[{key}]", item)
    else:
        for item in value if isinstance(value, list) else (value,):
            yield encoded(name), encoded(item)


def path_text(name: str, value: Any, style: str, explode: bool) -> str:
    """A parameter of the path."""
    prefix = _PREFIXES.get(style, "")
    separator = prefix if prefix and explode else ","
    if style == "matrix" and not (isinstance(value, dict) and explode):
        if isinstance(value, list) and explode:
            return "".join(f";{encoded(name)}={encoded(item)}" for item in value)
        return f";{encoded(name)}={listed(value, ',', explode)}"
    return prefix + listed(value, separator, explode)


def listed(value: Any, separator: str, explode: bool) -> str:
    """A value in one text: items, or names and values, with a separator between them."""
    if isinstance(value, list):
        return _joined(value, separator)
    if isinstance(value, dict):
        if explode:
            return separator.join(f"{encoded(key)}={encoded(item)}" for key, item in value.items())
        return _joined([part for pair in value.items() for part in pair], separator)
    return encoded(value)


def _joined(items: list[Any], separator: str) -> str:
    return separator.join(map(encoded, items))
