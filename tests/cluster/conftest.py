"""What the tests of a cluster take from those of tasks."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "routing"), str(TESTS / "faces"), str(TESTS / "tasks"), str(TESTS / "providers")]
