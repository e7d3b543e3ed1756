"""A node whose tool keeps a core busy."""

from __future__ import annotations

import time

from rrext import Node, tool_function


class Busy(Node):
    """Works, and does nothing."""

    provider = "bench_busy"

    @tool_function
    def spin(self, seconds: float) -> dict[str, int]:
        """Count as far as one can in so many seconds."""
        until, count = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            count += 1
        return {"count": count}
