"""What is shown of a place: everything that helps, no variable's value, no secret, and nothing that is markup by itself."""

from __future__ import annotations

import re
from typing import Any

import pytest
from editor.readers import TALK, VALUE, at, broken, look
from hypothesis import given
from hypothesis import strategies as st

from rrext.editor.analysis import Analysis
from rrext.editor.hover import hover_at
from rrext.editor.page import COMPONENT_TEXTS, CONFIG_TEXTS, ROOT_TEXTS
from rrext.pipefile.config import COMMON
from rrext.pipefile.shape import COMPONENT_KEYS, ROOT_KEYS


def page_at(analysis: Analysis, piece: str, nth: int = 0, inside: int = 1) -> str:
    found = hover_at(analysis, at(analysis, piece, nth, inside))
    assert found is not None, piece
    return found.page.plain()


def with_config(config: dict[str, Any], provider: str = "llm") -> Analysis:
    return look({"components": [{"id": "one", "provider": provider, "config": config}]})


# components


def test_a_component_shows_its_node_its_edges_and_its_settings() -> None:
    page = page_at(look(TALK), '"llm_1"')
    assert page.startswith("llm_1 · llm\n")
    assert "Thinks." in page
    assert "- questions → answers" in page
    assert "- serves as llm" in page
    assert "- is invoked by agent_1 as llm" in page
    assert "profile large" in page
    assert '"model": "l-1"' in page
    assert '"limits": {"tokens": 900, "calls": 3}' in page
    assert '"warmth": 1.0' in page


def test_a_component_shows_what_it_invokes_and_where_its_data_goes() -> None:
    page = page_at(look(TALK), '"agent_1"', nth=1)
    assert "- invokes llm (at least 1, at most 1): thinks" in page
    assert "- receives questions from chat_1" in page
    assert "- sends answers to answers_1" in page
    assert "- invokes llm_1 as llm" in page
    assert "- invokes desk_1 as tool" in page


@pytest.mark.parametrize(("piece", "inside"), [('"provider": "desk"', 14), ('{\n      "id": "desk_1"', 0), ('"desk_1"', 2)])
def test_the_provider_and_the_braces_show_the_same(piece: str, inside: int) -> None:
    page = page_at(look(TALK), piece, inside=inside)
    assert "write(text, copies=1): Write a text." in page
    assert "- text, text, required: What it says, as in <b>[a link](x)</b>." in page
    assert "- copies, integer, at least 1, default 1" in page
    assert "paint: its description depends on the settings of the node" in page


def test_the_space_inside_of_a_component_shows_nothing() -> None:
    analysis = look(TALK)
    assert hover_at(analysis, at(analysis, '\n      "id"', inside=3)) is None


def test_a_single_tool_shows_its_whole_schema() -> None:
    analysis = look({"components": [{"id": "l", "provider": "llm_scripted", "config": {}}]})
    page = page_at(analysis, '"l"')
    assert '"additionalProperties": false' in page


def test_what_the_file_says_of_the_tools_stands_before_them() -> None:
    page = page_at(with_config({"tool_description": "Only for letters."}, "desk"), '"one"')
    assert page.index("Only for letters.") < page.index("write(")


def test_an_unknown_provider_says_so_and_what_could_help() -> None:
    document = {"components": [{"id": "one", "provider": "mine", "config": {}}]}
    assert "mine is not known here." in page_at(look(document), '"one"')
    assert "trusted" not in page_at(look(document), '"one"')
    assert "trusted" in page_at(look(document, trusted=False), '"one"')


def test_a_node_of_rocketride_that_is_not_here_says_so() -> None:
    document = {"components": [{"id": "one", "provider": "store_chroma", "config": {}}]}
    page = page_at(look(document), '"one"')
    assert '"store_chroma" (store, tool) is a node of RocketRide and not part of rrext.' in page


def test_a_second_component_of_an_id_is_not_said_to_send() -> None:
    twice = {"id": "a", "provider": "anything", "config": {}}
    listener = {"id": "b", "provider": "anything", "config": {}, "input": [{"lane": "text", "from": "a"}]}
    analysis = look({"components": [twice, twice, listener]})
    assert "sends text to b" in page_at(analysis, '"a"', nth=0)
    assert "sends text to b" not in page_at(analysis, '"a"', nth=1)


