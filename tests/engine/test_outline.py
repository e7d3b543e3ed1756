"""The outline of a pipeline has its nodes and edges, none of its settings, and bears whatever a file has in their places."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rrext.engine.views.task_views import outline_of
from rrext.picture.picture import picture_of_outline
from rrext.picture.svg import as_svg

MEMBERS = ("id", "provider", "name", "config", "input", "control", "lane", "classType", "from", "components", "source")
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(("a", "b")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=5),
    max_leaves=40,
)
edges = st.lists(
    st.fixed_dictionaries({"lane": st.just("text"), "classType": st.just("tool"), "from": st.sampled_from("abc")}) | values
)
components = st.fixed_dictionaries({"id": st.sampled_from("abc") | values, "input": edges | values, "control": edges | values})


def test_an_outline_has_names_and_edges_and_no_settings() -> None:
    pipeline = {
        "name": "n",
        "components": [
            {"id": "w", "provider": "webhook", "config": {"secret": 1}},
            {
                "id": "t",
                "provider": "p",
                "name": "T",
                "ui": {},
                "control": [{"classType": "tool", "from": "w", "tools": ["x"]}],
            },
            {"id": "o", "provider": "response_text", "config": {}, "input": [{"lane": "text", "from": "w"}]},
        ],
    }
    outline = outline_of(pipeline, "")
    assert outline == {
        "sources": ["w"],
        "components": [
            {"id": "w", "provider": "webhook", "name": "", "input": [], "control": []},
            {"id": "t", "provider": "p", "name": "T", "input": [], "control": [{"classType": "tool", "from": "w"}]},
            {"id": "o", "provider": "response_text", "name": "", "input": [{"lane": "text", "from": "w"}], "control": []},
        ],
    }
    picture = picture_of_outline(outline)
    assert [node.role for node in picture.nodes] == ["source", "step", "response"]
    assert [(edge.source, edge.target, edge.kind, edge.names) for edge in picture.edges] == [
        (0, 1, "control", ("tool",)),
        (0, 2, "data", ("text",)),
    ]


@given(st.fixed_dictionaries({"components": st.lists(components, max_size=5) | values}), st.sampled_from(("", "a")))
def test_whatever_stands_in_a_pipeline_has_an_outline_and_a_picture(pipeline: dict[str, Any], source: str) -> None:
    outline = outline_of(pipeline, source)
    json.dumps(outline)
    assert as_svg(picture_of_outline(outline), styled=False).startswith("<svg")
