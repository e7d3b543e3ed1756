"""JSON Schemas of objects: the input of a tool, and classes inside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rrext.tools.forms import Form, json_kind
from rrext.tools.results import NotJson, plain_json
from rrext.tools.signature import NO_DEFAULT


def object_schema(fields: Iterable[tuple[str, Form, bool, Any]], texts: Mapping[str, str]) -> dict[str, Any]:
    """A closed object: `(name, form, required, default)` for each property; `texts` has descriptions of some."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, form, needed, default in fields:
        schema = form.schema
        if name in texts and "description" not in schema:
            schema = {**schema, "description": texts[name]}
        if default is not NO_DEFAULT:
            schema = _with_default(schema, form, default)
        properties[name] = schema
        if needed:
            required.append(name)
    found: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        found["required"] = required
    found["additionalProperties"] = False
    return found


def _with_default(schema: dict[str, Any], form: Form, default: Any) -> dict[str, Any]:
    """The schema with its default, unless JSON has no form for it or callers could not send it."""
    try:
        shown = plain_json(default)
    except NotJson:
        return schema
    return {**schema, "default": shown} if json_kind(shown) in form.kinds else schema
