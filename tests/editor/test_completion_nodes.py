"""Offers of nodes: provider names, ids, whole components."""

from __future__ import annotations

import json
import re

import pytest
from editor.completing import AROUND, COMPLETER, SECRET, at, surroundings, value_at

from rrext.editor.analysis import analyse
from rrext.editor.completions.completion import Completer

SOURCES = {"webhook", "chat", "dropper", "filesys", "tools"}
WEBHOOK = '{"id": "in", "provider": "webhook", "config": {}}'


def component(inside: str, *others: str) -> str:
    """A pipeline with some components, the last of which has this inside."""
    return f'{{"components": [{", ".join([*others, f"{{{inside}}}"])}]}}'


# providers


def test_sources_come_first_as_long_as_there_is_none() -> None:
    typing = at(component('"provider": "¦"'))
    assert set(typing.labels[: len(SOURCES)]) == SOURCES
    typing = at(component('"provider": "¦"', WEBHOOK))
    assert typing.labels[0] not in SOURCES
    ranks = typing.ranks()
    assert ranks["webhook"] > ranks["response_text"]


def test_a_source_that_is_being_typed_is_none_yet() -> None:
    assert set(at(component('"id": "x", "provider": "web¦hook"')).labels[: len(SOURCES)]) == SOURCES


def test_a_provider_is_shown_with_its_title_and_what_it_is_for() -> None:
    typing = at(component('"provider": "¦"'))
    assert typing.detail("webhook") == "Webhook · source"
    assert typing.detail("llm_profiled") == "Model · llm"
    assert typing.detail("files") == "files · tool"


def test_other_names_come_last_and_say_whose_they_are() -> None:
    typing = at(component('"provider": "¦"'))
    assert typing.labels[-1] == "switchboard"
    assert typing.detail("switchboard") == "another name of router · Router"
    assert '"provider": "switchboard"' in typing.accept("switchboard")


@pytest.mark.parametrize("name", ["broken_import", "broken_exit"])
def test_a_node_that_cannot_be_imported_is_listed_with_the_reason(name: str) -> None:
    typing = at(component('"provider": "¦"'))
    assert "cannot be used" in typing.detail(name)
    assert typing.ranks()[name] > typing.ranks()["router"]
    page = COMPLETER.explain(("provider", name), AROUND.catalog)
    assert page is not None
    assert "cannot be used" in page.plain()


@pytest.mark.parametrize("name", ["broken_import", "broken_exit"])
def test_inside_of_a_node_that_cannot_be_imported_all_else_is_offered(name: str) -> None:
    inside = f'"id": "x", "provider": "{name}", "config": {{¦}}'
    assert {"parameters", "profile", "tool_description"} <= set(at(component(inside)).labels)
    inside = f'"id": "x", "provider": "{name}", "config": {{}}, "input": [{{"lane": "¦", "from": "in"}}]'
    assert {"text", "tags"} <= set(at(component(inside, WEBHOOK)).labels)
    inside = f'"id": "x", "provider": "{name}", "config": {{}}, "input": [{{"from": "¦"}}]'
    assert at(component(inside, WEBHOOK)).labels == ["in"]


def test_without_trust_what_is_built_in_is_offered() -> None:
    around = surroundings(nodes=False, broken=False)
    typing = at(component('"provider": "¦"'), around, completer=Completer())
    assert "webhook" in typing.labels
    assert "router" not in typing.labels
    inside = '"id": "x", "provider": "router", "config": {}, "input": [{"from": "¦"}]'
    assert at(component(inside, WEBHOOK), around, completer=Completer()).labels == ["in"]


