"""Offers that follow from a JSON Schema alone: the keys of an object, and their values."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from rrext.editor.completions.offer import About, Offer
from rrext.editor.completions.template import literal
from rrext.editor.completions.values import template_of, values_of
from rrext.editor.limits import MAX_DETAIL_VALUE, MAX_LABEL_VALUE
from rrext.editor.schemas.descriptions import type_text
from rrext.editor.schemas.lookup import Field, Schema, kinds_of
from rrext.editor.secrets import masked


def schema_keys(
    root: Schema, fields: Sequence[Field], present: Container[str], about: About, given: Mapping[str, Any]
) -> Iterator[Offer]:
    """The missing keys, required ones first. `given` are values that apply without being written."""
    for place, field in enumerate(fields):
        if field.name in present:
            continue
        default = given.get(field.name, field.default)
        needed = field.required and field.name not in given
        detail = type_text(field.schema, root)
        if needed:
            detail += ", required"
        elif default is not None:
            detail += f", {_short(masked(default, field.name))} if left out"
        value = template_of(root, field.schemas, given.get(field.name))
        rank = place if needed else 100 + place
        yield Offer(field.name, "key", (literal(field.name),), detail, (*about, field.name), rank, value=value)


def schema_values(root: Schema, schemas: Sequence[Schema], about: About) -> Iterator[Offer]:
    """The values that schemas name, and an empty object or list."""
    found = values_of(schemas)
    for rank, (text, why) in enumerate(found.items()):
        yield Offer(_label(text), "value", (text,), why, about, rank)
    kinds = kinds_of(schemas)
    for kind, label in (("object", "{ }"), ("array", "[ ]")):
        if kind in kinds and label.replace(" ", "") not in found:
            yield Offer(label, "value", template_of(root, schemas), kind, about, 50, finds=label[0])


def _label(text: str) -> str:
    """A value as it is shown: a string without its quotes, unless it is empty."""
    shown = text[1:-1] if text.startswith('"') and len(text) > 2 else text
    return shown if len(shown) <= MAX_LABEL_VALUE else f"{shown[:MAX_LABEL_VALUE]}…"


def _short(value: Any) -> str:
    text = literal(value)
    return text if len(text) <= MAX_DETAIL_VALUE else f"{text[:MAX_DETAIL_VALUE]}…"
