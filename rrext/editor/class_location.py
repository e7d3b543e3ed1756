"""The source location of a node's class."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import msgspec

from rrext.nodes.base.node import Node
from rrext.pipefile.text.problems import Span


class ClassLocation(msgspec.Struct, frozen=True):
    """A class in a Python file: `line` counts from 0, `name` is the span of its name in that line."""

    path: Path
    line: int
    text: str
    name: Span


def class_location_of(node: type[Node]) -> ClassLocation | None:
    """The location of a class; None if no file defines it. Reads the file."""
    try:
        file = inspect.getsourcefile(node)
        lines, start = inspect.getsourcelines(node)
    except (OSError, TypeError, SyntaxError):  # built in, in a zip, made by code, or changed since it was loaded
        return None
    if file is None or not Path(file).is_file():
        return None
    for index, text in enumerate(lines):
        found = re.match(rf"\s*class\s+({re.escape(node.__name__)})\b", text)
        if found is not None:
            return ClassLocation(Path(file).resolve(), start - 1 + index, text, found.span(1))
    return None
