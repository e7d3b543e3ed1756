"""Validation of values against JSON Schemas: whether they fit, and else each problem with its path and without the value.

`StrictReader` reads input in the form of strict function calling as the tool's own. A strict schema requires every
property, so a model sends `null` for an optional one, and it has no open objects, so their JSON text stands for them
(`rrext.tools.export`). A reader is compiled from a schema when an input does not fit it; input that fits is never read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, islice
from typing import Any, TypeAlias

import msgspec

from rrext.errors import near_matches
from rrext.limits import MAX_LISTED_NAMES, MAX_QUOTED_NAME
from rrext.tools.forms import Convert, accepted_kinds, alternatives, is_open_object, resolved

Problem = tuple[tuple[str | int, ...], str]
"""The path in the value, step by step, and a sentence."""

_CHOICES = ("const", "enum")
_NOT_IN_POINTER = "[\ud800-\udfff]"


class InvalidSchema(Exception):
    """A JSON Schema is unusable; the message says why."""


class SchemaValidator:
    """One schema, compiled at first use. Nothing is ever fetched; formats and base64 are asserted.

    With `content=False`, `fits` does not check base64; `problems` always does.
    """

    __slots__ = ("_content", "_reader", "_schema", "fits")

    def __init__(self, schema: Mapping[str, Any], *, content: bool = True) -> None:
        self._schema = schema
        self._content = content
        self._reader: StrictReader | None = None
        self.fits: Callable[[Any], bool] = self._first_fits
        """Whether a value fits the schema. Raises `ValueError` or `TypeError` for a value that is not JSON."""

    def compile(self) -> None:
        """Compile the schema; an unusable one raises `InvalidSchema`."""
        self.fits = self._compiled(content=self._content).is_valid

    def meant(self, value: Any) -> Any:
        """The value that one in the form of strict function calling means, see `StrictReader`."""
        if self._reader is None:
            self._reader = StrictReader(self._schema)
        return self._reader.read(value)

    def problems(self, value: Any, limit: int) -> list[Problem]:
        """The problems of a value that does not fit, at most `limit`."""
        validator = self._compiled(content=True)
        errors = validator.iter_errors(value) if limit > 1 else _first_error(validator, value)
        return list(islice(chain.from_iterable(map(self._explained, errors)), limit))

    def _first_fits(self, value: Any) -> bool:
        self.compile()
        return self.fits(value)

    def _compiled(self, *, content: bool) -> Any:
        import jsonschema_rs

        words = set(keywords(self._schema))
        try:
            return jsonschema_rs.validator_for(
                dict(self._schema),
                formats=_formats() if "format" in words else None,
                keywords={"contentEncoding": _Content} if content and "contentEncoding" in words else None,
                validate_formats=True,
                offline=True,
                mask="value",
            )
        except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
            raise InvalidSchema(str(error).partition("\n")[0]) from None

    def _explained(self, error: Any) -> Iterable[Problem]:
        """The problems of one error of the validator, in our words; some errors are several problems."""
        path, kind = tuple(error.instance_path), error.kind
        match kind.name:
            case "required":
                yield (*path, kind.property), f"required property missing: {_cut(kind.property)}"
            case "additionalProperties" | "unevaluatedProperties":
                known = list(self._at(error.schema_path[:-1]).get("properties", ()))
                for name in kind.unexpected:
                    yield (*path, name), f'unexpected property "{_cut(name)}"{_did_you_mean(name, known)}'
            case "anyOf" | "oneOf" if not any(not branch for branch in kind.context):
                yield from self._no_branch(error)
            case "propertyNames":
                yield path, f"a property has a name that is not allowed: {_sentence(kind.error)}"
            case _:
                yield path, _sentence(error)

    def _no_branch(self, error: Any) -> Iterable[Problem]:
        """The problems of a value that fits no alternative: those of its only plausible alternative, or the expected types."""
        path, branches = list(error.instance_path), error.kind.context
        meant = [
            branch for branch in branches if not any(e.kind.name == "type" and list(e.instance_path) == path for e in branch)
        ]
        if not meant:
            types = dict.fromkeys(name for branch in branches for e in branch if e.kind.name == "type" for name in e.kind.types)
            yield tuple(path), f"expected {_either(list(types))}, got {_kind(error.instance)}"
            return
        if len(meant) > 1:
            meant = _with_right_tag(meant)
        if len(meant) == 1:
            yield from chain.from_iterable(map(self._explained, meant[0]))
            return
        found = [list(chain.from_iterable(map(self._explained, branch))) for branch in meant]
        shared = [problem for problem in found[0] if all(problem in other for other in found)]
        yield from shared or [_wrong_tag(meant) or (tuple(path), f"fits none of the {len(branches)} alternatives")]

    def _at(self, path: Iterable[str | int]) -> Mapping[str, Any]:
        place: Any = self._schema
        for step in path:
            try:
                place = place[step]
            except (KeyError, IndexError, TypeError):
                return {}
        return place if isinstance(place, Mapping) else {}


def _with_right_tag(branches: list[list[Any]]) -> list[list[Any]]:
    """The alternative whose literal property fits; all alternatives if none or several do."""
    right = [branch for branch in branches if not any(error.kind.name in _CHOICES for error in branch)]
    return right if len(right) == 1 else branches


def _wrong_tag(branches: list[list[Any]]) -> Problem | None:
    """One problem that lists all literals, if each alternative requires another literal at the same path."""
    choices = [error for branch in branches for error in branch if error.kind.name in _CHOICES]
    places = {tuple(error.instance_path) for error in choices}
    if len(places) != 1 or len(choices) != len(branches):
        return None
    wanted = chain.from_iterable(e.kind.options if e.kind.name == "enum" else [e.kind.expected_value] for e in choices)
    return places.pop(), f"expected {_either([_literal(value) for value in wanted])}"


def _formats() -> dict[str, Callable[..., bool]]:
    from rrext.tools.string_formats import FORMATS

    return FORMATS


def _first_error(validator: Any, value: Any) -> list[Any]:
    """The first error alone, because collecting all errors of a large value takes too long."""
    import jsonschema_rs

    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return [error.with_traceback(None)]  # with it, it would lead to itself
    return []


class _Content:
    """The keyword `contentEncoding`; JSON Schema treats it as a note, we assert it."""

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: list[str | int]) -> None:
        del parent_schema, schema_path  # jsonschema_rs gives them to every keyword
        self._base64 = value == "base64"

    def validate(self, instance: Any) -> None:
        from rrext.tools.grammar import is_base64

        if self._base64 and isinstance(instance, str) and not is_base64(instance):
            raise ValueError("expected base64 (RFC 4648, with padding)")


def pointer(root: str, path: Iterable[str | int]) -> str:
    """A JSON Pointer below `root`. Steps longer than any real name are cut."""
    steps = (_cut(str(step)).replace("~", "~0").replace("/", "~1") for step in path)
    return "".join([root, *(f"/{step}" for step in steps)])


_FIXED = {
    "uniqueItems": "has equal items",
    "contains": "holds no item of the kind that is needed",
    "falseSchema": "nothing is allowed here",
    "not": "is what is not allowed here",
    "oneOf": "fits several alternatives, and only one is allowed",
    "additionalItems": "has too many items",
    "items": "has too many items",
    "unevaluatedItems": "has too many items",
}
_LIMITED = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "more than",
    "exclusiveMaximum": "less than",
}
_SIZED = {
    "minLength": ("at least", "character", "characters"),
    "maxLength": ("at most", "character", "characters"),
    "minItems": ("at least", "item", "items"),
    "maxItems": ("at most", "item", "items"),
    "minProperties": ("at least", "property", "properties"),
    "maxProperties": ("at most", "property", "properties"),
}
_EXAMPLES = {
    "date-time": "date-time, like 2026-11-21T09:30:00Z",
    "date": "date, like 2026-11-21",
    "time": "time with offset, like 09:30:00Z",
}


def _sentence(error: Any) -> str:
    """The requirement of a keyword in words, without the value."""
    kind = error.kind
    name: str = kind.name
    if name in _FIXED:
        return _FIXED[name]
    if name in _LIMITED:
        return f"expected {_LIMITED[name]} {kind.limit}"
    if name in _SIZED:
        measure, one, many = _SIZED[name]
        return f"expected {measure} {kind.limit} {one if kind.limit == 1 else many}"
    match name:
        case "type":
            return f"expected {_either(kind.types)}, got {_kind(error.instance)}"
        case "enum":
            return f"expected {_either([_literal(option) for option in kind.options])}"
        case "const":
            return f"expected {_literal(kind.expected_value)}"
        case "multipleOf":
            return f"expected a multiple of {kind.multiple_of}"
        case "pattern":
            if not hasattr(kind, "pattern"):  # the comparison was given up
                return "cannot be compared with its pattern in due time"
            return f"does not match the pattern {kind.pattern}"
        case "format":
            return f"expected {_EXAMPLES.get(kind.format, kind.format)}"
        case "contentEncoding":
            return "expected base64 (RFC 4648, with padding)"
        case _:
            return f'breaks the rule "{name}" of its schema'


def _either(names: list[str]) -> str:
    if len(names) > MAX_LISTED_NAMES:
        return f"one of {', '.join(names[:MAX_LISTED_NAMES])} or {len(names) - MAX_LISTED_NAMES} more"
    return " or ".join([*([", ".join(names[:-1])] if len(names) > 1 else []), names[-1]])


def _literal(value: Any) -> str:
    return _cut(msgspec.json.encode(value).decode())


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"


def _did_you_mean(name: str, known: list[str]) -> str:
    near = near_matches(name, known, limit=1) if len(name) <= MAX_QUOTED_NAME else []
    return f': did you mean "{near[0]}"?' if near else ""


def _cut(name: str) -> str:
    clean = re.sub(_NOT_IN_POINTER, "�", name)
    return clean if len(clean) <= MAX_QUOTED_NAME else clean[:MAX_QUOTED_NAME] + "…"


def keywords(schema: Any) -> Iterable[str]:
    """Every key of a schema; names of properties are harmless extras."""
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            yield key
            yield from keywords(value)
    elif isinstance(schema, list | tuple):
        for value in schema:
            yield from keywords(value)


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
