"""The JSON Schema of pipeline files agrees with the check, as far as one value shows what is wrong.

`sample_nodes.load` compares both for every document of the tests of this folder, too.
"""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from sample_nodes import SEEN, Weather, component, echo, pipeline

from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline
from rrext.pipefile.pipeline_schema import pipeline_schema
from rrext.pipefile.text.problems import CODES
from rrext.pipefile.text.source import read

TESTS = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((TESTS / "examples").glob("*.pipe"))
UNSEEN = {
    "misplaced_key": "a node without a form may have settings of any name",
    "provider_unavailable": "the node's code decides",
    "node_unavailable": "the machine decides",
    "missing_file": "the machine decides",
    "caution": "the node's code decides",
    "package_not_offered": "the operator of a server decides",
    "not_on_cluster": "the operator of a server decides",
    "invalid_resources": "the number that a size has",
    "not_permitted": "the operator of a server decides",
    "tool_undescribed": "the node's code decides",
    "duplicate_id": "two components",
    "unresolved_variable": "the environment decides",
    "variable_not_allowed": "the environment decides",
    "from_not_found": "two components",
    "lane_not_offered": "the other end of the edge decides",
    "control_on_invoker": "the other end of the edge decides",
    "cycle": "all edges together",
    "control_cycle": "all edges together",
    "invalid_reference": "the tool that it names has the parameters",
    "reference_not_found": "two components",
    "duplicate_reference": "all references of a node together",
    "source_not_found": "the root and a component",
    "not_a_source": "the root and a component",
    "cannot_run": "all components together",
}
"""Errors in the value that no schema can see, and why."""
IN_TEXT = {code for code in CODES if list(CODES).index(code) < list(CODES).index("wrong_type")}
"""Errors of the text: where it is read, there is a value."""
CATALOG = Catalog(installed=False)


@cache
def validator(*, closed: bool = False) -> Draft202012Validator:
    return Draft202012Validator(pipeline_schema(CATALOG, closed=closed))


def value_of(path: Path) -> Any:
    return read(path.read_bytes()).value


def test_every_error_is_seen_or_has_a_reason_why_not() -> None:
    errors = {code for code, (severity, _) in CODES.items() if severity == "error"}
    assert errors <= SEEN | UNSEEN.keys() | IN_TEXT
    assert not SEEN & UNSEEN.keys()


