"""Offers for edges: who can send or invoke, on which lane or as what."""

from __future__ import annotations

import pytest
from editor.completing import at, value_at

CHAT = '{"id": "chat", "provider": "chat", "config": {}}'
WEBHOOK = '{"id": "in", "provider": "webhook", "config": {}}'
AGENT = '{"id": "agent", "provider": "guide", "config": {}, "input": [{"lane": "questions", "from": "chat"}]}'


def node(node_id: str, provider: str, inside: str = "") -> str:
    more = f", {inside}" if inside else ""
    return f'{{"id": "{node_id}", "provider": "{provider}", "config": {{}}{more}}}'


def pipeline(*components: str) -> str:
    return f'{{"components": [{", ".join(components)}]}}'


def taking(edge: str, provider: str = "router", node_id: str = "me") -> str:
    return node(node_id, provider, f'"input": [{{{edge}}}]')


def bound(edge: str, provider: str = "files", node_id: str = "me") -> str:
    return node(node_id, provider, f'"control": [{{{edge}}}]')


# ids


def test_who_sends_what_is_accepted_comes_first_and_the_nearest_above_first_of_these() -> None:
    parts = [node("far", "chat"), node("near", "chat"), node("files", "files"), taking('"from": "¦"'), node("below", "chat")]
    typing = at(pipeline(*parts))
    assert typing.labels == ["near", "far", "below", "files"]
    assert typing.detail("near") == "chat · sends questions"
    assert typing.detail("files") == "files · sends nothing"


def test_a_lane_that_is_said_decides_who_fits() -> None:
    typing = at(pipeline(CHAT, WEBHOOK, taking('"lane": "text", "from": "¦"')))
    assert typing.labels == ["in", "chat"]
    assert typing.detail("chat") == "chat · sends no text, only questions"


def test_the_lane_counts_also_if_it_stands_behind_a_text_without_last_quote() -> None:
    assert at(pipeline(CHAT, WEBHOOK, taking('"from": "¦, "lane": "text"'))).labels == ["in", "chat"]


def test_who_is_behind_the_component_comes_last_as_that_would_be_a_circle() -> None:
    parts = [
        WEBHOOK,
        taking('"lane": "text", "from": "¦"'),
        node("next", "router", '"input": [{"lane": "text", "from": "me"}]'),
        node("last", "router", '"input": [{"lane": "text", "from": "next"}]'),
    ]
    typing = at(pipeline(*parts))
    assert typing.labels == ["in", "next", "last"]
    assert typing.detail("last") == "router · would make a circle"


def test_a_component_is_not_offered_to_itself_and_of_two_with_one_id_the_first() -> None:
    parts = [CHAT, node("chat", "files"), taking('"from": "¦"')]
    typing = at(pipeline(*parts))
    assert typing.labels == ["chat"]
    assert typing.detail("chat") == "chat · sends questions"


def test_a_node_that_is_not_known_may_fit_and_stands_between() -> None:
    parts = [node("files", "files"), node("odd", "no_such_node"), CHAT, taking('"from": "¦"')]
    assert at(pipeline(*parts)).labels == ["chat", "odd", "files"]


def test_who_asks_for_what_the_component_serves_comes_before_who_only_calls_it() -> None:
    typing = at(pipeline(CHAT, AGENT, WEBHOOK, bound('"from": "¦"')))
    assert typing.labels == ["agent", "in", "chat"]
    assert typing.detail("agent") == "guide · invokes tool"
    typing = at(pipeline(CHAT, AGENT, bound('"from": "¦"', "llm_profiled")))
    assert typing.labels == ["agent", "chat"]
    assert typing.detail("chat") == "chat · invokes only tool"


def test_a_class_type_that_is_said_decides_who_fits() -> None:
    typing = at(pipeline(CHAT, AGENT, bound('"classType": "llm", "from": "¦"', "llm_profiled")))
    assert (typing.labels[0], typing.ranks()["agent"]) == ("agent", 0)
    typing = at(pipeline(CHAT, AGENT, bound('"classType": "memory", "from": "¦"')))
    assert typing.ranks()["agent"] > 0


# lanes and class types


