"""The command line."""

from __future__ import annotations

import os
from typing import Final

PARENT: Final = os.getppid()
"""The parent of this process at its start: it may die before a server watches it."""
