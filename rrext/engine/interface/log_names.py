"""Values and requests in log lines: each text of a peer is one word, quoted if necessary."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import msgspec

PLAIN: Final = re.compile(r"[\w.:@/+-]+", re.ASCII)


@lru_cache(maxsize=1024)
def in_log(value: Any) -> str:
    """Format a value for a log line, in quotes if its text could be read as several values."""
    text = str(value)
    return text if PLAIN.fullmatch(text) else msgspec.json.encode(text.encode("utf-8", "replace").decode()).decode()


def request_name(request_id: object, connection_id: str | None) -> str:
    """Name a request in a log line, with its connection, because several clients may use the same number."""
    return f"request={in_log(request_id)} client={in_log(connection_id)}"