def test_another_component_is_shown_in_short() -> None:
    analysis = look(TALK)
    page = page_at(analysis, '"from": "agent_1"', inside=10)
    assert page.startswith("agent_1 · An *agent*")
    assert "Invokes others." in page
    assert "It thinks with" not in page
    assert page_at(analysis, '"source": "chat_1"', inside=12).startswith("chat_1 · Chat")


def test_an_id_that_nobody_has_says_so() -> None:
    analysis = look({"components": [], "source": "nobody"})
    assert page_at(analysis, '"nobody"') == "No component has the id nobody."


# settings


def test_a_setting_shows_type_bounds_default_and_where_its_value_comes_from() -> None:
    analysis = with_config({"warmth": 2, "limits": {"calls": 1}})
    page = page_at(analysis, '"warmth"')
    assert page.startswith("warmth: number")
    assert "At least 0, at most 2." in page
    assert "Default: 1.0" in page
    assert "Value: 2, as this file says" in page
    assert "Value: 1, as this file says" in page_at(analysis, '"calls"')
    assert page_at(analysis, "2", inside=0) == page


def test_a_null_does_not_replace_a_default() -> None:
    analysis = with_config({"profile": "large", "large": {"model": None}})
    assert 'Value: "l-1", from the profile large' in page_at(analysis, '"model"')
    assert "Required." in page_at(analysis, '"model"')


def test_a_profile_shows_what_it_sets_and_which_others_there_are() -> None:
    analysis = with_config({"profile": "large", "large": {}})
    page = page_at(analysis, '"large"')
    assert '{"model": "l-1", "limits": {"tokens": 900}}' in page
    assert "- small (the default): sets model, limits" in page
    assert page_at(analysis, '"large"', nth=1) == page
    assert page_at(analysis, '"profile"') == page


def test_a_key_beside_the_section_of_the_profile_is_not_used() -> None:
    analysis = with_config({"profile": "large", "warmth": 2})
    assert page_at(analysis, '"warmth"') == ("warmth is not used: with a profile, settings stand in the section large.")


def test_a_setting_that_the_node_does_not_know_shows_nothing() -> None:
    analysis = with_config({"wramth": 2})
    assert hover_at(analysis, at(analysis, '"wramth"')) is None


def test_a_node_that_takes_any_settings_says_so() -> None:
    page = page_at(with_config({"a": {"b": [5]}}, "anything"), '"b"')
    assert page == "a.b\n\nThe node takes any settings, as they stand here.\n\nValue, as this file says:\n\n[5]"


@pytest.mark.parametrize("key", ["mode", "hideForm", "tool_description", "secureParameters"])
def test_a_key_that_every_config_may_have_is_explained(key: str) -> None:
    assert page_at(with_config({key: {}}), f'"{key}"').startswith(key)


# edges


def test_a_lane_shows_what_it_carries_and_who_has_it() -> None:
    page = page_at(look(TALK), '"questions"')
    assert "Carries a question" in page
    assert "- chat_1 offers questions" in page
    assert "- agent_1 accepts questions" in page
    assert "- offered here by chat_1" in page
    assert "- accepted here by agent_1, llm_1" in page


def test_a_class_type_shows_both_ends() -> None:
    page = page_at(look(TALK), '"classType": "llm"', inside=14)
    assert "agent_1 invokes llm (at least 1, at most 1): thinks" in page
    assert "llm_1 serves as llm." in page


def test_a_tool_at_a_source_is_for_clients() -> None:
    control = [{"classType": "tool", "from": "w"}]
    analysis = look({"components": [{"id": "w", "provider": "webhook"}, {"id": "d", "provider": "desk", "control": control}]})
    assert "its tools can be called by clients" in page_at(analysis, '"classType": "tool"', inside=14)


