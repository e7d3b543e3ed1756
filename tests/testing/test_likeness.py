"""What may differ between a recorded answer and a replayed one, and what may not."""

from __future__ import annotations

from time import time
from typing import Any
from uuid import UUID, uuid4, uuid5

import pytest

from rrext.testing.likeness import Likeness, RunLikeness

THEN = time() - 3600
SPACE = UUID(int=7)
A, B = "0123456789abcdef" * 2, "fedcba9876543210" * 2


def differing(recorded: Any, replayed: Any) -> list[str]:
    run = RunLikeness(THEN, {"KEY": "correct-horse"}.get)
    run.reached = THEN + 60
    like = Likeness(run)
    like.learn(recorded, replayed)
    return [each.path for each in like.differences(recorded, replayed)]


@pytest.mark.parametrize(
    ("recorded", "replayed"),
    [
        ({"pipe_id": 7}, {"pipe_id": 9}),
        ({"handle": "h1"}, {"handle": "h4"}),
        ({"result": str(uuid4())}, {"result": str(uuid4())}),
        ({"id": f"{A[:8]}.web", "token": f"tk_{A}"}, {"id": f"{B[:8]}.web", "token": f"tk_{B}"}),
        ({"result": {"run_id": A, "told": f"run {A} is done"}}, {"result": {"run_id": B, "told": f"run {B} is done"}}),
        ({"result": {"at": THEN + 5, "ms": int(THEN * 1000)}}, {"result": {"at": time(), "ms": int(time() * 1000)}}),
        ({"result": {"seconds": 1.5}}, {"result": {"seconds": 2.25}}),
        ({"result": "<${KEY}>"}, {"result": "<correct-horse>"}),
        (
            {"name": str(uuid4()), "objectId": str(uuid5(SPACE, "a"))},
            {"name": str(uuid4()), "objectId": str(uuid5(SPACE, "b"))},
        ),
        ({"result": {"$any": True}}, {"result": {"$any": True}}),
    ],
)
def test_what_a_server_makes_anew_each_time_is_alike(recorded: Any, replayed: Any) -> None:
    assert differing(recorded, replayed) == []


@pytest.mark.parametrize(
    ("recorded", "replayed", "path"),
    [
        ({"result": {"pipe_id": 7}}, {"result": {"pipe_id": 9}}, "/result/pipe_id"),
        ({"result": {"digest": A}}, {"result": {"digest": B}}, "/result/digest"),
        ({"result": {"call": 1}}, {"result": {"call": 2}}, "/result/call"),
        ({"result": {"seconds": 5}}, {"result": {"seconds": 6}}, "/result/seconds"),
        ({"result": {"duration": 1.5}}, {"result": {"duration": 2.5}}, "/result/duration"),
        ({"result": {"metrics": {"f1": 0.5}}}, {"result": {"metrics": {"f1": 0.4}}}, "/result/metrics/f1"),
        ({"result": {"year": 1999.0}}, {"result": {"year": 2001.0}}, "/result/year"),
        ({"result": THEN - 86400}, {"result": THEN - 86000}, "/result"),
        ({"result": "<${KEY}>"}, {"result": "<wrong-horse>"}, "/result"),
        ({"result": True}, {"result": 1}, "/result"),
        ({"result": {"$any": True}}, {"result": {"$any": False}}, "/result"),
        (
            {"name": "a.txt", "objectId": str(uuid5(SPACE, "a"))},
            {"name": "a.txt", "objectId": str(uuid5(SPACE, "b"))},
            "/objectId",
        ),
    ],
)
def test_what_a_tool_says_is_no_id_and_no_time_for_its_name(recorded: Any, replayed: Any, path: str) -> None:
    assert differing(recorded, replayed) == [path]
