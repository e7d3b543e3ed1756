"""Offers inside of a config: keys, values, profiles, tools, variables."""

from __future__ import annotations

import pytest
from editor.completing import AROUND, COMPLETER, SECRET, Typing, at, surroundings, value_at

CONFIG = "/components/0/config"


def config(inside: str, provider: str = "router", more: str = "", others: str = "") -> Typing:
    """What is offered inside of the config of a component `me`."""
    return at(f'{{"components": [{{"id": "me", "provider": "{provider}", "config": {{{inside}}}{more}}}{others}]}}')


def page(typing: Typing, label: str) -> str:
    found = COMPLETER.explain(typing.item(label).offer.about, AROUND.catalog)
    assert found is not None
    return found.plain()


# keys


def test_what_must_be_set_comes_first_then_the_others_then_what_every_node_takes() -> None:
    labels = config("¦").labels
    assert labels[:3] == ["rules", "mode_of_rules", "place"]
    assert labels[3:] == ["parameters", "secureParameters", "name", "description"]


def test_a_key_says_its_type_and_whether_it_must_be_there() -> None:
    typing = config("¦")
    assert typing.detail("rules").endswith(", required")
    assert typing.detail("mode_of_rules") == '"first" or "all", "first" if left out'


def test_keys_that_are_there_are_not_offered_also_in_inner_objects() -> None:
    assert "rules" not in config('"rules": [], ¦').labels
    assert config('"rules": [{"match": "a", ¦}]').labels == ["weight"]
    assert config('"rules": [{"match": "a", "weight": 1}, {¦}]').labels == ["match", "weight"]
    assert config('"place": {"host": "h", ¦}').labels == ["port"]


@pytest.mark.parametrize(
    ("label", "value"), [("rules", []), ("mode_of_rules", "first"), ("parameters", {}), ("description", "")]
)
def test_a_key_brings_a_value_to_begin_with(label: str, value: object) -> None:
    assert value_at(config("¦").accept(label), f"{CONFIG}/{label}") == value


def test_an_element_of_a_list_of_objects_has_what_it_must_have() -> None:
    typing = config('"rules": [¦]')
    assert typing.labels == ["{ }"]
    assert value_at(typing.accept("{ }"), f"{CONFIG}/rules") == [{"match": "", "weight": 0}]


def test_keys_make_sense_for_their_node() -> None:
    assert "tool_description" in config("¦", "files").labels
    assert "tool_description" not in config("¦").labels
    assert "hideForm" in config("¦", "chat").labels
    assert "hideForm" not in config("¦").labels
    assert "profile" in config("¦", "llm_profiled").labels
    assert "profile" not in config("¦").labels


def test_a_source_is_told_what_it_is() -> None:
    typing = config("¦", "webhook")
    assert value_at(typing.accept("type"), f"{CONFIG}/type") == "webhook"
    assert value_at(typing.accept("mode"), f"{CONFIG}/mode") == "Source"
    assert config('"type": ¦', "webhook").labels == ["webhook"]
    assert config('"mode": ¦', "webhook").labels == ["Source"]


def test_a_node_that_is_not_known_is_offered_what_every_node_takes() -> None:
    assert {"profile", "parameters", "mode"} <= set(config("¦", "no_such_node").labels)
    assert config('"deep": {¦}', "no_such_node").labels == []


# profiles


def test_profiles_are_offered_with_what_they_set_the_default_one_first() -> None:
    typing = config('"profile": "¦"', "llm_profiled")
    assert typing.labels == ["small", "large"]
    assert typing.detail("small") == "the default; sets model, tokens"
    assert '"l-1"' in page(typing, "large")


def test_with_a_profile_the_settings_are_offered_in_its_section() -> None:
    typing = config('"profile": "large", ¦', "llm_profiled")
    assert "model" not in typing.labels
    assert typing.labels[0] == "large"
    assert value_at(typing.accept("large"), f"{CONFIG}/large") == {"apikey": ""}
    typing = config('"profile": "large", "large": {¦}', "llm_profiled")
    assert typing.labels == ["apikey", "model", "tokens", "fast"]
    assert typing.detail("tokens") == "integer, 900 if left out"
    assert "sets 900" in page(typing, "tokens")


def test_without_a_profile_what_the_default_one_gives_need_not_be_set() -> None:
    typing = config("¦", "llm_profiled")
    assert typing.labels[:4] == ["apikey", "profile", "model", "tokens"]
    assert typing.detail("apikey") == "text, required"
    assert typing.detail("model") == 'text, "s-1" if left out'


# values


def test_values_are_those_that_the_schema_names() -> None:
    assert config('"mode_of_rules": ¦').labels == ["first", "all"]
    assert config('"mode_of_rules": ¦').detail("first") == "default"
    assert config('"fast": ¦', "llm_profiled").labels == ["false", "true"]
    assert set(config('"place": ¦').labels) == {"null", "{ }"}
    assert config('"hideForm": ¦', "files").labels == ["true", "false"]


