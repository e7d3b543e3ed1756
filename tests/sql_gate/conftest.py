"""The opened database nodes of `tests/sql` serve here too, and the MariaDB of `tests/sql_servers`."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS / "sql"), str(TESTS / "sql_servers")]
