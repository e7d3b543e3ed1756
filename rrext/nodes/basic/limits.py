"""Limits of basic nodes: sizes in bytes or characters, times in seconds."""

from __future__ import annotations

from typing import Final

# response.py
MAX_MEDIA: Final = 16 * 1024 * 1024
"""Bytes of an image, a sound or a film in the result of a pipe: as much as a frame carries."""
