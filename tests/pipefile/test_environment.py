"""`${NAME}` in pipeline files: what is replaced, what is not, and that values stay secret."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_nodes import catalog, component, echo, found, load, only, pipeline

from rrext.errors import InvalidPipeline
from rrext.limits import MAX_KEPT_SECRETS
from rrext.pipefile.environment import NEVER, Environment, substitute
from rrext.pipefile.pipeline_loader import validate

SECRET = 'pa"ss\\word\n'


def weather(units: str, **more: Any) -> dict[str, Any]:
    return pipeline(component("w", "webhook"), component("t", "weather", control="tool:w", units=units), **more)


def test_a_value_is_put_in_after_parsing_so_it_may_hold_anything() -> None:
    environment = Environment({"ROCKETRIDE_KEY": SECRET})
    spec = load(weather("<${ROCKETRIDE_KEY}|${ROCKETRIDE_KEY}>"), environment=environment).require()
    assert spec.component("t").settings.units == f"<{SECRET}|{SECRET}>"


def test_a_value_is_not_looked_into_again() -> None:
    environment = Environment({"ROCKETRIDE_A": "${ROCKETRIDE_B}", "ROCKETRIDE_B": "b"})
    assert substitute("${ROCKETRIDE_A}", environment).value == "${ROCKETRIDE_B}"


def test_keys_are_left_alone() -> None:
    environment = Environment({"ROCKETRIDE_A": "a"})
    assert substitute({"${ROCKETRIDE_A}": ["${ROCKETRIDE_A}"]}, environment).value == {"${ROCKETRIDE_A}": ["a"]}


@pytest.mark.parametrize("text", ["$ROCKETRIDE_A", "${}", "${ ROCKETRIDE_A }", "${1}", "$${x", "${a-b}"])
def test_what_is_no_placeholder_is_text(text: str) -> None:
    done = substitute(text, Environment({"ROCKETRIDE_A": "a"}))
    assert done.value == text
    assert done.unresolved == []


def test_the_document_that_was_given_is_not_changed() -> None:
    document = {"a": [{"b": "${ROCKETRIDE_A}"}], "c": {"d": 1}}
    before = json.dumps(document)
    done = substitute(document, Environment({"ROCKETRIDE_A": "x"}))
    assert json.dumps(document) == before
    assert done.value == {"a": [{"b": "x"}], "c": {"d": 1}}
    assert done.value["c"] is document["c"], "only what changes is copied"


def test_an_unresolved_name_stops_a_run_and_not_a_check() -> None:
    problem = only(weather("${ROCKETRIDE_NONE}"))
    assert (problem.code, problem.severity, problem.path) == ("unresolved_variable", "error", "/components/1/config/units")
    assert "ROCKETRIDE_NONE" in problem.message
    assert only(weather("${ROCKETRIDE_NONE}"), strict_env=False).severity == "warning"
    with pytest.raises(InvalidPipeline):
        load(weather("${ROCKETRIDE_NONE}")).require()


def test_other_names_need_the_operators_word() -> None:
    problem = only(weather("${HOME}"), environment=Environment({"HOME": "/root"}))
    assert (problem.code, problem.severity) == ("variable_not_allowed", "error")
    assert load(weather("${HOME}"), environment=Environment({"HOME": "/root"}, ["HOME"])).spec is not None


@pytest.mark.parametrize("name", sorted(NEVER))
def test_the_servers_own_secrets_are_never_readable(name: str) -> None:
    environment = Environment({name: "k"}, [name]).with_values({name: "k"})
    assert only(weather(f"${{{name}}}"), environment=environment).code == "variable_not_allowed"
    assert environment.get(name) is None


def test_the_operators_process_is_read_as_far_as_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETRIDE_A", "a")
    monkeypatch.setenv("OTHER", "o")
    monkeypatch.setenv("SECRET", "s")
    environment = Environment.of_process(["OTHER"])
    assert [environment.get(name) for name in ("ROCKETRIDE_A", "OTHER", "SECRET")] == ["a", "o", None]


def test_a_client_sees_its_own_values_and_the_names_given_by_the_operator() -> None:
    ours = Environment({"ROCKETRIDE_A": "server", "OTHER": "o"}, ["OTHER"])
    environment = ours.for_client({"ROCKETRIDE_B": "mine", "PATH": "x"})
    assert [environment.get(name) for name in ("ROCKETRIDE_A", "ROCKETRIDE_B", "OTHER", "PATH")] == [None, "mine", "o", None]


def test_what_is_taken_from_the_process_is_in_its_environment_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROCKETRIDE_A", "ROCKETRIDE_APIKEY", "OTHER", "HOME", "LEFT"):
        monkeypatch.setenv(name, f"value of {name}")
    environment = Environment.taken_from_process(["OTHER", "HOME"])
    assert [environment.get(name) for name in ("ROCKETRIDE_A", "ROCKETRIDE_APIKEY", "OTHER", "HOME", "LEFT")] == [
        "value of ROCKETRIDE_A", None, "value of OTHER", "value of HOME", None,
    ]  # fmt: skip
    assert {"HOME", "LEFT"} <= set(os.environ), "what every program needs stays"
    assert not {"ROCKETRIDE_A", "ROCKETRIDE_APIKEY", "OTHER"} & set(os.environ)


def test_the_env_of_a_request_wins() -> None:
    environment = Environment({"ROCKETRIDE_A": "server"}).with_values({"ROCKETRIDE_A": "mine", "PATH": "x"})
    assert environment.get("ROCKETRIDE_A") == "mine"
    assert environment.get("PATH") is None


def test_project_id_is_literal() -> None:
    document = echo(project_id="${ROCKETRIDE_A}")
    environment = Environment({"ROCKETRIDE_A": "x"})
    assert found(document, environment=environment) == [("variable_in_project_id", "/project_id")]
    assert found({"pipeline": document}, environment=environment) == [("variable_in_project_id", "/pipeline/project_id")]


NAMES = [
    ("/components/0/id", lambda p: p["components"][0]),
    ("/components/1/id", lambda p: p["components"][1]),
    ("/components/0/provider", lambda p: p["components"][0]),
    ("/components/1/input/0/lane", lambda p: p["components"][1]["input"][0]),
    ("/components/1/input/0/from", lambda p: p["components"][1]["input"][0]),
    ("/components/2/control/0/classType", lambda p: p["components"][2]["control"][0]),
    ("/components/2/control/0/from", lambda p: p["components"][2]["control"][0]),
    ("/source", lambda p: p),
]


@pytest.mark.parametrize(("path", "holder"), NAMES)
@pytest.mark.parametrize("text", ["${ROCKETRIDE_A}", "a${ROCKETRIDE_A}", "${ROCKETRIDE_NONE}"])
def test_a_name_is_literal_as_everybody_may_read_it(path: str, holder: Any, text: str) -> None:
    document = pipeline(
        component("w", "webhook"),
        component("o", "response_text", "text:w"),
        component("t", "weather", control="tool:w"),
        source="w",
    )
    holder(document)[path.rpartition("/")[2]] = text
    environment = Environment({"ROCKETRIDE_A": "hunter2!"})
    codes = found(document, environment=environment)
    assert ("variable_in_name", path) in codes
    answer = validate(document, catalog(), environment)
    assert answer["errors"]
    assert "hunter2!" not in json.dumps(answer)
    assert not environment.redactor.knows_any, "the value was not even put in"


@pytest.mark.parametrize("secret", ["hunter2", 'q"uote', "metric-ish", "a long one " * 20])
def test_a_value_is_in_no_problem_and_no_text_of_the_objects(secret: str) -> None:
    environment = Environment({"ROCKETRIDE_A": secret})
    document = pipeline(
        component("w", "webhook"),
        component("o", "response", "text:w", lanes=[{"laneId": "${ROCKETRIDE_A}", "laneName": "x"}]),
        component("t", "weather", control="tool:w", profile="${ROCKETRIDE_A}"),
    )
    loaded = load(document, environment=environment)
    assert {"response_key_unread", "profile_not_found"} <= {problem.code for problem in loaded.problems}
    assert secret[:40] not in str([problem.as_json() for problem in loaded.problems])
    assert "ROCKETRIDE_A" in str([problem.as_json() for problem in loaded.problems])
    assert secret not in repr((loaded, environment))


def test_the_settings_of_a_component_are_not_in_its_text() -> None:
    spec = load(weather("${ROCKETRIDE_A}"), environment=Environment({"ROCKETRIDE_A": "hunter2"})).require()
    assert "hunter2" not in repr(spec)


def test_what_is_shown_of_a_pipeline_has_its_placeholders() -> None:
    environment = Environment({"ROCKETRIDE_A": "hunter2"})
    document = weather("${ROCKETRIDE_A}")
    assert load(document, environment=environment).unresolved == document
    assert "hunter2" not in json.dumps(validate(document, catalog(), environment))


def test_a_value_that_is_not_there_is_no_wrong_value() -> None:
    document = pipeline(component("w", "webhook"), component("t", "weather", control="tool:w", days="${ROCKETRIDE_NONE}"))
    assert found(document, strict_env=False) == [("unresolved_variable", "/components/1/config/days")]


@given(st.text("ab$}{", max_size=20), st.text(max_size=6))
def test_any_text_with_any_value_is_replaced_once(text: str, value: str) -> None:
    environment = Environment({"a": value}, ["a"])
    assert substitute(text, environment).value == text.replace("${a}", value)


def test_the_values_of_clients_never_replace_one_of_the_operator() -> None:
    own = Environment({"ROCKETRIDE_OWN": "of-the-operator"}, names=["ROCKETRIDE_OWN"])
    assert substitute("${ROCKETRIDE_OWN}", own).used
    for number in range(MAX_KEPT_SECRETS + 1):
        client = own.for_client({"ROCKETRIDE_X": f"of-a-client-{number:06}"})
        assert substitute("${ROCKETRIDE_X}", client).used
    assert own.redactor.text("of-the-operator, of-a-client-000000") == "${ROCKETRIDE_OWN}, of-a-client-000000"
    assert own.redactor.text(f"of-a-client-{MAX_KEPT_SECRETS:06}") == "${ROCKETRIDE_X}"
