"""Limits that SQL and graph databases share; times in seconds."""

from __future__ import annotations

from typing import Final

# cells.py

# node.py and calls.py of both families
QUERY_ROWS: Final = 1000
"""Rows of `query` unless the caller says how many: enough to look at, and little to send."""