def test_a_config_is_begun_with_what_must_be_set() -> None:
    typing = at('{"components": [{"id": "me", "provider": "router", "config": ¦}]}')
    assert typing.labels == ["{ }"]
    assert value_at(typing.accept("{ }"), CONFIG) == {"rules": []}


def test_lanes_of_a_response_are_those_that_arrive_first() -> None:
    more = ', "input": [{"lane": "answers", "from": "x"}]'
    typing = config('"lanes": [{"laneId": "¦"}]', "response", more)
    assert typing.labels[0] == "answers"
    assert typing.detail("answers") == "arrives here"
    assert typing.detail("text") == "does not arrive here"


@pytest.mark.parametrize("inside", ['"allowed_tools": ["¦"]', '"first_tool": ¦', '"allowed_tools": ["read", ¦]'])
def test_tools_of_the_nodes_that_are_bound_to_it_are_offered_where_a_tool_is_named(inside: str) -> None:
    others = ', {"id": "f", "provider": "files", "config": {}, "control": [{"classType": "tool", "from": "me"}]}'
    others += ', {"id": "p", "provider": "tool_python", "config": {}, "control": [{"classType": "tool", "from": "x"}]}'
    typing = config(inside, "guide", others=others)
    assert [offer.label for offer in typing.offers if offer.kind == "tool"] == ["read", "write"]
    assert typing.detail("read") == "f (files)"
    assert "Read a file." in page(typing, "read")


# variables


def test_variables_are_offered_by_name_in_a_text_and_never_by_value() -> None:
    for inside in ('"apikey": "${¦}"', '"apikey": "$¦"', '"apikey": "${ROC¦', '"apikey": "x${R¦OOM}y"', '"apikey": ¦'):
        typing = config(inside, "llm_profiled")
        labels = [offer.label for offer in typing.offers if offer.kind == "variable"]
        assert labels == ["${ROCKETRIDE_ROOM}", "${ROCKETRIDE_TOKEN}"], inside
        assert SECRET not in repr(typing.completion)
        assert SECRET not in page(typing, "${ROCKETRIDE_TOKEN}")


@pytest.mark.parametrize(
    ("inside", "value"),
    [
        ('"apikey": "${¦}"', "${ROCKETRIDE_ROOM}"),
        ('"apikey": "$¦"', "${ROCKETRIDE_ROOM}"),
        ('"apikey": "a ${ROC¦', "a ${ROCKETRIDE_ROOM}"),
        ('"apikey": "a ${ROC¦ b\n', "a ${ROCKETRIDE_ROOM} b"),
        ('"apikey": "x${R¦OOM}y"', "x${ROCKETRIDE_ROOM}y"),
        ('"apikey": ¦', "${ROCKETRIDE_ROOM}"),
    ],
)
def test_a_variable_replaces_what_was_begun_of_it_and_nothing_else(inside: str, value: str) -> None:
    after = config(inside, "llm_profiled").accept("${ROCKETRIDE_ROOM}")
    assert value_at(after, f"{CONFIG}/apikey") == value


def test_variables_that_the_file_reads_elsewhere_are_offered_without_a_value() -> None:
    text = (
        '{"components": [{"id": "a", "provider": "llm_profiled",'
        ' "config": {"apikey": "${ROCKETRIDE_MINE} ${ROCKETRIDE_URI} ${HOME}"}},'
        ' {"id": "b", "provider": "llm_profiled", "config": {"apikey": "${¦"}}]}'
    )
    typing = at(text, surroundings(env={"ROCKETRIDE_ROOM": "blue"}))
    assert typing.labels == ["${ROCKETRIDE_ROOM}", "${ROCKETRIDE_MINE}"]
    assert typing.detail("${ROCKETRIDE_MINE}") == "has no value here; the file reads it"


def test_where_only_certain_values_may_stand_no_variable_is_offered() -> None:
    for inside, provider in (('"mode_of_rules": ¦', "router"), ('"tokens": ¦', "llm_profiled"), ('"fast": ¦', "llm_profiled")):
        assert not any(offer.kind == "variable" for offer in config(inside, provider).offers)


# documentation


def test_the_documentation_of_a_setting_has_type_text_and_default() -> None:
    text = page(config("¦"), "mode_of_rules")
    assert text.startswith('mode_of_rules: "first" or "all".')
    assert "Which rules count." in text
    assert 'If it is left out: "first".' in text


def test_common_keys_have_a_text() -> None:
    for label in ("parameters", "profile", "tool_description", "name"):
        assert page(config("¦", "no_such_node"), label)
