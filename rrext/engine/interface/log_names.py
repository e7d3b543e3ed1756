"""Values and requests in the log: the text of a peer reads as one word."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import msgspec

PLAIN: Final = re.compile(r"[\w.:@/+-]+", re.ASCII)


@lru_cache(maxsize=1024)
def in_log(value: Any) -> str:
    """A value, in quotes if it could be read as more than one."""
    text = str(value)
    return text if PLAIN.fullmatch(text) else msgspec.json.encode(text.encode("utf-8", "replace").decode()).decode()


def request_name(request_id: object, connection_id: str | None) -> str:
    """A request, whose number alone several clients may have given."""
    return f"request={in_log(request_id)} client={in_log(connection_id)}"
