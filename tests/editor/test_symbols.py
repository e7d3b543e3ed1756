"""The outline: components in the order of the chain, with what they hold, in a form that every editor accepts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from editor.readers import CATALOG, TALK, VALUE, broken, documents, look, written
from hypothesis import given

from rrext.editor.analysis import AnalysisSettings, analyse
from rrext.editor.outline import MAX_SYMBOLS, Symbol, symbols_of
from rrext.pipefile.environment import Environment


def names(document: Any) -> list[str]:
    return [symbol.name for symbol in symbols_of(look(document))]


def node(own: str, provider: str = "anything", *inputs: str, control: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {"id": own, "provider": provider, "config": {}}
    if inputs:
        made["input"] = [{"lane": "text", "from": other} for other in inputs]
    if control:
        made["control"] = [{"classType": "tool", "from": control}]
    return made


def everything(symbols: list[Symbol]) -> Iterator[Symbol]:
    for symbol in symbols:
        yield symbol
        yield from everything(list(symbol.children))


def test_the_chain_is_followed_from_its_source() -> None:
    assert names(TALK) == ["chat_1", "agent_1", "answers_1", "llm_1", "desk_1"]


def test_what_is_said_beside_a_name_shows_the_chain() -> None:
    found = {symbol.name: symbol for symbol in symbols_of(look(TALK))}
    assert found["llm_1"].detail == "llm · llm for agent_1"
    assert found["agent_1"].detail == "guide · questions from chat_1"
    assert [found[name].kind for name in ("chat_1", "agent_1", "llm_1", "desk_1", "answers_1")] == [
        "source",
        "node",
        "node",
        "helper",
        "response",
    ]


def test_components_stand_in_the_order_of_the_chain() -> None:
    both = {**node("both", "anything", "b"), "control": [{"classType": "tool", "from": "w"}]}
    document = {
        "components": [
            node("d", "anything", "b", "c"),
            node("deep", "desk", control="tool"),
            node("tool", "desk", control="w"),
            both,
            node("c", "anything", "w"),
            node("b", "anything", "w"),
            node("w", "webhook"),
        ],
        "source": "w",
    }
    assert names(document) == ["w", *look(document).loaded.outline.chain] == ["w", "c", "d", "b", "both", "tool", "deep"]


def test_of_several_sources_all_chains_stand_there() -> None:
    document = {"components": [node("r", "response_text", "w"), node("w", "webhook"), node("c", "chat"), node("x")]}
    found = symbols_of(look(document))
    assert [symbol.name for symbol in found] == ["w", "c", "r", "x"]
    assert ["not connected" in symbol.detail for symbol in found] == [False, False, False, True]


def test_what_nothing_reaches_comes_last_and_says_so() -> None:
    document = {"components": [node("x"), node("y", "anything", "x"), node("w", "webhook"), node("r", "response_text", "w")]}
    found = symbols_of(look(document))
    assert [symbol.name for symbol in found] == ["w", "r", "x", "y"]
    assert ["not connected" in symbol.detail for symbol in found] == [False, False, True, True]


def test_without_a_source_components_stand_in_the_order_of_the_file() -> None:
    document = {"components": [node("b", "strange", "a"), node("a", "strange")]}
    found = symbols_of(look(document))
    assert [symbol.name for symbol in found] == ["b", "a"]
    assert not any("not connected" in symbol.detail for symbol in found)


def test_a_component_holds_its_edges_and_its_settings() -> None:
    found = {symbol.name: symbol for symbol in symbols_of(look(TALK))}["llm_1"]
    assert [child.name for child in found.children] == ["config", "llm for agent_1"]
    config = found.children[0]
    assert [(child.name, child.detail) for child in config.children] == [("profile", '"large"'), ("large", "")]
    assert [(child.name, child.detail) for child in config.children[1].children] == [
        ("apikey", '"${ROCKETRIDE_SECRET}"'),
        ("limits", ""),
    ]


@pytest.mark.promise("editor:secrets:never-shown")
def test_secrets_are_hidden() -> None:
    component = {**node("a"), "config": {"token": "t-1", "secureParameters": {"n": 815}}}
    details = [symbol.detail for symbol in everything(symbols_of(look({"components": [component]})))]
    assert details.count('"•••"') == 2
    assert not any("t-1" in detail or "815" in detail for detail in details)


def test_a_component_without_id_has_a_name_all_the_same() -> None:
    assert names({"components": [{"provider": "desk"}, {"name": "Desk"}, {"id": " \t"}, {}, 3, None]}) == [
        "desk",
        "Desk",
        "component 3",
        "component 4",
        "component 5",
        "component 6",
    ]


def test_there_are_only_so_many_symbols_and_every_component_is_among_them() -> None:
    many = [{**node(f"n{index}"), "config": {f"k{key}": key for key in range(40)}} for index in range(300)]
    found = symbols_of(analyse(str({"components": many}).replace("'", '"'), AnalysisSettings(CATALOG, Environment())))
    assert len(found) == 300
    assert len(list(everything(found))) == MAX_SYMBOLS


def test_a_heap_of_things_that_should_be_components_is_no_heap_of_symbols() -> None:
    assert len(symbols_of(look('{"components": [' + "1," * (MAX_SYMBOLS + 10) + "]}"))) == MAX_SYMBOLS


def assert_sound(symbols: list[Symbol], around: tuple[int, int]) -> None:
    for symbol in symbols:
        assert symbol.name.strip()
        assert not set(symbol.name + symbol.detail) & set("\n\r\0")
        assert around[0] <= symbol.span[0] <= symbol.name_span[0] <= symbol.name_span[1] <= symbol.span[1] <= around[1]
        assert VALUE not in symbol.name + symbol.detail
        assert_sound(list(symbol.children), symbol.span)


@given(broken())
def test_any_text_gives_an_outline_in_which_everything_is_inside_of_what_is_around_it(text: str) -> None:
    assert_sound(symbols_of(look(text)), (0, len(text)))


@given(written(documents()))
def test_every_component_stands_there_once(text: str) -> None:
    analysis = look(text)
    starts = [symbol.span[0] for symbol in symbols_of(analysis)]
    listed = analysis.map.find(f"{analysis.base}/components")
    assert listed is not None
    assert sorted(starts) == [child.start for child in listed.children]