@pytest.mark.parametrize("key", ["components", "source", "id", "provider", "config", "input", "control", "lane", "classType"])
def test_the_keys_of_the_format_are_explained(key: str) -> None:
    assert page_at(look(TALK), f'"{key}"').startswith(f"{key}\n\n")


def test_every_key_of_the_engine_has_its_text() -> None:
    assert set(ROOT_TEXTS) == set(ROOT_KEYS)
    assert set(COMPONENT_TEXTS) == set(COMPONENT_KEYS)
    assert set(CONFIG_TEXTS) == set(COMMON)


# variables and secrets


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ROCKETRIDE_SECRET", "It has a value, which is not shown."),
        ("ROCKETRIDE_NOTHING", "It has no value"),
        ("HOME", "Pipelines may not read it: it was not named"),
        ("ROCKETRIDE_APIKEY", "Pipelines may not read it: it is the server's own"),
    ],
)
def test_a_variable_shows_whether_it_has_a_value(name: str, said: str) -> None:
    page = page_at(with_config({"model": f"a ${{{name}}} b"}), "${", inside=3)
    assert page.startswith(f"Variable {name}\n")
    assert said in page


def test_a_variable_where_none_is_replaced_says_so() -> None:
    analysis = look({"name": "${ROCKETRIDE_SECRET}", "components": []})
    assert "stays as it is written" in page_at(analysis, "${")


@pytest.mark.promise("editor:secrets:never-shown")
def test_secrets_are_hidden_and_variables_stay_as_they_are_written() -> None:
    secrets = {"token": "t-1", "names": ["n-1"]}
    analysis = with_config({"apikey": "k-1", "secureParameters": secrets, "url": "https://me:p-1@host"}, "anything")
    found = [hover_at(analysis, offset) for offset in range(len(analysis.text))]
    pages = [hover.page.plain() for hover in found if hover is not None]
    for secret in ("k-1", "t-1", "n-1", "p-1"):
        assert not any(secret in page for page in pages)
    assert any('"url": "https://me:•••@host"' in page for page in pages)
    assert '"apikey": "${ROCKETRIDE_SECRET}"' in page_at(look(TALK), '"llm_1"')


def test_a_provider_that_is_a_variable_does_not_tell_its_value() -> None:
    component = {"id": "one", "provider": "${ROCKETRIDE_NODE}", "config": {"hideForm": True}}
    analysis = look({"components": [component]})
    for offset in range(len(analysis.text)):
        found = hover_at(analysis, offset)
        assert found is None or "ebhook" not in found.page.plain()
    assert "${ROCKETRIDE_NODE} is no name of a node" in page_at(analysis, '"one"')


def test_an_id_that_is_a_variable_is_shown_as_it_is_written() -> None:
    named = {"id": "${ROCKETRIDE_ID}", "provider": "webhook", "config": {}}
    reader = {"id": "b", "provider": "anything", "config": {}, "input": [{"lane": "text", "from": "${ROCKETRIDE_ID}"}]}
    page = page_at(look({"components": [named, reader]}), '"b"')
    assert "receives text from ${ROCKETRIDE_ID}" in page
    assert "llm_1" not in page


# any text


@given(broken(), st.booleans(), st.data())
def test_any_place_of_any_text_shows_something_sound_or_nothing(text: str, trusted: bool, data: st.DataObject) -> None:
    analysis = look(text, trusted=trusted)
    for offset in data.draw(st.lists(st.integers(0, len(text) + 1), min_size=20, max_size=20)):
        found = hover_at(analysis, offset)
        if found is None:
            continue
        start, end = found.span
        assert 0 <= start <= offset <= end <= len(text)
        assert start < end
        for shown in (found.page.plain(), found.page.markdown()):
            assert shown.strip()
            assert VALUE not in shown


def test_every_place_of_a_pipeline_says_what_it_is() -> None:
    analysis = look(TALK)
    bare = [piece.group() for piece in re.finditer(r'"[^"]*"', analysis.text) if hover_at(analysis, piece.start() + 1) is None]
    assert bare == []


def test_a_document_that_is_too_large_shows_nothing() -> None:
    assert hover_at(look(" " * 20_000_000), 5) is None
