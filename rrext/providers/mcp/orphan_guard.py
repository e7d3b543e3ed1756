"""`OrphanGuard`: a small shell that kills a server after our end, however we ended."""

from __future__ import annotations

import logging
import subprocess
from typing import Final

_SCRIPT: Final = 'read -r released || kill -s KILL -- "-$1"'

log = logging.getLogger(__name__)


class OrphanGuard:
    """Its stdin ends with this process, even by SIGKILL; a server that ignores the end of its own stdin is killed then."""

    def __init__(self, group: int) -> None:
        """Guard a process group; where no shell can be started, without effect."""
        self._shell: subprocess.Popen[bytes] | None = None
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "sh", str(group)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        except OSError as error:
            log.debug("no guard for the process group %d: %s", group, error)

    def release(self) -> None:
        """The group has ended: end the guard too, in a thread."""
        if self._shell is not None:
            self._shell.communicate(b"\n")
