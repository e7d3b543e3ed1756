"""What `setup` is given beside the settings: paths, threads, and news of lost connections."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from engine_world import until, world

from rrext import SetupContext
from rrext.engine.interface.call import Caller
from rrext.errors import Unavailable
from rrext.nodes.base.node import Node
from rrext.testing import open_node
from rrext.threads import Workers
from rrext.tools.decorator import tool_function


class Keeper(Node):
    """Shows what its setup was given."""

    provider = "keeper"

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[SetupContext]:
        yield ctx

    @tool_function
    def given(self) -> list[Any]:
        """The node's id and whether it is confined."""
        return [self.shared.node_id, self.shared.confined]


async def test_a_setup_that_asks_for_a_context_knows_its_node() -> None:
    async with open_node(Keeper) as client:
        assert await client.tool(tool="given") == ["node", False]


async def test_a_setup_under_a_root_knows_that_it_is_confined(tmp_path: Path) -> None:
    async with open_node(Keeper, root=tmp_path) as client:
        assert await client.tool(tool="given") == ["node", True]


def test_a_relative_path_begins_at_the_nodes_directory_and_an_absolute_one_stays(tmp_path: Path) -> None:
    ctx = SetupContext(Workers(), directory=str(tmp_path))
    assert ctx.path("a/../b.db") == str(tmp_path / "b.db")
    assert ctx.path("/elsewhere/b.db") == "/elsewhere/b.db"


@pytest.mark.parametrize("name", ["../b.db", "/etc/passwd", "a/../../b", "link/b.db", "link"])
def test_a_confined_path_never_leaves_the_directory(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)
    ctx = SetupContext(Workers(), node_id="db_1", directory=str(root), confined=True)
    with pytest.raises(Unavailable, match='Node "db_1" may not use'):
        ctx.path(name)
    assert ctx.path("inside/b.db") == str(root / "inside" / "b.db")
    assert ctx.path(str(root / "b.db")) == str(root / "b.db")


async def test_a_function_in_a_thread_returns_or_raises_what_it_did() -> None:
    ctx = SetupContext(Workers())
    assert await ctx.in_thread(threading.get_ident) != threading.get_ident()
    assert await ctx.in_thread(os.path.join, "a", "b") == os.path.join("a", "b")
    with pytest.raises(ZeroDivisionError):
        await ctx.in_thread(lambda: 1 / 0)
    with pytest.raises(RuntimeError, match="nothing left"):
        await ctx.in_thread(lambda: _stop("nothing left"))


def _stop(text: str) -> None:
    raise StopIteration(text)


async def test_every_listener_hears_of_every_lost_connection_also_when_one_fails() -> None:
    heard: list[tuple[str, bool]] = []
    loop = threading.get_ident()

    class Listening(Node):
        provider = "listening"

        @classmethod
        @asynccontextmanager
        async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[None]:
            ctx.on_disconnect(lambda connection: {}[connection])
            ctx.on_disconnect(lambda connection: heard.append((connection, threading.get_ident() == loop)))
            yield

        @tool_function
        def touch(self) -> None:
            """Be set up."""

    async with world(Listening) as w:
        w.engine.disconnect("early")
        await w.tool("touch", caller=Caller(connection_id="one")).result()
        w.engine.disconnect("one")
        w.engine.disconnect("two")
        await until(lambda: len(heard) == 2)
        assert sorted(heard) == [("one", False), ("two", False)]
        await w.terminate()
        w.engine.disconnect("late")
    assert len(heard) == 2
