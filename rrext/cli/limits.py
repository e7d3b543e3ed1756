"""Limits of the command line: widths in columns, times in seconds."""

from __future__ import annotations

from typing import Final

MAX_LINE_WIDTH: Final = 120
"""Columns of a line of the file in the output; longer ones are cut around the problem."""
OUTPUT_FLUSH_TIMEOUT: Final = 0.2
"""Seconds that the last output may wait for its reader."""
DEFAULT_ROWS: Final = 1000
"""Rows of a table by default."""
MAX_ROWS: Final = 25_000
"""Rows of a table at most: of one answer of a node."""
CHUNK_ROWS: Final = 5000
"""Rows of other forms that are written at once; the node sends fewer large ones."""
MIN_COLUMN_WIDTH: Final = 8
"""The minimal width of a readable column; below it, rows are lists."""
FIGURES_WIDTH: Final = 16
"""What a score and the gaps take of a table of chunks; the text and the path of its file share the rest."""
MAX_MEMBER_WIDTH: Final = 60
"""Columns of a nested member beside a table, where a list of all paths would hide the table."""
MAX_UNASKED_REMOVALS: Final = 10
"""The number of removed files that are deleted without a question, if others are left."""
SETTLED_NANOSECONDS: Final = 2_000_000_000
"""Nanoseconds after which a change must show in a file's times, also on file systems with two-second steps."""
MAX_CALL_OBJECTS: Final = 500
"""Objects in one call of a store's tool."""
MIN_WRAPPED_WIDTH: Final = 16
"""The minimal width of a wrapped column; below it, rows are lists."""
MIN_TERMINAL_WIDTH: Final = 40
"""The assumed width of a narrower terminal."""
MAX_LISTED_VALUES: Final = 5
"""Values of an enumeration in the table; `--json` has all."""
MAX_CHAT_MESSAGES: Final = 40
"""Messages of a chat that go with the next question; older ones are forgotten."""
