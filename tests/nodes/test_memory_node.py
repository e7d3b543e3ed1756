"""`memory_internal`: what is kept, for whom, and for how long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import ToolError
from rrext.nodes.base.node import Entry
from rrext.nodes.basic.memory import MemoryNode
from rrext.tools.context import ToolContext

from fake_pipe import context, made  # isort: skip

numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def opened(**settings: Any) -> MemoryNode:
    node = made(MemoryNode, **settings)
    node.open(Entry("a"))
    return node


def test_calls_on_one_open_pipe_share_what_is_kept() -> None:
    node = opened()
    assert node.put(" k ", {"a": [1]}, ctx=context()) == {"ok": True, "key": "k", "scope": "object"}
    assert node.get("k", ctx=context()) == {"ok": True, "key": "k", "value": {"a": [1]}}
    assert node.put("b", None, ctx=context())["ok"] is True
    assert node.list_keys(ctx=context()) == {"ok": True, "keys": ["b", "k"]}


def test_a_key_without_a_value_is_not_the_same_as_a_null() -> None:
    node = opened()
    node.put("null", None, ctx=context())
    assert node.get("null", ctx=context()) == {"ok": True, "key": "null", "value": None}
    assert node.get("none", ctx=context()) == {"ok": False, "key": "none", "value": None}


def test_clear_forgets_one_or_all_and_says_which() -> None:
    node = opened()
    for key in "cab":
        node.put(key, key, ctx=context())
    assert node.clear("b", ctx=context()) == {"ok": True, "cleared": ["b"]}
    assert node.clear("b", ctx=context()) == {"ok": True, "cleared": []}
    assert node.clear(" ", ctx=context()) == {"ok": True, "cleared": ["a", "c"]}
    assert node.list_keys(ctx=context())["keys"] == []


def test_the_next_object_finds_nothing() -> None:
    node = opened()
    node.put("k", 1, ctx=context())
    node.open(Entry("b"))
    assert node.list_keys(ctx=context())["keys"] == []
    node.put("k", 1, ctx=context())
    node.close()
    assert node.list_keys(ctx=context())["keys"] == []


def test_without_a_pipe_the_next_caller_finds_nothing() -> None:
    node = made(MemoryNode)
    assert node.put("k", 1, ctx=context())["scope"] == "call"
    assert node.get("k", ctx=context())["ok"] is False
    node.put("k", 1, ctx=context())
    assert node.clear(ctx=context())["cleared"] == []


def test_without_a_pipe_a_call_and_the_tools_that_it_calls_share_what_is_kept() -> None:
    node = made(MemoryNode)
    outer = context()
    node.put("k", 1, ctx=outer)
    inner = ToolContext(node_id="other", token=outer.token)
    assert node.get("k", ctx=inner)["value"] == 1


@given(value=json_values)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    node = opened()
    node.put("k", value, ctx=context())
    assert msgspec.json.encode(node.get("k", ctx=context())["value"]) == msgspec.json.encode(value)


def test_what_is_kept_cannot_be_changed_from_outside() -> None:
    node = opened()
    value = [1]
    node.put("k", value, ctx=context())
    value.append(2)
    node.get("k", ctx=context())["value"].append(3)
    assert node.get("k", ctx=context())["value"] == [1]


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {1: 2}, object(), "\ud800", cyclic(), (1, 2)])
def test_a_value_that_would_come_back_as_another_is_refused(value: Any) -> None:
    with pytest.raises(ToolError) as caught:
        opened().put("k", value, ctx=context())
    assert caught.value.code == "value_not_json"


def test_the_number_of_values_is_bounded_and_replacing_one_is_not_a_new_one() -> None:
    node = opened(maxKeys=2)
    for key in ("a", "b", "a"):
        node.put(key, 1, ctx=context())
    with pytest.raises(ToolError, match="maxKeys") as caught:
        node.put("c", 1, ctx=context())
    assert caught.value.code == "memory_full"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40), st.booleans()), max_size=30))
def test_the_bytes_are_bounded_whatever_is_put_and_cleared(steps: list[tuple[str, int, bool]]) -> None:
    node = opened(maxBytes=60)
    kept: dict[str, str] = {}
    for key, size, clear in steps:
        if clear:
            node.clear(key, ctx=context())
            kept.pop(key, None)
            continue
        value = "x" * size
        room = 60 - sum(1 + len(v) + 2 for k, v in kept.items() if k != key)
        if 1 + size + 2 <= room:
            node.put(key, value, ctx=context())
            kept[key] = value
        else:
            with pytest.raises(ToolError, match="maxBytes"):
                node.put(key, value, ctx=context())
    assert node.list_keys(ctx=context())["keys"] == sorted(kept)


@pytest.fixture
def crowd() -> Iterator[list[threading.Thread]]:
    threads: list[threading.Thread] = []
    yield threads
    for thread in threads:
        thread.join()


def test_calls_that_overlap_lose_nothing(crowd: list[threading.Thread]) -> None:
    node = opened()

    def fill(name: str) -> None:
        for n in range(50):
            node.put(f"{name}{n}", n, ctx=context())
            node.put("shared", name, ctx=context())

    crowd += [threading.Thread(target=fill, args=(name,)) for name in "abcd"]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    assert len(node.list_keys(ctx=context())["keys"]) == 201
    node.clear(ctx=context())
    assert node._bytes == 0
