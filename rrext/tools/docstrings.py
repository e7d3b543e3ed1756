"""Docstrings as data: the text and the description of each parameter, from Google, NumPy and reST styles."""

from __future__ import annotations

import re

import msgspec

_SECTION = r"(Args|Arguments|Parameters|Params|Keyword Args|Attributes):\s*$"
_NUMPY_SECTION = r"(Parameters|Other Parameters|Attributes)\s*$"
_NUMPY_RULE = r"-{3,}\s*$"
_GOOGLE_ITEM = r"\*{0,2}([A-Za-z_]\w*)\s*(?:\([^)]*\))?\s*:\s*(.*)$"
_NUMPY_ITEM = r"\*{0,2}([A-Za-z_]\w*)\s*(?::.*)?$"
_REST_ITEM = r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*?\s)?\*{0,2}([A-Za-z_]\w*)\s*:\s*(.*)$"
_REST_TYPE = r":type\s+\w+\s*:"


class Docstring(msgspec.Struct, frozen=True):
    """A docstring: `text` without its parameters, and in `parameters` one line of text for each."""

    text: str
    parameters: dict[str, str]


def parse_docstring(doc: str | None) -> Docstring:
    """Read a docstring. Sections of unknown style stay in the text; nothing is an error."""
    if not doc:
        return Docstring("", {})
    if ":" not in doc and doc.isprintable():  # one line
        return Docstring(doc.strip(), {})
    from inspect import cleandoc

    lines = cleandoc(doc).splitlines()
    kept: list[str] = []
    found: dict[str, list[str]] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        if re.match(_SECTION, line):
            taken, items = _google_items(lines, at + 1)
        elif re.match(_NUMPY_SECTION, line) and at + 1 < len(lines) and re.match(_NUMPY_RULE, lines[at + 1]):
            taken, items = _numpy_items(lines, at + 2)
        elif match := re.match(_REST_ITEM, line):
            end = _indented(lines, at + 1)
            items, taken = {match[1]: [match[2], *lines[at + 1 : end]]}, end
        elif re.match(_REST_TYPE, line):
            items, taken = {}, at + 1
        else:
            kept.append(line)
            at += 1
            continue
        if taken == at + 1 and not items and not re.match(_REST_TYPE, line):
            kept.append(line)  # a heading with nothing below it is text
        found.update(items)
        at = taken
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return Docstring(text, {name: " ".join(" ".join(part).split()) for name, part in found.items()})


def _google_items(lines: list[str], start: int) -> tuple[int, dict[str, list[str]]]:
    end = _indented(lines, start, blank=True)
    items: dict[str, list[str]] = {}
    current: list[str] | None = None
    base = _margin(lines[start]) if start < end else 0
    for line in lines[start:end]:
        match = re.match(_GOOGLE_ITEM, line.strip()) if _margin(line) == base else None
        if match:
            current = items.setdefault(match[1], [match[2]])
        elif current is not None:
            current.append(line)
    return (end, items) if items else (start, {})


def _numpy_items(lines: list[str], start: int) -> tuple[int, dict[str, list[str]]]:
    items: dict[str, list[str]] = {}
    at = start
    while at < len(lines) and (match := re.match(_NUMPY_ITEM, lines[at])):
        if at + 1 < len(lines) and re.match(_NUMPY_RULE, lines[at + 1]):
            break  # the next section
        end = _indented(lines, at + 1, blank=True)
        items[match[1]] = lines[at + 1 : end]
        at = end
    return at, items


def _indented(lines: list[str], start: int, *, blank: bool = False) -> int:
    """The index after the indented lines from `start`; blank lines among them count if `blank`."""
    at = start
    while at < len(lines) and (lines[at].startswith((" ", "\t")) or (blank and not lines[at].strip())):
        at += 1
    return at


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip())
