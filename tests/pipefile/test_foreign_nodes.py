"""Nodes of RocketRide that rrext does not have are known: by class type and lanes, and never replaced by another vendor's."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from sample_nodes import component, found, only, pipeline

from rrext.engine.interface.operations import Services
from rrext.engine.local_engine import LocalEngine
from rrext.errors import ProviderNotFound
from rrext.nodes import ALIASES, BUILTIN
from rrext.nodes.base.lanes import LANES
from rrext.nodes.base.node import Node, accepted_lanes, served_types
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.catalog.foreign_nodes import foreign_nodes
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline

CHAT = component("chat_1", "chat")
DROPPER = component("dropper_1", "dropper")


def told(*parts: dict[str, Any], **options: Any) -> list[tuple[str, str, str]]:
    """Code, severity and path of each problem of a pipeline of built-in nodes."""
    loaded = load_pipeline(json.dumps(pipeline(*parts)), Catalog(installed=False), Environment(), **options)
    return [(each.code, each.severity, each.path) for each in loaded.problems]


def test_each_row_of_the_table_names_known_lanes_and_nodes_that_are_here() -> None:
    nodes = foreign_nodes()
    assert {"llm_mistral", "store_chroma", "chroma", "tool_github", "agent_llamaindex", "image_cleanup"} <= nodes.keys()
    assert not nodes.keys() & {*BUILTIN, *ALIASES}
    catalog = Catalog(installed=False)
    for node in nodes.values():
        assert node.class_types
        assert {*node.accepted, *node.offered} <= set(LANES)
        for ours in node.ours:
            there = catalog.class_of(ours)
            assert not node.accepted or set(node.accepted) & set(accepted_lanes(there)), (node.provider, ours)
            assert set(node.class_types) & {*there.class_types, *served_types(there), "data", "preprocessor"}


@pytest.mark.promise("foreign:known-not-offered")
def test_the_message_says_what_the_node_is_and_no_name_is_offered_for_it() -> None:
    problem = only(pipeline(component("w", "webhook"), component("m", "llm_mistral", control="llm:w")))
    assert (problem.code, problem.severity, problem.path) == ("foreign_provider", "error", "/components/1/provider")
    assert problem.near == ()
    assert problem.message == (
        '"llm_mistral" (llm) is a node of RocketRide and not part of rrext. '
        "For the same purpose rrext has llm_openai_api, llm_openai, llm_ollama, with other settings."
    )
    github = only(pipeline(component("w", "webhook"), component("g", "tool_github", control="tool:w")))
    assert github.message == '"tool_github" (tool) is a node of RocketRide and not part of rrext.'


@pytest.mark.promise("foreign:known-not-offered")
def test_no_foreign_node_is_taken_for_a_misspelling_of_another_one() -> None:
    parts = [component(f"x{n}", provider) for n, provider in enumerate(foreign_nodes())]
    assert told(component("w", "webhook"), *parts) == [
        ("foreign_provider", "error", f"/components/{n}/provider") for n in range(1, len(parts) + 1)
    ]


def test_edges_into_and_out_of_foreign_nodes_are_checked_and_right_ones_are_right() -> None:
    parts = (
        DROPPER,
        component("parse_1", "llamaparse", "tags:dropper_1"),
        component("split_1", "preprocessor_llm", "text:parse_1", "table:parse_1"),
        component("store_1", "store_chroma", "documents:split_1"),
        component("chat_1", "chat"),
        component("agent_1", "agent_llamaindex", "questions:chat_1"),
        component("llm_1", "llm_mistral", control="llm:agent_1"),
        component("tool_1", "tool_github", control="tool:agent_1"),
        component("out_1", "response_answers", "answers:agent_1"),
    )
    assert {(code, severity) for code, severity, _ in told(*parts)} == {
        ("foreign_provider", "error"),
    }
    wrong = (*parts[:3], component("store_1", "store_chroma", "text:split_1"))
    assert [each for each in told(*wrong) if each[0] != "foreign_provider"] == [
        ("lane_not_offered", "warning", "/components/3/input/0/lane"),
        ("lane_not_accepted", "warning", "/components/3/input/0/lane"),
    ]
    reversed_edge = told(CHAT, {**component("agent_1", "agent_llamaindex", control="llm:m")}, component("m", "llm_ollama"))
    assert ("control_on_invoker", "warning", "/components/1/control/0") in reversed_edge
    bound = told(CHAT, component("g", "tool_github", control="llm:chat_1"))
    assert ("class_type_not_served", "warning", "/components/1/control/0/classType") in bound


def test_a_lane_that_our_node_lacks_is_an_error_beside_a_foreign_one_too() -> None:
    found_here = told(CHAT, component("m", "llm_mistral", "questions:chat_1"), component("o", "response_text", "answers:m"))
    assert ("lane_not_accepted", "error", "/components/2/input/0/lane") in found_here


def test_loaded_in_part_a_foreign_node_is_unavailable_and_its_wrong_lanes_are_no_reason_to_refuse_the_rest() -> None:
    parts = (
        DROPPER,
        component("o", "image_cleanup", "tags:dropper_1"),
        component("p", "tool_python", control="tool:dropper_1"),
    )
    loaded = load_pipeline(json.dumps(pipeline(*parts)), Catalog(installed=False), Environment(), partial=True)
    assert loaded.spec is not None
    assert loaded.spec.component("o").missing == '"image_cleanup" (image) is a node of RocketRide and not part of rrext.'


def test_an_own_node_of_that_name_is_the_node() -> None:
    class Github(Node):
        provider = "tool_github"
        title = "Ours"

    parts = pipeline(component("w", "webhook"), component("g", "tool_github", control="tool:w"))
    loaded = load_pipeline(json.dumps(parts), Catalog([Github], installed=False), Environment())
    assert "foreign_provider" not in {each.code for each in loaded.problems}


def test_a_misspelt_foreign_name_is_an_unknown_one() -> None:
    assert ("unknown_provider", "/components/0/provider") in found(pipeline(component("w", "llm_antropic")))


async def test_services_say_so_too() -> None:
    engine = LocalEngine(catalog=Catalog(installed=False))
    try:
        with pytest.raises(
            ProviderNotFound, match="Service 'store_chroma' not found. \"store_chroma\" .*rrext has store_q"
        ) as e:
            await asyncio.wait_for(engine.ask(Services(service="store_chroma")), 10)
        assert e.value.data["near"] == []
    finally:
        await engine.aclose()
