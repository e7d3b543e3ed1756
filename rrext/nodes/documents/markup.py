"""Preparation of HTML: its title, and the page without its head, which the parser would write into the text."""

from __future__ import annotations

import html
import re
from typing import Final

_META: Final = re.compile(r"<(?:meta|link|base)\b[^<>]*>", re.IGNORECASE)
_TITLE_END: Final = re.compile(r"</title\s{0,9}>", re.IGNORECASE)
_TITLE: Final = re.compile(r"<title\b[^<>]{0,500}>", re.IGNORECASE)
_HEAD: Final = re.compile(r"<head\b[^<>]{0,500}>", re.IGNORECASE)
_HEAD_END: Final = re.compile(r"</head\s{0,9}>", re.IGNORECASE)


def without_head(page: str) -> tuple[str, str]:
    """Return the page without the content of its head, and its title, "" if it has none."""
    title = ""
    begin = _TITLE.search(page)
    end = _TITLE_END.search(page, begin.end()) if begin else None
    if begin and end:
        title = " ".join(html.unescape(page[begin.end() : end.start()]).split())
        page = page[: begin.start()] + page[end.end() :]
    begin = _HEAD.search(page)
    end = _HEAD_END.search(page, begin.end()) if begin else None
    if begin and end:
        page = page[: begin.end()] + page[end.start() :]
    return _META.sub("", page), title
