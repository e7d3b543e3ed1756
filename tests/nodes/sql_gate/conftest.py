"""The opened database nodes of `tests/nodes/sql` serve here too, and the MariaDB of `tests/nodes/sql_servers`."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDERS = Path(__file__).parent.parent
sys.path[:0] = [str(FOLDERS / "sql"), str(FOLDERS / "sql_servers")]
