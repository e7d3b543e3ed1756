"""What a context may see is what it may call, and one context's answer is never another's."""

from __future__ import annotations

import logging

import pytest

from rrext import Node, ToolContext, tool_function
from rrext.tools.spec import ToolSpec

pytestmark = pytest.mark.promise("tools:availability-per-request")


class Library(Node):
    switched_on = True

    @tool_function(available=lambda ctx: ctx.space_id is not None)
    def list_sources(self): ...

    @tool_function(available=lambda node, ctx: node.switched_on and ctx.user_id == "ada")
    def search_web(self): ...

    @tool_function(available=lambda ctx: ctx.nothing_of_that_name)
    def broken(self): ...

    @tool_function
    def always(self): ...


def names(node: Library, ctx: ToolContext | None) -> list[str]:
    return [tool["name"] for tool in Library.tools.listing(node, ctx)]


def test_contexts_see_different_tools_at_the_same_moment() -> None:
    node = Library()
    ada, bob = ToolContext(user_id="ada", space_id="s"), ToolContext(user_id="bob")
    assert names(node, ada) == ["list_sources", "search_web", "always"]
    assert names(node, bob) == ["always"]
    assert names(node, ada) == ["list_sources", "search_web", "always"]
    assert names(node, None) == ["always"]


def test_nodes_are_switched_one_by_one() -> None:
    on, off, ada = Library(), Library(), ToolContext(user_id="ada")
    off.switched_on = False
    assert "search_web" in names(on, ada)
    assert "search_web" not in names(off, ada)


@pytest.mark.parametrize("name", list(Library.tools))
@pytest.mark.parametrize("user", ["ada", "bob"])
@pytest.mark.parametrize("space", ["s", None])
def test_listing_and_calling_agree(name: str, user: str, space: str | None) -> None:
    node, ctx = Library(), ToolContext(user_id=user, space_id=space)
    assert (name in names(node, ctx)) == Library.tools[name].is_available(node, ctx)


def test_a_predicate_that_raises_hides_the_tool_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    class Fresh(Node):
        broken = Library.broken

    spec: ToolSpec = Fresh.tools["broken"]
    with caplog.at_level(logging.ERROR):
        assert [spec.is_available(Fresh(), ToolContext()) for _ in range(3)] == [False] * 3
    [record] = caplog.records
    assert "broken" in record.getMessage()
    assert record.exc_info is not None


def test_a_tool_without_predicate_says_so() -> None:
    assert not Library.tools["always"].has_predicate
    assert Library.tools["search_web"].has_predicate
