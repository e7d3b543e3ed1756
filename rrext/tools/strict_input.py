"""Input in the form of strict function calling, read as the tool's own: `null` is absence, JSON text is an open object.

A strict schema requires every property, so a model sends `null` for an optional one, and it has no open objects, so their JSON
text stands for them (`rrext.tools.strict_schema`). A reader is compiled from a schema when an input does not fit it; input that
fits is never read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from rrext.tools.forms import Convert
from rrext.tools.schema_view import accepted_kinds, alternatives, is_open_object, resolved

Schema: TypeAlias = Mapping[str, Any]


class StrictReader:
    """The readers of one schema and of the schemas inside it. A reader returns its value itself if nothing changes."""

    __slots__ = ("_read", "_readers", "_root")

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._readers: dict[int, Convert | None] = {}
        self._read = self._reader(root)

    def read(self, value: Any) -> Any:
        """The value without nulls that mean absence, and with objects for JSON texts; the value itself if it has neither."""
        return value if self._read is None else self._read(value)

    def _reader(self, schema: Any) -> Convert | None:
        """The reader of a schema, None if it would change no value. A schema inside itself is read through the table."""
        schema = resolved(schema, self._root)
        if not isinstance(schema, Mapping):
            return None
        key = id(schema)
        if key not in self._readers:
            self._readers[key] = lambda value: (self._readers[key] or _same)(value)
            self._readers[key] = self._made(schema)
        return self._readers[key]

    def _made(self, schema: Schema) -> Convert | None:
        choices = alternatives(schema, self._root)
        objects = [
            (choice, self._object_reader(choice)) for choice in choices if "object" in accepted_kinds(choice, self._root)
        ]
        arrays = [self._array_reader(choice) for choice in choices if "array" in accepted_kinds(choice, self._root)]
        items = arrays[0] if len(arrays) == 1 else None
        takes_text = "string" not in accepted_kinds(schema, self._root) and any(map(is_open_object, choices))
        if items is None and not takes_text and not any(read for _, read in objects):
            return None

        def read(value: Any) -> Any:
            kind = type(value)
            if kind is dict:
                reader = objects[0][1] if len(objects) == 1 else _by_literals(objects, value)
                return value if reader is None else reader(value)
            if kind is list:
                return value if items is None else items(value)
            return _object_of(value) if takes_text and kind is str else value

        return read

    def _object_reader(self, schema: Schema) -> Convert | None:
        properties = schema.get("properties", {})
        required = schema.get("required", ())
        readers = {name: self._reader(inner) for name, inner in properties.items()}
        absent = {
            name
            for name, inner in properties.items()
            if name not in required and "null" not in accepted_kinds(inner, self._root)
        }
        others = self._reader(schema.get("additionalProperties"))
        if not absent and others is None and not any(readers.values()):
            return None

        def read(value: dict[str, Any]) -> dict[str, Any]:
            found: dict[str, Any] = {}
            is_changed = False
            for name, member in value.items():
                if member is None and name in absent:
                    is_changed = True
                    continue
                reader = readers.get(name, others)
                found[name] = member if reader is None else reader(member)
                is_changed = is_changed or found[name] is not member
            return found if is_changed else value

        return read

    def _array_reader(self, schema: Schema) -> Convert | None:
        first = [self._reader(inner) for inner in schema.get("prefixItems", ())]
        rest = self._reader(schema.get("items"))
        if rest is None and not any(first):
            return None

        def read(value: list[Any]) -> list[Any]:
            readers = [*first[: len(value)], *[rest] * (len(value) - len(first))]
            found = [item if reader is None else reader(item) for item, reader in zip(value, readers, strict=True)]
            return found if any(new is not old for new, old in zip(found, value, strict=True)) else value

        return read


def _by_literals(objects: list[tuple[Schema, Convert | None]], value: dict[str, Any]) -> Convert | None:
    """The reader of the alternative whose required literals the value has."""
    for schema, reader in objects:
        literals = {
            name: inner for name in schema.get("required", ()) if _has_literals(inner := schema.get("properties", {}).get(name))
        }
        if literals and all(_is_one_of(value.get(name), inner) for name, inner in literals.items()):
            return reader
    return None


def _has_literals(schema: Any) -> bool:
    return isinstance(schema, Mapping) and ("const" in schema or "enum" in schema)


def _is_one_of(value: Any, schema: Schema) -> bool:
    return value == schema["const"] if "const" in schema else value in schema["enum"]


def _object_of(text: str) -> Any:
    """The object that a text holds as JSON; the text itself if it holds none."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text
    return found if isinstance(found, dict) else text


def _same(value: Any) -> Any:
    return value
