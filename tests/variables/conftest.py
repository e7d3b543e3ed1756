"""Servers of HTTP APIs, for secrets that are sent to them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "providers"))
