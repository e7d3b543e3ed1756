"""A request passes from module to module no more often than it did."""

from __future__ import annotations

import pytest
from walk import WALKS, walk_of

MOST = {
    "`def` tool": (28, 12),
    "`async def` tool": (29, 12),
    "open, write, close": (143, 118),
    "`rrext tool FILE`": (673, 602),
}
"""The stays and returns that were reached, and a few more, because several threads take part."""


RUNS = 8
"""Walks of a tool, of which the shortest counts: on a busy machine a thread may look at the loop once more."""


def test_a_stay_is_a_run_of_calls_in_one_file() -> None:
    walk = walk_of([("a.py", "f"), ("a.py", "g"), ("b.py", "f"), ("a.py", "f"), ("c.py", "f")])
    assert walk[:3] == (4, 1, 3)


@pytest.mark.parametrize("title", WALKS)
def test_a_request_takes_no_longer_way(title: str) -> None:
    walk = min((WALKS[title]() for _ in range(RUNS if title.endswith("tool") else 1)), key=lambda walk: walk.stays)
    stays, returns = MOST[title]
    assert walk.stays <= stays, walk
    assert walk.returns <= returns, walk
