"""Limits of documents: sizes in bytes or characters."""

from __future__ import annotations

# split.py
SMALLEST_CHUNK, LARGEST_CHUNK = 16, 100_000
"""Units of a piece: below, words are cut; above, a store may not take it."""

# worker.py

# workbook.py, cell_formats.py: of the format of workbooks
ROWS, COLUMNS = 1_048_576, 16_384
"""How many rows and columns a sheet has at most."""
