"""Questions of a tool to its user, answered at the terminal of a command."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rrext.cli.tool_input import typed
from rrext.columns import one_line, printable

CANCELLED: Final = {"action": "cancel"}


def answer(params: Mapping[str, Any], fd: int) -> dict[str, Any]:
    """The user's answer to the parameters of `elicitation/create`: `{action, content?}`. The end of input cancels.

    Text for a field is read as `rrext tool` reads the value of a KEY; an empty line stands for its default, or for none.
    """
    sys.stderr.write(f"{printable(str(params.get('message', '')))}\n")
    with open(fd, encoding="utf-8", errors="replace", closefd=False) as lines:
        if params.get("mode") == "url":
            sys.stderr.write(f"{one_line(str(params.get('url')))}\n")
            return _agreed(lines, "Open this page, and go on? [y/n] ", {"action": "accept"})
        schema = params.get("requestedSchema")
        schema = schema if isinstance(schema, dict) else {}
        content: dict[str, Any] = {}
        for name, field in _fields(schema):
            text = _line(lines, f"{one_line(_label(name, field, schema))}: ")
            if text is None:
                return CANCELLED
            if text:
                content[name] = typed({"y": "true", "n": "false"}.get(text, text), field, schema)
            elif "default" in field:
                content[name] = field["default"]
        return _agreed(lines, "Send this? [y/n] ", {"action": "accept", "content": content})


def _agreed(lines: Iterable[str], prompt: str, answer: dict[str, Any]) -> dict[str, Any]:
    said = _line(lines, prompt)
    return CANCELLED if said is None else answer if said.lower() in ("y", "yes") else {"action": "decline"}


def _line(lines: Iterable[str], prompt: str) -> str | None:
    """The line that the user types; None at the end of the input."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = next(iter(lines), None)
    return None if line is None else line.strip()


def _fields(schema: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    fields = schema.get("properties")
    found = fields if isinstance(fields, dict) else {}
    return [(name, field if isinstance(field, dict) else {}) for name, field in found.items()]


def _label(name: str, field: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """The prompt of a field: its title, its allowed values, its default."""
    required = schema.get("required")
    notes = [str(field["description"])] if field.get("description") else []
    choices = field.get("enum") or [each.get("const") for each in field.get("oneOf", ()) if isinstance(each, dict)]
    if isinstance(choices, list) and choices:
        notes.append("one of " + ", ".join(map(str, choices)))
    elif field.get("type") == "boolean":
        notes.append("y or n")
    if "default" in field:
        notes.append(f"else {field['default']}")
    elif isinstance(required, list) and name in required:
        notes.append("needed")
    return f"{field.get('title') or name} ({'; '.join(notes)})" if notes else str(field.get("title") or name)
