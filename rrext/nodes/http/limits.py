"""Limits of requests to HTTP services: sizes in bytes or characters, times in seconds."""

from __future__ import annotations

from typing import Final

# events.py
MAX_EVENT: Final = 4 * 1024 * 1024
"""Characters of one event, or of a line without an end; an event of a model has a few hundred."""
