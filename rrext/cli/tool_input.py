"""The input of a tool call on the command line: JSON, or `key=value` words whose types the tool's schema says."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rrext.errors import ParseError, UsageError
from rrext.wire.codec import decode

_PAIR: Final = re.compile(r"([^\s=:{}\[\]\"@-][^\s=:]*)(:?=)(.*)", re.DOTALL)


def json_input(text: str | None) -> Any:
    """The value of a whole input: JSON, `@FILE` with JSON, `-` for stdin; None is `{}`. Raises `OSError`, `ParseError`."""
    if text is None:
        return {}
    if text == "-":
        with open(0, "rb", closefd=False) as stdin:  # not sys.stdin, which is None where it is closed
            return decode(stdin.read())
    return _json(text)


def is_pairs(words: Sequence[str]) -> bool:
    """Whether words are `key=value` pairs, and not one whole input."""
    return len(words) > 1 or (len(words) == 1 and _PAIR.fullmatch(words[0]) is not None)


def input_of_pairs(words: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The object that pairs make: `key=value` has the type that the schema gives `key`, `key:=JSON` is JSON.

    `key=@FILE` is the content of a file. A key that stands several times, or whose type is a list, makes a list. A text that
    does not fit the type stays a text, which the tool's own check refuses with its reason. Raises `UsageError`, `OSError`.
    """
    made: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for word in words:
        pair = _PAIR.fullmatch(word)
        if pair is None:
            raise UsageError(f"{word}: expected KEY=VALUE, KEY:=JSON, or one JSON value alone")
        key, sign, text = pair.groups()
        counts[key] = counts.get(key, 0) + 1
        known = schema.get("properties", {}).get(key, {})
        try:
            value = _json(text) if sign == ":=" else typed(text, known, schema)
        except ParseError as error:
            raise UsageError(f"{key}: {error.message.replace('the body', 'it')}") from None
        if counts[key] > 1:
            value = [*_listed(made[key]), *_listed(value)]
        made[key] = value
    return made


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _json(text: str) -> Any:
    if text.startswith("@"):
        return decode(_content(text[1:]))
    return decode(text.encode("utf-8", "surrogateescape"))


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def typed(text: str, schema: Any, root: Mapping[str, Any]) -> Any:
    """The value of a text for a schema: JSON of one of its types, or else the text itself. Raises `UsageError`, `OSError`."""
    parts = list(_alternatives(schema, root))
    kinds = {kind for part in parts for kind in _kinds(part)}
    if text.startswith("@"):
        content = _content(text[1:])
        if any(part.get("contentEncoding") == "base64" for part in parts):
            return base64.b64encode(content).decode()
        try:
            text = content.decode()
        except UnicodeDecodeError:
            raise UsageError(f"{text[1:]} is no UTF-8 text") from None
    if "string" in kinds and kinds <= {"string", "null"}:
        return text
    try:
        value = decode(text.encode("utf-8", "surrogateescape"))
    except ParseError:
        value = text
    if _kind_of(value) in kinds or (_kind_of(value) == "integer" and "number" in kinds):
        return value
    if "array" in kinds:
        items = next(part for part in parts if "array" in _kinds(part)).get("items", {})
        return [typed(text, items, root)]
    return text


def _alternatives(schema: Any, root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schemas that a value may follow, without references."""
    if not isinstance(schema, Mapping):
        yield {}
        return
    if "$ref" in schema:
        schema = root.get("$defs", {}).get(str(schema["$ref"]).rpartition("/")[2], {})
    several = schema.get("anyOf") or schema.get("oneOf")
    if several is None:
        yield schema
        return
    for part in several:
        yield from _alternatives(part, root)


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    """The JSON types that a schema without alternatives takes."""
    if "type" in schema:
        return {schema["type"]} if isinstance(schema["type"], str) else set(schema["type"])
    values = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else None
    if values is not None:
        return {_kind_of(value) for value in values}
    return {"string", "boolean", "integer", "number", "array", "object", "null"}


def _kind_of(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case None:
            return "null"
        case list():
            return "array"
        case _:
            return "object"
