"""Texts and `msgspec.Meta` constraints of `Annotated` types, as schema keywords."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from rrext.tools.forms import NUMBER, Form, UnsupportedType, type_name

_NUMBERS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum", "multiple_of": "multipleOf"}
_SIZES = {"string": "Length", "array": "Items", "object": "Properties"}
_TEXTS = ("title", "description", "examples")


def noted(form: Form, notes: Iterable[Any], hint: Any) -> Form:
    """A form with the keywords of its annotations. Raises `UnsupportedType` for a constraint that does not apply to it."""
    keywords: dict[str, Any] = {}
    for note in notes:
        if isinstance(note, str):
            keywords["description"] = note
        elif isinstance(note, msgspec.Meta):
            keywords.update(_meta(note, form, hint))
        elif isinstance(getattr(note, "documentation", None), str):  # typing_extensions.Doc
            keywords["description"] = note.documentation
    return form.extended(keywords)


def _meta(meta: msgspec.Meta, form: Form, hint: Any) -> dict[str, Any]:
    keywords: dict[str, Any] = {}
    for name, keyword in _NUMBERS.items():
        limit = getattr(meta, name)
        if limit is not None:
            _require(NUMBER in form.kinds, name, hint)
            keywords[keyword] = limit
    for name, prefix in (("min_length", "min"), ("max_length", "max")):
        size = getattr(meta, name)
        if size is not None:
            sized = [_SIZES[kind] for kind in sorted(form.kinds) if kind in _SIZES]
            _require(bool(sized) and form.plain, name, hint)
            keywords.update({prefix + what: size for what in sized})
    if meta.pattern is not None:
        _require("string" in form.kinds and form.plain, "pattern", hint)
        keywords["pattern"] = meta.pattern
    if meta.tz is not None:
        # Published times always have an offset, so tz=True says nothing new and tz=False cannot be.
        _require(meta.tz and "format" in form.schema, "tz", hint)
    keywords.update({name: getattr(meta, name) for name in _TEXTS if getattr(meta, name) is not None})
    return {**keywords, **(meta.extra_json_schema or {})}


def _require(applies: bool, name: str, hint: Any) -> None:
    if not applies:
        raise UnsupportedType(f"Meta({name}=...) does not apply to {type_name(hint.__origin__)}")
