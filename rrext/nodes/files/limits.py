"""Limits of `tool_filesystem` that others have too."""

from __future__ import annotations

from typing import Final

from rrext.limits import MIB

# filesystem.py
READ_MAX: Final = 4 * MIB
"""Bytes of a file that one call reads: an answer has a limit, and a model a smaller one."""
LIST_MAX: Final = 10_000
"""Entries of a folder, or files, in one answer."""
