"""What of a pipeline is drawn: everything that can be made out, as the file has it, with what is wrong at its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from picture_nodes import catalog

from rrext.errors import ResultTooLarge
from rrext.limits import PictureLimits
from rrext.picture.picture import Picture, PictureEdge, picture_of
from rrext.picture.svg import as_svg
from rrext.picture.text import as_mermaid, as_text
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.pipefile.pipeline_loader import load_pipeline

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"


def loaded(pipeline: str | dict[str, Any], **variables: str) -> LoadedPipeline:
    return load_pipeline(pipeline, catalog(), Environment(variables), strict_env=False, positions=True)


def of(*components: Any, source: str = "w", **variables: str) -> Picture:
    return picture_of(loaded(json.dumps({"components": components, "source": source}), **variables))


def component(
    node_id: Any, provider: Any = "prompt", *inputs: str, control: tuple[str, ...] = (), **more: Any
) -> dict[str, Any]:
    edges = [dict(zip(("lane", "from"), edge.split(":"), strict=True)) for edge in inputs]
    controls = [dict(zip(("classType", "from"), edge.split(":"), strict=True)) for edge in control]
    return {"id": node_id, "provider": provider, "config": {}, "input": edges, "control": controls, **more}


WEBHOOK = component("w", "webhook")


def test_an_agent_and_what_it_uses_are_there_and_nothing_is_wrong() -> None:
    picture = picture_of(loaded((HERE / "agent.pipe").read_text()))
    assert picture.remarks == ()
    assert picture.name == "researcher"
    assert [(node.id, node.role) for node in picture.nodes if node.role != "step"] == [
        ("chat_1", "source"),
        ("answers_1", "response"),
    ]
    assert picture.nodes[1].title == "Research agent"
    control = [(edge.source, edge.target, *edge.names) for edge in picture.edges if edge.kind == "control"]
    assert control == [
        (1, 2, "llm"),
        (1, 3, "memory"),
        (1, 4, "tool"),
        (1, 5, "tool"),
        (1, 6, "tool"),
        (6, 7, "llm"),
        (1, 8, "tool"),
    ]


def test_lanes_between_two_nodes_are_one_edge_with_names_in_the_order_of_the_file() -> None:
    picture = of(WEBHOOK, component("p", "prompt", "text:w", "questions:w", "documents:w", control=("tool:w",)))
    assert [(edge.kind, edge.names) for edge in picture.edges] == [
        ("data", ("text", "questions", "documents")),
        ("control", ("tool",)),
    ]


def test_ids_that_nobody_has_are_nodes_of_their_own_once_each() -> None:
    picture = of(WEBHOOK, component("p", "prompt", "text:gone", "questions:lost", control=("tool:gone",)))
    assert [(node.id, node.role) for node in picture.nodes[2:]] == [("gone", "missing"), ("lost", "missing")]
    assert [(edge.source, edge.target, edge.kind) for edge in picture.edges] == [
        (2, 1, "data"),
        (3, 1, "data"),
        (2, 1, "control"),
    ]
    assert {edge.severity for edge in picture.edges} == {"error"}


def test_of_two_nodes_with_one_id_both_are_there_and_edges_come_from_the_first() -> None:
    picture = of(
        WEBHOOK, component("a", "prompt", "text:w"), component("a", "prompt"), component("r", "response", "questions:a")
    )
    assert [node.id for node in picture.nodes] == ["w", "a", "a", "r"]
    assert [(edge.source, edge.target) for edge in picture.edges] == [(0, 1), (1, 3)]
    assert [remark.code for remark in picture.nodes[2].remarks] == ["duplicate_id", "not_connected"][:1]
    assert picture.nodes[2].severity == "error"


def test_of_two_nodes_with_the_sources_id_one_is_the_source() -> None:
    picture = of(WEBHOOK, component("w", "webhook"))
    assert [node.role for node in picture.nodes] == ["source", "step"]


def test_components_without_id_or_provider_or_that_are_none_are_there() -> None:
    picture = of(
        WEBHOOK, {"provider": "prompt", "input": [{"lane": "text", "from": "w"}]}, {"id": "x"}, 7, {"id": 3, "provider": ""}
    )
    assert [(node.id, node.provider) for node in picture.nodes[1:]] == [("", "prompt"), ("x", ""), ("", ""), ("", "")]
    assert {node.severity for node in picture.nodes[1:]} == {"error"}
    assert [(edge.source, edge.target) for edge in picture.edges] == [(0, 1)]


def test_circles_and_edges_from_a_node_to_itself_are_there() -> None:
    picture = of(
        WEBHOOK, component("a", "prompt", "questions:b", "text:w"), component("b", "prompt", "questions:a", "questions:b")
    )
    assert {(edge.source, edge.target) for edge in picture.edges} == {(2, 1), (0, 1), (1, 2), (2, 2)}


def test_what_is_wrong_stands_at_its_node_and_its_edge_with_line_and_column() -> None:
    text = '{"components": [\n{"id": "w", "provider": "webhook", "config": {}},\n'
    edges = '[{"lane": "text", "from": "w"}, {"lane": "txt", "from": "w"}]'
    edges = '[{"lane": "text", "from": "w"}, {"lane": "txt", "from": "w"}]'
    text += '{"id": "p", "provider": "promt", "config": {}, "input": ' + edges + "}]}"
    picture = picture_of(loaded(text))
    good, bad = picture.nodes
    assert good.severity is None
    assert [(remark.code, remark.place) for remark in bad.remarks] == [("unknown_provider", (3, 25)), ("unknown_lane", (3, 98))]
    assert str(bad.remarks[0]) == '3:25: error: There is no node "promt". Did you mean "prompt"? [unknown_provider]'
    assert [edge.severity for edge in picture.edges] == ["error"], "several lanes are one edge, and the worst counts"


def test_a_warning_is_no_error_and_information_is_neither() -> None:
    picture = of(
        WEBHOOK, component("p", "prompt", "text:w"), component("x", "webhook"), component("r", "response", "questions:p")
    )
    assert [(node.id, node.severity) for node in picture.nodes] == [("w", None), ("p", None), ("x", None), ("r", None)]
    assert [remark.code for remark in picture.nodes[2].remarks] == ["other_source"]
    assert of(WEBHOOK, component("p", "prompt", config={"nothing": 1})).nodes[1].severity == "warning"
    assert of(WEBHOOK, component("p", "prompt", config={"nothing": 1}, name=3)).nodes[1].severity == "error"


def test_a_pipeline_that_was_no_text_has_problems_without_a_place() -> None:
    picture = picture_of(loaded({"components": [component("w", "webhok")]}))
    assert [remark.place for remark in picture.nodes[0].remarks] == [None]
    assert str(picture.nodes[0].remarks[0]).startswith("error: There is no node")


def test_problems_are_found_in_a_pipeline_with_a_wrapper() -> None:
    picture = picture_of(loaded({"pipeline": {"components": [component("a", "webhok")], "name": "inside"}}))
    assert picture.name == "inside"
    assert [remark.code for remark in picture.nodes[0].remarks] == ["unknown_provider"]


@pytest.mark.promise("editor:secrets:never-shown")
def test_what_a_variable_stands_for_is_never_shown() -> None:
    marked = "${ROCKETRIDE_X}"
    picture = of(
        WEBHOOK,
        component(marked, marked, f"{marked}:w", f"text:a{marked}", control=(f"{marked}:w",), name=marked),
        component("after", "prompt", f"questions:{marked}"),
        ROCKETRIDE_X="hidden",
    )
    assert [(edge.source, edge.target) for edge in picture.edges if edge.target == 2] == [(1, 2)], (
        "ids are compared as they are"
    )
    drawn = (as_text(picture), as_text(picture, colour=True), as_svg(picture), as_mermaid(picture))
    assert not [text for text in drawn if "hidden" in text]
    assert marked in drawn[0]
    assert f"a{marked}" in drawn[0]


def test_a_text_that_breaks_off_is_drawn_up_to_there() -> None:
    whole = json.dumps({"components": [WEBHOOK, component("p", "prompt", "text:w"), component("q", "prompt", "questions:p")]})
    picture = picture_of(loaded(whole[: whole.index('"q"') + 2]))
    assert [node.id for node in picture.nodes[:2]] == ["w", "p"]
    assert picture.edges == (PictureEdge(0, 1, "data", ("text",)),)


@pytest.mark.parametrize("text", ["", "[1]", "7", '{"components": 3}', "{"])
def test_where_there_is_nothing_to_draw_the_picture_is_empty_and_says_why(text: str) -> None:
    picture = picture_of(loaded(text))
    assert picture.nodes == ()
    assert picture.remarks
    assert as_text(picture) == ""


def test_more_nodes_than_a_picture_can_show_are_refused_by_name() -> None:
    many = loaded({"components": [component(f"n{index}", "prompt", "text:gone") for index in range(5)]})
    assert len(picture_of(many, PictureLimits(max_nodes=6)).nodes) == 6
    with pytest.raises(ResultTooLarge, match="6 nodes .* 5 .max_nodes"):
        picture_of(many, PictureLimits(max_nodes=5))


def test_more_edges_than_a_picture_can_show_are_refused_by_name() -> None:
    many = loaded({"components": [component(f"n{index}", "prompt", "text:gone") for index in range(5)]})
    assert len(picture_of(many, PictureLimits(max_edges=5)).edges) == 5
    with pytest.raises(ResultTooLarge, match="5 edges .* 4 .max_edges"):
        picture_of(many, PictureLimits(max_edges=4))


def test_ten_thousand_nodes_are_refused() -> None:
    many = {"components": [{"id": f"n{index}", "provider": "prompt", "config": {}} for index in range(10_000)]}
    with pytest.raises(ResultTooLarge, match="max_nodes"):
        picture_of(loaded(many))


TEXTS = [path.read_text() for path in sorted((*EXAMPLES.glob("*.pipe"), HERE / "agent.pipe"))]
PIECES = st.sampled_from(
    ['"', "{", "}", "[", "]", ",", ":", "7", "null", '"id"', '"from": "x"', "\\u202e", "\ud800", "\x1b[31m", "日"]
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A real pipeline with a few pieces gone, or put in anywhere."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        text = text[:start] + draw(st.just("") | PIECES) + text[start + draw(st.sampled_from([0, 0, 1, 5, 40])) :]
    return text


@given(damaged())
def test_any_damaged_file_is_drawn_in_every_form(text: str) -> None:
    picture = picture_of(load_pipeline(text, Catalog(installed=False), Environment({}), strict_env=False))
    drawn = as_text(picture, 80)
    for form in (drawn, as_svg(picture), as_mermaid(picture)):
        assert not [char for char in form if not char.isprintable() and char != "\n"]
    shown = drawn.replace("\n", "")
    assert all(part in shown for node in picture.nodes for part in [node.id[:20]] if part.isascii() and part.isprintable())
