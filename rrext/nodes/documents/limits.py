"""Limits of documents: sizes in bytes or characters."""

from __future__ import annotations

from typing import Final

# mail.py
MAX_NESTING: Final = 4
"""Mails in mails; a forwarded thread has two or three."""
MAX_ATTACHMENTS: Final = 100
"""Attachments of one mail that are read; the others are named in a warning."""

# measures.py
LONGEST: Final = 200_000
"""Characters of one piece, whatever its size in tokens: a store takes no more."""

# boundaries.py
LOOKAHEAD: Final = 256
"""Characters that are looked at behind a cut: the next word's begin, a heading's line."""

# tables.py
HEADER_LINES: Final = 2
"""A Markdown table begins with its columns' names and a rule."""

# split.py
BATCH: Final = 256
"""Chunks that are sent on at a time: stores and embedders work on hundreds at once, and memory holds no more."""
