"""Exported names: one for each tool of a pipeline, all different, whatever nodes and tools are called."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.tools.names import exported_names, joined_name

pytestmark = pytest.mark.promise("names:unique-and-exportable")

plain = st.from_regex(r"[a-zA-Z0-9-]{1,8}(_[a-zA-Z0-9-]{1,8}){0,2}", fullmatch=True)
tools = st.sampled_from(["query", "a__b", "b", "_x", "-", "a" * 64]) | st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True)
nodes = st.sampled_from(["a", "a__b", "a_", "Käse 1", "a.b", "a b", "n" * 70, "n" * 71, "", "db_1"]) | st.text(max_size=80)


@given(st.lists(st.tuples(nodes, tools), unique=True, max_size=30))
def test_every_tool_has_a_name_of_its_own_that_vendors_accept(pairs: list[tuple[str, str]]) -> None:
    names = exported_names(pairs)
    assert list(names) == pairs
    assert len(set(names.values())) == len(pairs)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names.values())
    own = {tool for _, tool in pairs}
    for (_, tool), name in names.items():
        is_alone = [other for _, other in pairs].count(tool) == 1
        assert (name == tool) if is_alone else (name not in own), "a name that means one tool never means another"


@given(st.lists(plain, min_size=1, max_size=5))
def test_plain_segments_can_be_read_from_a_name(segments: list[str]) -> None:
    name = joined_name(*segments)
    assert name.split("__") == segments or len("__".join(segments)) > 64


def test_names_say_the_node_only_where_two_nodes_have_the_tool() -> None:
    pairs = [("db_1", "query"), ("db_2", "query"), ("db_2", "get_schema"), ("Käse 1", "query")]
    names = list(exported_names(pairs).values())
    assert names[:3] == ["db_1__query", "db_2__query", "get_schema"]
    assert re.fullmatch(r"K_se_1__query__[0-9a-f]{10}", names[3])


def test_long_names_end_in_a_hash_and_stay_the_same() -> None:
    pairs = [("n" * 70, "query"), ("n" * 71, "query")]
    names = list(exported_names(pairs).values())
    assert len(set(names)) == 2
    assert all(re.fullmatch(r"n{52}__[0-9a-f]{10}", name) for name in names)
    assert names == list(exported_names(pairs).values())
