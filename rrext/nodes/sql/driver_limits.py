"""Limits of SQL databases: sizes in bytes or characters, times in seconds."""

from __future__ import annotations

from typing import Final

MOST_WARNINGS: Final = 100
"""Warnings of one statement that an answer has at most."""

CANCEL_TIMEOUT: Final = 5.0
"""Seconds for the connection that carries a KILL QUERY."""

POSTGRES_CHUNK: Final = 64
"""Rows that the server's answer is cut into: large enough that their number costs nothing, small enough for wide rows."""
LARGEST_CHUNK: Final = 256 * 1024 * 1024
"""Bytes of such a piece, which libpq holds in memory: rows of 4 MB."""

KEPT_STATEMENTS: Final = 512
"""Statements whose parameter types are cached; programs repeat a few dozen."""
LONGEST_KEPT: Final = 16 * 1024
"""Characters of a statement that is cached."""

MORE_ROWS: Final = 1024
"""Rows of a later fetch; fewer if they are large."""