def test_the_nodes_of_a_catalog_are_looked_at_once() -> None:
    completer, around = Completer(), surroundings(broken=False)
    asked: list[str] = []
    original = around.catalog.class_of

    class Counting:
        def class_of(self, provider: str) -> object:
            asked.append(provider)
            return original(provider)

        def __getattr__(self, name: str) -> object:
            return getattr(around.catalog, name)

    analysis = analyse(component('"provider": ""'), around)
    counted = type(around)(Counting(), around.environment, True)  # type: ignore[arg-type]
    analysis.settings = counted
    cursor = analysis.text.index('""') + 1
    assert completer.complete(analysis, cursor).items
    first = len(asked)
    assert completer.complete(analysis, cursor).items
    assert first >= len(around.catalog.names())
    assert len(asked) == first


def test_the_documentation_of_a_provider_has_its_first_paragraph_and_its_lanes() -> None:
    page = COMPLETER.explain(("provider", "router"), AROUND.catalog)
    assert page is not None
    text = page.plain()
    assert "Sends questions where they belong." in text
    assert "second paragraph" not in text
    assert "questions" in text
    assert "switchboard" in text


# ids


def test_an_id_is_made_of_the_provider_and_a_number_that_is_free() -> None:
    others = ['{"id": "webhook_1", "provider": "webhook"}', '{"id": "webhook_2", "provider": "webhook"}']
    assert at(component('"id": ¦, "provider": "webhook"', *others)).labels == ["webhook_3"]
    assert at(component('"id": "web¦hook_3", "provider": "webhook"', *others)).labels == ["webhook_3"]
    assert at(component('"id": "¦"', *others)).labels == ["node_1"]


def test_the_source_is_a_component_that_can_be_one() -> None:
    others = [
        WEBHOOK,
        '{"id": "f", "provider": "files", "config": {}}',
        '{"id": "u", "provider": "unknown"}',
        '{"id": "s", "provider": "unknown", "config": {"mode": "Source"}}',
    ]
    typing = at(f'{{"components": [{", ".join(others)}], "source": "¦"}}')
    assert typing.labels == ["in", "s", "u", "f"]
    assert typing.detail("f") == "files · no source"


def test_ids_that_stand_in_a_variable_are_offered_as_they_are_written() -> None:
    around = surroundings(env={"ROCKETRIDE_TOKEN": SECRET})
    text = component(
        '"id": "x", "provider": "response", "config": {}, "input": [{"from": "¦"}]',
        '{"id": "${ROCKETRIDE_TOKEN}", "provider": "webhook", "config": {}}',
    )
    typing = at(text, around)
    assert typing.labels == ["${ROCKETRIDE_TOKEN}"]
    assert SECRET not in repr(typing.completion)


# whole components


def test_a_whole_component_is_offered_for_each_provider_where_one_can_stand() -> None:
    typing = at(f'{{"components": [{WEBHOOK}, ¦]}}')
    assert {*AROUND.catalog.names()} == set(typing.labels)
    assert {offer.kind for offer in typing.offers} == {"snippet"}


def test_a_whole_component_has_a_free_id_what_must_be_set_and_an_edge_that_fits() -> None:
    text = '{"components": [{"id": "chat_1", "provider": "chat", "config": {}}, ¦]}'
    after = at(text).accept("router")
    assert value_at(after, "/components/1") == {
        "id": "router_1",
        "provider": "router",
        "config": {"rules": []},
        "input": [{"lane": "questions", "from": "chat_1"}],
    }
    again = at(f"{after[: after.rindex(']')]}, ¦]}}").accept("router")
    assert value_at(again, "/components/2/id") == "router_2"


def test_settings_that_the_default_profile_gives_need_not_be_set() -> None:
    after = at('{"components": [¦]}').accept("llm_profiled")
    assert value_at(after, "/components/0/config") == {"apikey": ""}


