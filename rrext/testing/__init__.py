"""Tests of tools, nodes and pipelines in this process, through the same code as in a server.

`call_tool`, `run_node` and `run_pipeline` block, for plain tests. `open_node`, `open_pipeline` and `pair` give a `Client`, for
`async` tests on asyncio.
"""

from __future__ import annotations

from rrext.testing.nodes import call_tool, open_node, open_pipeline, run_node, run_pipeline
from rrext.testing.sessions import ManualClock, pair

__all__ = ["ManualClock", "call_tool", "open_node", "open_pipeline", "pair", "run_node", "run_pipeline"]