@pytest.mark.parametrize("closed", [False, True])
def test_it_is_a_schema_of_draft_2020_12_without_loose_references(closed: bool) -> None:
    schema = pipeline_schema(CATALOG, closed=closed)
    Draft202012Validator.check_schema(schema)
    text = json.dumps(schema)
    used = {part.split('"')[0] for part in text.split("#/$defs/")[1:]}
    assert used <= schema["$defs"].keys()
    assert set(CATALOG.names()) <= used


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_accepted(path: Path, closed: bool) -> None:
    assert not list(validator(closed=closed).iter_errors(value_of(path)))


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ([], "wrong_type"),
        (echo(version="1"), "wrong_type"),
        (pipeline(component("w", "webhook"), {"id": "a", "provider": "prompt", "config": []}), "wrong_type"),
        ({}, "missing_key"),
        (pipeline(component("w", "webhook"), {"provider": "prompt", "config": {}}), "missing_key"),
        (echo(version=2), "invalid_version"),
        (pipeline(*(component(f"w{n}", "webhook") for n in range(100_000))), "too_many_components"),
        (pipeline(component("w", "webhok")), "unknown_provider"),
        (pipeline(component("w", "webhook"), component("g", "tool_github")), "foreign_provider"),
        (pipeline(component("${ROCKETRIDE_A}", "webhook")), "variable_in_name"),
        (echo(project_id="${ROCKETRIDE_A}"), "variable_in_project_id"),
        (pipeline(component("w", "webhook"), component("m", "llm_openai", profile="gpt-99")), "profile_not_found"),
        (pipeline(component("w", "webhook"), component("s", "split", size="x")), "invalid_config"),
        (pipeline(component("w", "webhook"), component("s", "llm_scripted", script=[{"match": 1}])), "invalid_config"),
        (pipeline(component("w", "webhook"), component("o", "response_text", "txt:w")), "unknown_lane"),
        (pipeline(component("w", "webhook"), component("o", "response_text", "tags:w")), "lane_not_accepted"),
        (pipeline(component("w", "webhook"), component("p", "prompt", control="tool:w")), "class_type_not_served"),
        (pipeline(component("t", "tools", tools=[{"type": "node", "node": "t"}])), "invalid_reference"),
        (pipeline(component("p", "prompt")), "no_source"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
@pytest.mark.promise("schema:agrees-with-check")
def test_what_one_value_shows_is_refused(document: Any, code: str) -> None:
    found = load_pipeline(document, CATALOG, Environment(), strict_env=False)
    assert code in {problem.code for problem in found.errors}
    assert next(validator().iter_errors(document), None) is not None


@pytest.mark.parametrize(
    "config",
    [
        {"profile": "gpt-4-1", "gpt-4-1": {"apikey": "${ROCKETRIDE_KEY}"}, "parameters": None},
        {"profile": "gpt-4-1"},
        {"profile": None, "apikey": "${ROCKETRIDE_KEY}"},
        {"profile": "gpt-4-1", "o3": {"apikey": 3}, "beside": 1},
        {"apikey": "${ROCKETRIDE_KEY}", "unheard": 1},
    ],
)
def test_profiles_variables_and_unknown_keys_are_accepted(config: dict[str, Any]) -> None:
    document = pipeline(component("c", "chat"), component("m", "llm_openai", "questions:c", **config))
    assert not load_pipeline(document, CATALOG, Environment(), strict_env=False).errors
    assert not list(validator().iter_errors(document))


def test_what_is_a_warning_for_pipelines_of_rocketride_is_accepted() -> None:
    split = component("s", "preprocessor_langchain", "text:w", profile="latex", latex={"size": 300})
    document = pipeline({"id": "w", "provider": "webhook"}, {"id": "c", "provider": "chat"}, split)
    for closed in False, True:
        assert not list(validator(closed=closed).iter_errors(document))
    assert not load_pipeline(document, CATALOG, Environment(), strict_env=False).errors


def test_config_may_be_missing_where_no_setting_is_required() -> None:
    for provider in CATALOG.names():
        document = pipeline(component("w", "webhook"), {"id": "d", "provider": provider})
        wrong = load_pipeline(document, CATALOG, Environment(), strict_env=False).errors
        assert bool(list(validator().iter_errors(document))) == bool(wrong), provider


def test_a_variable_may_stand_for_a_choice() -> None:
    document = pipeline(component("d", "dropper"), component("p", "parse", "tags:d", tables="${ROCKETRIDE_TABLES}"))
    assert not load_pipeline(document, CATALOG, Environment(), strict_env=False).errors
    assert not list(validator().iter_errors(document))


@pytest.mark.parametrize(
    "document",
    [
        pipeline(component("w", "webhook"), component("f", "tool_filesystem", control="tool:w", rot="x")),
        pipeline({**component("w", "webhook"), "contrl": []}),
        {**echo(), "viewport": {}},
    ],
)
def test_a_closed_schema_refuses_unknown_keys(document: Any) -> None:
    assert not list(validator().iter_errors(document))
    assert list(validator(closed=True).iter_errors(document))


def test_nodes_of_ones_own_are_in_it_with_their_settings() -> None:
    schema = pipeline_schema(Catalog([Weather], installed=False))
    weather = Draft202012Validator(schema)
    for days, fits in ((3, True), (30, False)):
        document = pipeline(component("w", "webhook"), component("s", "tool_weather", control="tool:w", days=days))
        assert weather.is_valid(document) is fits


def test_a_node_that_cannot_be_loaded_is_left_out() -> None:
    broken = Catalog(builtin={"webhook": "rrext.nodes.basic.sources:WebhookNode", "bad": "nowhere:Bad"}, installed=False)
    schema = pipeline_schema(broken)
    valid = Draft202012Validator(schema).is_valid
    assert valid(pipeline(component("w", "webhook")))
    assert not valid(pipeline(component("w", "webhook"), component("b", "bad")))


PLACES = st.lists(st.integers(0, 9), max_size=6)
VALUES = st.sampled_from(
    [None, True, 0, 1, -1, 2.5, "", "x", "text", "tool", "webhook", "${ROCKETRIDE_X}", [], {}, [{}], ["x"]]
)


def changed(value: Any, places: list[int], new: Any) -> Any:
    """A copy of a JSON value with another value somewhere in it."""
    if not places or not isinstance(value, dict | list) or not value:
        return new
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = keys[places[0] % len(keys)]
    made = copy.copy(value)
    if places[0] > 8 and not places[1:]:
        del made[key]
    else:
        made[key] = changed(value[key], places[1:], new)
    return made


@given(st.sampled_from(EXAMPLES), PLACES, VALUES)
@pytest.mark.promise("schema:agrees-with-check")
def test_whatever_the_check_accepts_the_schema_accepts(path: Path, places: list[int], new: Any) -> None:
    document = changed(value_of(path), places, new)
    found = load_pipeline(document, CATALOG, Environment({"ROCKETRIDE_X": "x"}), strict_env=False)
    refused = [error.message for error in validator().iter_errors(document)]
    if not found.errors:
        assert not refused
    elif new != "${ROCKETRIDE_X}" and {problem.code for problem in found.errors} & SEEN:
        assert refused