def test_lanes_that_both_ends_have_come_first_and_both_are_named() -> None:
    typing = at(pipeline(WEBHOOK, taking('"lane": "¦", "from": "in"')))
    assert typing.labels[:2] == ["text", "questions"]
    assert typing.detail("text") == "in sends it; me accepts it"
    assert typing.detail("audio") == "in sends it; me does not accept it"
    assert typing.ranks()["audio"] > typing.ranks()["text"]


def test_a_lane_that_is_there_already_from_the_same_sender_comes_later() -> None:
    inside = '"input": [{"lane": "text", "from": "in"}, {"lane": "¦", "from": "in"}]'
    assert at(pipeline(WEBHOOK, node("me", "router", inside))).labels[:2] == ["questions", "text"]


def test_without_a_sender_the_lanes_that_are_accepted_are_offered() -> None:
    typing = at(pipeline(WEBHOOK, taking('"lane": "¦"')))
    assert typing.labels == ["questions", "text"]
    assert typing.detail("text") == "me accepts it"


def test_between_nodes_that_are_not_known_every_lane_is_offered() -> None:
    assert "classifications" in at(pipeline(node("odd", "none"), taking('"lane": "¦", "from": "odd"', "nobody"))).labels


def test_class_types_that_one_serves_and_the_other_invokes_come_first() -> None:
    typing = at(pipeline(CHAT, AGENT, bound('"classType": "¦", "from": "agent"', "llm_profiled")))
    assert typing.labels[0] == "llm"
    assert typing.detail("llm") == "me serves as it; agent invokes it"
    assert typing.detail("memory") == "me does not serve as it; agent invokes it"
    typing = at(pipeline(CHAT, bound('"classType": "¦", "from": "chat"')))
    assert typing.labels == ["tool"]


# whole edges and their keys


def test_a_list_of_edges_is_offered_whole_ones() -> None:
    typing = at(pipeline(CHAT, WEBHOOK, node("me", "router", '"input": [¦]')))
    assert typing.labels[0] == "in → text"
    assert "chat → questions" in typing.labels
    assert value_at(typing.accept("chat → questions"), "/components/2/input") == [{"lane": "questions", "from": "chat"}]


def test_an_edge_that_is_there_comes_last() -> None:
    inside = '"input": [{"lane": "text", "from": "in"}, ¦]'
    labels = at(pipeline(WEBHOOK, node("me", "router", inside))).labels
    assert (labels[0], labels[-1]) == ("in → questions", "in → text")


@pytest.mark.parametrize("provider", ["router", "nobody"])
def test_where_nothing_fits_an_empty_edge_is_offered(provider: str) -> None:
    typing = at(pipeline(node("f", "files"), node("me", provider, '"input": [¦]')))
    (label,) = typing.labels
    assert value_at(typing.accept(label), "/components/1/input") == [{"lane": "", "from": ""}]


def test_an_empty_edge_is_offered_its_keys_and_whole_ones() -> None:
    typing = at(pipeline(CHAT, node("me", "router", '"input": [{¦}]')))
    assert typing.labels == ["lane", "from", "chat → questions"]
    assert value_at(typing.accept("chat → questions"), "/components/1/input") == [{"lane": "questions", "from": "chat"}]


def test_a_key_of_an_edge_brings_what_fits_the_other() -> None:
    typing = at(pipeline(CHAT, WEBHOOK, taking('"from": "chat", ¦')))
    assert typing.labels == ["lane"]
    assert value_at(typing.accept("lane"), "/components/2/input/0") == {"from": "chat", "lane": "questions"}
    typing = at(pipeline(CHAT, WEBHOOK, taking('¦"lane": "questions"', node_id="x")))
    assert value_at(typing.accept("from"), "/components/2/input/0/from") in ("chat", "in")
    typing = at(pipeline(CHAT, AGENT, bound('"from": "agent", ¦')))
    assert value_at(typing.accept("classType"), "/components/2/control/0/classType") == "tool"


def test_of_hundreds_those_are_kept_that_fit_best() -> None:
    many = [node(f"w{number}", "webhook" if number % 2 else "files") for number in range(450)]
    typing = at(pipeline(*many, taking('"from": "¦"')))
    assert typing.completion.cut
    assert len(typing.labels) == 200
    assert set(typing.ranks().values()) == {0}
    typing = at(pipeline(*many, taking('"from": "w44¦"')))
    assert "w44" in typing.labels
    assert all("4" in label for label in typing.labels)
