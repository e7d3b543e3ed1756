"""`rrext nodes`: the catalog, for people and programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_terminal import at_terminal
from commands import NODES, call

from rrext.cli.main import main
from rrext.nodes import BUILTIN

OWN = '''
from typing import Annotated

from rrext import Node, tool_function


class Forecast(Node):
    """Tells the weather."""

    provider = "forecast"
    aliases = ("tool_forecast",)
    lanes = {"questions": ("answers",), "text": ()}
    invoke = {"llm": {"description": "thinks", "min": 1, "max": 1}}
    profiles = {"small": {"units": "metric"}}
    default_profile = "small"

    class Config:
        units: Annotated[str, "metric or imperial"] = "metric"
        key: str

    @tool_function
    def ask(self, city: str) -> dict:
        """Ask for a city."""
        return {}

    @classmethod
    def unavailable(cls):
        return "the sky is missing; pip install sky"
'''


def nodes(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(["nodes", *args])
    done = capsys.readouterr()
    return code, done.out, done.err


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "forecast_for_nodes.py"
    path.write_text(OWN)
    return str(path)


def test_every_built_in_node_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = nodes(capsys)
    assert code == 0
    assert {line.split()[0] for line in out.splitlines()} >= set(BUILTIN)
    assert "tools: put, get, list, clear" in out


def test_one_node_shows_everything_about_it(capsys: pytest.CaptureFixture[str], own: str) -> None:
    code, out, _ = nodes(capsys, "--nodes", own, "forecast")
    assert code == 0
    for text in (
        "Tells the weather.",
        "not available here: the sky is missing; pip install sky",
        "other names: tool_forecast",
        "questions → answers",
        "takes text",
        "llm (exactly 1)  thinks",
        'units (string, default "metric")  metric or imperial',
        "key (string, required)",
        'small (default)  {"units":"metric"}',
        "Ask for a city.",
        '"required": [',
    ):
        assert text in out


def test_json_is_what_rrext_services_answers(capsys: pytest.CaptureFixture[str], own: str) -> None:
    code, out, _ = nodes(capsys, "--nodes", own, "--json", "tool_forecast")
    found = json.loads(out)
    assert code == 0
    assert (found["prefix"], found["protocol"], found["tools"][0]["name"]) == ("forecast", "forecast://", "ask")
    assert found["unavailable"].startswith("the sky is missing")
    everything = json.loads(nodes(capsys, "--json")[1])
    assert set(everything["services"]) >= set(BUILTIN)


def test_an_unknown_name_is_a_usage_error_with_near_ones(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = nodes(capsys, "webhok")
    assert (code, out) == (2, "")
    assert "webhook" in err


# rrext schema


def test_the_command_prints_the_schema_also_with_nodes_of_ones_own() -> None:
    schema = call("schema").value
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "tool_filesystem" in schema["$defs"]
    with_own = call("schema", "--closed", "--nodes", NODES).value
    assert with_own["additionalProperties"] is False
    assert "kinds" in with_own["$defs"]
    assert call("schema", "--nodes", "nowhere.py").code == 2


@pytest.mark.parametrize("words", [[], ["store_qdrant_edge"]])
def test_a_terminal_gets_lines_that_fit_it(words: list[str], tmp_path: Path) -> None:
    with at_terminal(["nodes", *words], folder=tmp_path, columns=60) as terminal:
        assert terminal.ended() == 0
    assert all(len(line) <= 60 for line in terminal.shown.splitlines())
    assert any(len(line) > 60 for line in call("nodes", *words).out.decode().splitlines())
