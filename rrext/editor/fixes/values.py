"""Replacements of values that a schema refuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rrext.editor.limits import MAX_VALUE_FIXES
from rrext.editor.schemas.examples import choices_of, example_of
from rrext.editor.schemas.lookup import Schema, kinds_of
from rrext.errors import near_matches
from rrext.tools.validation import InvalidSchema, SchemaValidator

_WORDS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def allowed_near(value: Any, schemas: Sequence[Schema], root: Schema) -> list[Any]:
    """Valid values that an invalid one may stand for, the most likely first."""
    found: list[Any] = []
    for schema in schemas:
        fits = _validator(schema, root)
        for candidate in (*_meant(value, schema, root), *_near_choices(value, schema)):
            if fits is not None and fits(candidate) and not any(_same(candidate, other) for other in found):
                found.append(candidate)
    return found


def _validator(schema: Schema, root: Schema) -> Any:
    whole = {**schema, "$defs": root["$defs"]} if "$defs" in root else schema
    validator = SchemaValidator(whole)
    try:
        validator.compile()
    except InvalidSchema:
        return None
    return validator.fits


def _meant(value: Any, schema: Schema, root: Schema) -> Iterator[Any]:
    """The same value in the right type, or the nearest within its bounds."""
    kinds = kinds_of([schema])
    if isinstance(value, str):
        number = _number(value)
        if number is not None:
            yield int(number) if number == int(number) else number
        if value.strip().lower() in _WORDS:
            yield _WORDS[value.strip().lower()]
    elif isinstance(value, bool):
        yield str(value).lower()
        yield int(value)
    elif isinstance(value, int | float):
        yield str(value)
        if value in (0, 1) and "boolean" in kinds:
            yield bool(value)
        yield from _in_bounds(value, schema)
    if "array" in kinds and not isinstance(value, list | dict):
        yield [value]
    if isinstance(value, list) and len(value) == 1:
        yield value[0]
    if value in (None, "", [], {}):
        yield example_of(root, [schema])


def _number(text: str) -> float | None:
    try:
        number = float(text) if len(text) < 30 and text.isascii() else None
    except ValueError:
        return None
    return number if number is not None and number - number == 0 else None


def _in_bounds(value: float, schema: Schema) -> Iterator[Any]:
    if isinstance(value, float) and value.is_integer():
        yield int(value)
    if value - value == 0:
        yield round(value)
    for word, step in (("minimum", 0), ("maximum", 0), ("exclusiveMinimum", 1), ("exclusiveMaximum", -1)):
        limit = schema.get(word)
        if isinstance(limit, int | float) and (value < limit + step) == word.endswith("inimum"):
            yield limit + step


def _near_choices(value: Any, schema: Schema) -> list[Any]:
    choices = choices_of(schema)
    if isinstance(value, str):
        near = near_matches(value[:100], [choice for choice in choices if isinstance(choice, str)])
        if near:
            return near
    return list(choices[:MAX_VALUE_FIXES])


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other
