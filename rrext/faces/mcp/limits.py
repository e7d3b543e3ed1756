"""Constants of the Model Context Protocol's face."""

from __future__ import annotations

from typing import Final

PAGE_SIZE: Final = 250
"""Tools in one answer to `tools/list`. Hosts show a model a tenth of that; a page stays far below the size of a frame."""

TTL: Final = 60.0
"""Seconds for which a client may keep the list of tools. Loaded pipelines stay, but tools can become unavailable."""
