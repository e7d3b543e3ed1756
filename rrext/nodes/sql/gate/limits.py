"""Limits of the gate for SQL statements: sizes in characters."""

from __future__ import annotations

from typing import Final

# lexer.py
MAX_TOKENS: Final = 20_000
"""Words, literals and signs of a statement that is judged, beside those of plain lists: some 25 ms of scanning."""
SCAN_STEPS: Final = 1000
"""Doubled quotes and escapes that one step of the scan passes over; between steps other threads run."""
NESTED_COMMENTS: Final = 100
"""The maximum depth of nested comments."""

# inspection.py
LONGEST_NAME: Final = 80
"""Characters of a name that a message repeats."""

# gate.py
MAX_STATEMENT: Final = 4 * 1024 * 1024
"""Characters of a statement that is judged: a list of some 500,000 numbers. Values belong into parameters."""
CACHE_ENTRIES: Final = 1024
"""Statements that a gate remembers; programs repeat a few dozen."""
CACHE_BYTES: Final = 4 * 1024 * 1024
"""Characters of remembered statements: a few huge ones must not fill the memory."""

# placeholders.py
PLACEHOLDERS_KEPT_OF: Final = 4096
"""Characters of a statement whose placeholders are kept."""
