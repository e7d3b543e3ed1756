"""Limits of the analysis of pipeline files in an editor: lengths in characters, depths in levels."""

from __future__ import annotations

from typing import Final

# fixes
MAX_FIXES: Final = 5
"""Fixes of one kind that are offered for a problem; for more, completion is the better choice."""
MAX_VALUE_FIXES: Final = 6
"""Names or values that are offered if none resembles the invalid one."""
