"""Limits of `tool_filesystem` and of locks on files: sizes in bytes, times in seconds."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# confinement.py
MAX_PATH: Final = 4096
"""Characters of a path; what Linux takes at once."""
MAX_DEPTH: Final = 128
"""Components of a path; each one costs a system call."""
SCAN_STEP: Final = 1024
"""Names of a directory that are read between two looks at the caller's deadline."""

# filesystem.py
READ_DEFAULT: Final = 256 * KIB
READ_MAX: Final = 4 * MIB
LIST_DEFAULT: Final = 1000
LIST_MAX: Final = 10_000
