"""Which lane an object takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rrext.engine.flow.intake import Intake
from rrext.errors import InvalidArguments
from rrext.nodes.base.lanes import LANES, choose_lane, new_question


def everything(lane: str) -> bool:
    return True


def nothing(lane: str) -> bool:
    return False


@pytest.mark.parametrize("lane", LANES)
def test_a_lane_that_is_named_is_taken_whether_or_not_anybody_listens(lane: str) -> None:
    assert choose_lane(f"lane/{lane}", nothing) == lane


@pytest.mark.parametrize(
    ("mime_type", "lane"),
    [
        ("application/rocketride-question", "questions"),
        ("application/rocketride-question;version=2", "questions"),
        ("application/rocketride-question+json", "questions"),
        ("application/json", "json"),
        ("application/json; charset=utf-8", "json"),
        ("text/plain", "text"),
        ("TEXT/Markdown; charset=utf-8", "text"),
        ("image/png", "image"),
        ("audio/ogg", "audio"),
        ("video/mp4", "video"),
    ],
)
def test_a_mime_type_takes_its_lane_if_a_node_listens_there_and_is_raw_bytes_otherwise(mime_type: str, lane: str) -> None:
    assert choose_lane(mime_type, lambda name: name == lane) == lane
    assert choose_lane(mime_type, nothing) == "tags"


@pytest.mark.parametrize("mime_type", ["application/octet-stream", "application/pdf", "font/woff", "application/rocketlib-tag"])
def test_every_other_mime_type_is_raw_bytes(mime_type: str) -> None:
    assert choose_lane(mime_type, everything) == "tags"


def test_a_lane_that_does_not_exist_is_refused_with_near_matches() -> None:
    with pytest.raises(InvalidArguments) as refused:
        choose_lane("lane/question", everything)
    assert "Invalid lane question" in refused.value.message
    assert refused.value.data["near"] == ["questions"]
    assert refused.value.hint == "Did you mean lane/questions?"
    assert refused.value.data["errors"][0]["path"] == "/mimeType"


@pytest.mark.parametrize("pseudo_lane", ["open", "closing", "close", "_source"])
def test_the_pseudo_lanes_are_no_lanes_for_clients(pseudo_lane: str) -> None:
    with pytest.raises(InvalidArguments):
        choose_lane(f"lane/{pseudo_lane}", everything)


@pytest.mark.parametrize("mime_type", ["", "text", "/plain", "text/", "lane/", ";"])
def test_what_is_no_mime_type_is_refused(mime_type: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        choose_lane(mime_type, everything)
    assert refused.value.data["errors"][0]["path"] == "/mimeType"


@pytest.mark.parametrize("lane", LANES)
def test_every_lane_has_an_intake(lane: str) -> None:
    assert Intake(lane, f"lane/{lane}").lane == lane


def test_a_new_question_shares_nothing_with_the_next_one() -> None:
    first, second = new_question("a"), new_question("b", role="pilot")
    first["filter"]["limit"] = 1
    first["context"].append("x")
    assert (second["filter"]["limit"], second["context"], second["role"]) == (25, [], "pilot")
    assert second["questions"] == [{"text": "b", "embedding_model": None, "embedding": None}]


def test_a_new_lane_is_one_line_in_the_table() -> None:
    program = Path(__file__).with_name("new_lane.py")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["problems"] == []
    assert "a chart, an object" in found["page"]
    assert "charts" in found["offers"]
    assert found["result"]["charts"] == [{"bars": 3}]
    assert found["emitted"] == {"charts": [{"bars": 4}]}
