"""Limits of Composio's catalog. Times are seconds."""

from __future__ import annotations

from typing import Final

# catalog.py
CATALOG_TTL: Final = 300.0
"""Seconds that the tools of an integration and the state of an account count as known."""
PAGE_SIZE: Final = 100
"""Tools asked for at once."""
MAX_PAGES: Final = 50
"""Pages of one integration; further tools are left out."""
