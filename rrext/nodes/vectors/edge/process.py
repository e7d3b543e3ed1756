"""The process of an embedded store as the server sees it."""

from __future__ import annotations

import os
from typing import Final

from rrext.nodes.child.engine import ChildEngine
from rrext.nodes.child.launch import module_command
from rrext.nodes.vectors.edge.messages import StoreSettings

CLOSED: Final = "This vector store is closed: its pipeline ends"
_CRASHED: Final = (
    "store_crashed",
    (
        "Call again: another one is started then, and whatever was answered is still stored. "
        "SIGBUS means a full disk, SIGKILL often that memory was short; its own words are in the server's log."
    ),
)


class EdgeProcess(ChildEngine):
    """A process with the store of one folder open."""

    def __init__(self, path: str, shown: str, min_free: int, wait: float) -> None:
        """Start it. Raises `Unavailable` if that cannot be."""
        command = module_command("rrext.nodes.vectors.edge.worker")
        settings = StoreSettings(path, shown, min_free, wait, os.getpid())
        super().__init__(command, settings, what=f'the vector store in "{shown}"', crash=_CRASHED, closed=CLOSED)