def test_what_somebody_asks_for_is_bound_to_him_and_what_only_has_tools_to_the_source() -> None:
    agent = '{"id": "a", "provider": "guide", "config": {}, "input": [{"lane": "questions", "from": "in"}]}'
    typing = at(f'{{"components": [{WEBHOOK}, {agent}, ¦]}}')
    assert value_at(typing.accept("llm_profiled"), "/components/2/control") == [{"classType": "llm", "from": "a"}]
    assert value_at(typing.accept("files"), "/components/2/control") == [{"classType": "tool", "from": "a"}]
    assert value_at(typing.accept("response_answers"), "/components/2/input") == [{"lane": "answers", "from": "a"}]
    typing = at(f'{{"components": [{WEBHOOK}, ¦]}}')
    assert value_at(typing.accept("files"), "/components/1/control") == [{"classType": "tool", "from": "in"}]


def test_what_nothing_leads_to_comes_after_what_can_be_connected() -> None:
    ranks = at('{"components": [{"id": "chat_1", "provider": "chat", "config": {}}, ¦]}').ranks()
    assert ranks["response_questions"] < ranks["response_audio"] < ranks["broken_import"]
    assert ranks["files"] < ranks["webhook"]


def test_in_braces_that_stand_there_the_members_alone_are_written() -> None:
    after = at('{\n  "components": [\n    {¦}\n  ]\n}').accept("webhook", "snippet")
    assert after == (
        '{\n  "components": [\n    {\n      "id": "webhook_1",\n      "provider": "webhook",\n      "config": {}\n    }\n  ]\n}'
    )


def test_a_component_that_has_begun_is_offered_no_whole_one() -> None:
    assert not any(offer.kind == "snippet" for offer in at(component('"id": "x", ¦')).offers)


def test_lines_are_indented_as_the_document_has_it() -> None:
    after = at('{\n\t"components": [\n\t\t¦\n\t]\n}').accept("webhook")
    assert '\n\t\t{\n\t\t\t"id": "webhook_1",\n' in after


# keys


def test_keys_that_are_there_are_not_offered_again() -> None:
    inside = '"id": "x", ¦ "provider": "chat", "config": {}'
    assert set(at(component(inside)).labels) == {"input", "control", "name", "description", "ui"}
    assert set(at('{"components": [], "version": 1, ¦}').labels) == {"source", "project_id", "name", "description", "resources"}


def test_a_key_of_edges_that_a_node_cannot_have_comes_last_and_says_so() -> None:
    typing = at(component('"id": "x", "provider": "files", "config": {}, ¦'))
    assert typing.labels[-1] == "input"
    assert typing.detail("input") == "files takes none"


def test_a_key_of_edges_brings_the_edge_that_fits_best() -> None:
    after = at(component('"id": "x", "provider": "response", "config": {}, ¦', WEBHOOK)).accept("input")
    assert value_at(after, "/components/1/input") == [{"lane": "text", "from": "in"}]


def test_keys_and_values_of_the_pipeline_itself() -> None:
    text = f'{{"components": [{WEBHOOK}], ¦}}'
    assert value_at(at(text).accept("source"), "/source") == "in"
    assert value_at(at(text).accept("version"), "/version") == 1
    first, second = (value_at(at(text).accept("project_id"), "/project_id") for _ in range(2))
    assert re.fullmatch(r"[0-9a-f-]{36}", first)
    assert first != second
    (label,) = at(f'{{"components": [{WEBHOOK}], "project_id": "¦"}}').labels
    assert re.fullmatch(r"[0-9a-f-]{36}", label)
    assert at('{"components": ¦}').accept("[ ]") == '{"components": []}'


@pytest.mark.parametrize(
    "text", ['{"name": "¦"}', '{"viewport": {¦}}', '{"components": {"0": {¦}}}', "[{¦}]", '{"components": [[¦]]}']
)
def test_where_nothing_is_known_nothing_is_offered(text: str) -> None:
    assert at(text).labels == []


def test_a_document_that_is_too_large_to_be_read_is_offered_nothing_but_what_fits_an_empty_one() -> None:
    text = json.dumps({"name": "x" * 100})
    around = type(AROUND)(AROUND.catalog, AROUND.environment, True, type(AROUND.limits)(max_pipeline=10))
    analysis = analyse(text, around)
    assert COMPLETER.complete(analysis, 50).items == ()
