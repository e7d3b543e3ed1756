"""Addresses of passages: `rrext-document:ID#char=START,END`, for clients that open what a hit, a read or an analysis cites.

The part behind `#` is that of RFC 5147: characters from 0 on, the end not included. An address says nothing of users and
spaces: a caller opens the document only if the caller may read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

SCHEME: Final = "rrext-document:"
_ADDRESS: Final = re.compile(r"rrext-document:([0-9a-z]{1,80})(?:#char=(\d{1,15}),(\d{1,15}))?", re.ASCII)


def address_of(public_id: str, start: int | None = None, end: int | None = None) -> str:
    """The address of a document, or of the characters from `start` to `end` in it."""
    return f"{SCHEME}{public_id}" + ("" if start is None or end is None else f"#char={start},{end}")


def ids_of(written: Iterable[str] | None) -> list[str]:
    """The ids of documents that are written as ids or addresses."""
    return [opened(each)[0] for each in written or ()]


def opened(written: str) -> tuple[str, tuple[int, int] | None]:
    """The id of a document that is written as an id or as an address, and the range that the address names."""
    found = _ADDRESS.fullmatch(written)
    if found is None:
        return written, None
    return found[1], None if found[2] is None else (int(found[2]), int(found[3]))
