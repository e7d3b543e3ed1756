"""Constants of the pipelines of network clients."""

from __future__ import annotations

from typing import Final

MAX_REMOTE_TASKS: Final = 200
"""Pipelines that a user on a network may have running: each costs memory until it ends."""
REMOTE_TTL: Final = 900.0
"""Idle seconds until a pipeline of a network client ends, if the client names none: RocketRide's default."""
