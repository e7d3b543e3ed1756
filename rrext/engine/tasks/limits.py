"""Constants of the engine's tasks: what it tells of them, and for how long."""

from __future__ import annotations

from typing import Final

STATUS_INTERVAL: Final = 1.0
"""Seconds between two statuses of a task that a monitor is told, as in the reference server."""
