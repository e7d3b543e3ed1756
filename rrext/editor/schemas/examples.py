"""Example values from JSON Schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rrext.editor.schemas.lookup import Schema, fields_of, kinds_of, list_of

MAX_EXAMPLE_DEPTH: Final = 4
"""The depth to which objects are filled in."""

_EMPTY: Final[dict[str, Any]] = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}


def example_of(root: Schema, schemas: Sequence[Schema], depth: int = MAX_EXAMPLE_DEPTH) -> Any:
    """The default, the first choice or example, or an empty value with its required members; None if the type is unknown.

    `schemas` apply to the value, without references; `root` has the definitions.
    """
    for schema in schemas:
        if "default" in schema:
            return schema["default"]
    for schema in schemas:
        for value in (*choices_of(schema), *list_of(schema, "examples")):
            return value
    kind = next((kind for kind in kinds_of(schemas) if kind != "null"), "null")
    if kind in ("integer", "number"):
        return next((schema["minimum"] for schema in schemas if isinstance(schema.get("minimum"), int | float)), 0)
    if kind == "object" and depth:
        needed = [field for field in fields_of(root, schemas) if field.required]
        return {field.name: example_of(root, field.schemas, depth - 1) for field in needed}
    return _EMPTY.get(kind)


def choices_of(schema: Schema) -> Sequence[Any]:
    """The only values that a schema allows; empty if it names none."""
    return [schema["const"]] if "const" in schema else list_of(schema, "enum")
