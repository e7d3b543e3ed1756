"""Readable JSON: short values on one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rrext.editor.limits import MAX_JSON_WIDTH


def json_text(value: Any, margin: str = "") -> str:
    """A value as JSON, indented by two spaces per level. A value that JSON cannot hold is shown as text."""
    flat = json.dumps(value, ensure_ascii=False, default=str)
    if len(margin) + len(flat) <= MAX_JSON_WIDTH or not value:
        return flat
    inner = margin + "  "
    if isinstance(value, Mapping):
        lines = [f"{inner}{json.dumps(str(key), ensure_ascii=False)}: {json_text(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{margin}}}"
    if isinstance(value, list | tuple):
        return "[\n" + ",\n".join(inner + json_text(item, inner) for item in value) + f"\n{margin}]"
    return flat
