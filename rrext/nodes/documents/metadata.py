"""The metadata of a file under the names that chunks carry: title, author, pages …"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from rrext.nodes.documents.limits import FRONT_MATTER, LONGEST_FACT, MOST_NAMES

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "title": ("title",),
    "author": ("authors", "author"),
    "subject": ("subject",),
    "keywords": ("keywords",),
    "created": ("created_at", "created"),
    "modified": ("modified_at",),
    "language": ("language",),
    "pages": ("page_count",),
    "sheets": ("sheet_names",),
    "from": ("from",),
    "to": ("to",),
    "cc": ("cc",),
    "attachments": ("attachments",),
    "warnings": ("warnings",),
}
"""Metadata key of chunks -> the parser's keys for it, best first."""
_JOINED: Final = frozenset({"author", "keywords", "language"})
"""Keys whose lists become one text."""
_TITLE: Final = re.compile(r"^title:[ \t]*(\S[^\n]*)$", re.MULTILINE)


def facts_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a parser as texts, numbers and lists of texts, under our keys. Empty values are left out."""
    facts: dict[str, Any] = {}
    for name, sources in _NAMES.items():
        for source in sources:
            value = _value(metadata.get(source))
            if name in _JOINED and isinstance(value, list):
                value = _shortened(", ".join(value))
            if value not in (None, "", [], 0):
                facts[name] = value
                break
    return facts


def front_matter_title(markdown: str) -> dict[str, Any]:
    """`{title}` if a Markdown file begins with front matter that has one."""
    if not markdown.startswith("---\n"):
        return {}
    end = markdown.find("\n---", 3, FRONT_MATTER)
    found = _TITLE.search(markdown, 4, max(end, 4))
    return {"title": _shortened(found[1].strip().strip("\"'"))} if found else {}


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return _shortened(value.strip())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if isinstance(value, list | tuple):
        texts = [_shortened(str(item)) for item in value[:MOST_NAMES]]
        return [*texts, "…"] if len(value) > MOST_NAMES else texts
    return None


def _shortened(text: str) -> str:
    """The text within its limit, and without characters that JSON or a database refuses: undecodable bytes of mails, nulls."""
    text = text[: LONGEST_FACT + 1].encode("utf-8", "replace").decode("utf-8").replace("\0", "")
    return text if len(text) <= LONGEST_FACT else text[: LONGEST_FACT - 1] + "…"
