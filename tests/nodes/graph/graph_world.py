"""A graph under test: how its node is opened, and what is asked of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from rrext.client.client import Client
from rrext.errors import RrextError
from rrext.nodes.base.node import Node
from rrext.testing import open_node

__all__ = ["PEOPLE", "SCHEMA", "GraphWorld", "Tools", "until"]

SCHEMA = (
    "CREATE NODE TABLE Person(name STRING PRIMARY KEY, born INT64, height DOUBLE)",
    "CREATE NODE TABLE City(name STRING PRIMARY KEY)",
    "CREATE REL TABLE KNOWS(FROM Person TO Person, since INT64)",
    "CREATE REL TABLE LIVES_IN(FROM Person TO City)",
)
PEOPLE = (
    "CREATE (:Person {name: 'Charles', born: 1791})",
    "MATCH (c:Person) CREATE (:Person {name: 'Ada', born: 1815, height: 1.65})-[:KNOWS {since: 1833}]->(c)",
    "CREATE (:Person {name: 'Mary', born: 1797})",
    "MATCH (a:Person {name: 'Ada'}) CREATE (a)-[:LIVES_IN]->(:City {name: 'London'})",
)


async def until(condition: Callable[[], Any]) -> None:
    """Return when it holds. What threads do tells nobody, so it is looked for; the test's own timeout ends it."""
    while not condition():
        await anyio.sleep(0.005)


class Tools:
    """The tools of one node: `await tools("query", query="…")`."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, /, **input: Any) -> Any:
        return await self.client.tool(tool=tool, input=input)

    async def fails(self, tool: str, /, **input: Any) -> RrextError:
        """What the call raises; the test fails if it raises nothing."""
        with pytest.raises(RrextError) as caught:
            await self(tool, **input)
        return caught.value

    async def rows(self, query: str, **params: Any) -> list[list[Any]]:
        """The rows of a query as lists."""
        return (await self("query", query=query, params=params, row_mode="array"))["rows"]

    async def value(self, query: str, **params: Any) -> Any:
        """The only value of the only row."""
        [[value]] = await self.rows(query, **params)
        return value


class GraphWorld:
    """How a graph of one kind is opened."""

    def __init__(self, kind: str, node: type[Node], config: dict[str, Any], content: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.node = node
        self.config = config
        self.content = content

    @asynccontextmanager
    async def open(self, *, is_filled: bool = True, **settings: Any) -> AsyncIterator[Tools]:
        """The tools of a node, with the content unless `is_filled` is false."""
        async with open_node(self.node, {**self.config, **settings}) as client:
            tools = Tools(client)
            for statement in self.content if is_filled else ():
                await tools("execute", query=statement)
            yield tools

    def slow(self) -> str:
        """A statement that takes far longer than its caller waits. ArcadeDB does not stop what a lost client asked for, so
        it is one of seconds there."""
        most = 2_000 if self.kind == "neo4j" else 100_000
        return f"UNWIND range(1, {most}) AS a UNWIND range(1, {most}) AS b WITH a, b WHERE a * b = 7 RETURN count(*) AS n"
