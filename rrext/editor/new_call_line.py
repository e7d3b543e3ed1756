"""A new call line with an example input, to be completed by hand, because editors have no input forms."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from rrext.editor.analysis import Analysis
from rrext.editor.edits import Edit
from rrext.editor.schemas.examples import example_of
from rrext.editor.schemas.lookup import schemas_at
from rrext.editor.style import line_start
from rrext.pipefile.spec import ComponentSpec
from rrext.pipefile.text.tree import Located

_LINE_END: Final = re.compile(r"\r\n|\r|\n")


def example_input(schema: Mapping[str, Any]) -> dict[str, Any]:
    """An input with all required members: defaults and examples of the schema, else empty values."""
    value = example_of(schema, schemas_at(schema, ()))
    return value if isinstance(value, dict) else {}


def tool_words(tool: str, schema: Mapping[str, Any]) -> str:
    """The text of a comment that calls a tool."""
    return f"rrext tool {tool} {json.dumps(example_input(schema), ensure_ascii=False)}"


def written_line(analysis: Analysis, draft: ComponentSpec | None, words: str) -> Edit:
    """The edit that inserts a call line into a component, before its first key; at the top of the text without one."""
    words = words.encode("utf-8", "replace").decode()
    text = analysis.text
    found = _LINE_END.search(text)
    end = found[0] if found is not None else "\n"
    located = None if draft is None else analysis.map.find(draft.path)
    if located is None or located.kind != "object" or not text.startswith("{", located.start):
        top = 1 if text.startswith("\ufeff") else 0
        return Edit(top, top, f"// {words}{end}")
    line = _own_line(text, located)
    if line is not None:
        start, indent = line
        return Edit(start, start, f"{indent}// {words}{end}")
    inside, words = located.start + 1, words.replace("*/", "*\\/")  # in JSON, `\/` is a slash too
    return Edit(inside, inside, f" /* {words} */")


def _own_line(text: str, located: Located) -> tuple[int, str] | None:
    """The start of the first key's line, and its indentation; None if other text stands before the key."""
    keys = [child.key_span for child in located.children[:1] if child.key_span is not None]
    if not keys:
        return None
    key = keys[0][0]
    start = line_start(text, key)
    indent = text[start:key]
    return (start, indent) if start > located.start and not indent.strip(" \t") else None
