"""`python -m rrext`."""

from __future__ import annotations

import sys

from rrext.cli import start

sys.exit(start())
