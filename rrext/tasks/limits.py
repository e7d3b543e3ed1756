"""Constants of task processes, each with its reason."""

from __future__ import annotations

from typing import Final

from rrext.limits import KIB

STDERR_TAIL: Final = 4 * KIB
"""Bytes of the last words of a process that an error tells: a traceback of a crash, and not its whole log."""
STDERR_KEPT: Final = 2 * STDERR_TAIL
"""Bytes of them that are kept. A secret at their beginning may be cut, and cannot be found: the first half is not told."""
