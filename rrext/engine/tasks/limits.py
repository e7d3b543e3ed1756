"""Constants of the engine's tasks: what it tells of them, and for how long."""

from __future__ import annotations

from typing import Final

MAX_REMOTE_TASKS: Final = 200
"""Pipelines that a user on a network may have running: each costs memory until it ends."""
REMOTE_TTL: Final = 900.0
"""Idle seconds until a pipeline of a network client ends, if the client names none: RocketRide's default."""
FINISHED_TASK_TIME: Final = 300.0
"""Seconds for which a task that ended answers for its status, as in the reference server."""
MAX_FINISHED_TASKS: Final = 1000
"""Ended tasks whose status is kept; a client that begins and ends tasks in a loop must not fill the memory."""
STATUS_INTERVAL: Final = 1.0
"""Seconds between two statuses of a task that a monitor is told, as in the reference server."""
MAX_MONITORS: Final = 1000
"""Monitors of one connection; each costs memory, and a look for each status."""
DEFAULT_PAGE: Final = 50
"""Rows of a page of a list, if the request does not say, as in the reference server."""
MAX_PAGE: Final = 100
"""Rows of a page at most, as in the reference server."""
RATE_WINDOW: Final = 5
"""Seconds over which the rates in the status of a task are averaged: enough for slow objects, and still current."""
MAX_SLOW_OBJECTS: Final = 10
"""The slowest objects in the status of a task, as in the reference server's."""
MAX_SLOW_NAME: Final = 200
"""Characters of the name of such an object, as in the reference server's."""
METRICS_INTERVAL: Final = 0.25
"""Seconds over which processor time is measured at least: the clock of the kernel is coarser than shorter times."""
MAX_KEPT_RESULT_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the results of pipes that failed, kept for their `close`."""
