"""`graph_neo4j`: Neo4j, or another graph database that speaks Bolt."""

from __future__ import annotations

from typing import Annotated, Any

from rrext.nodes.base.setup import SetupContext
from rrext.nodes.graph.backend import GraphBackend
from rrext.nodes.graph.node import GraphNode


class Neo4jNode(GraphNode):
    """A graph database behind a Bolt server. A server that is down fails the calls, not the node: the next call tries again.

    `query` is checked by rrext itself and runs in read access mode; Neo4j enforces that mode, other servers may not.
    """

    provider = "graph_neo4j"
    title = "Neo4j"
    extra = "graph"
    packages = ("neo4j",)

    class Config(GraphNode.Config):
        uri: Annotated[str, "Where the server is: neo4j://host:7687, with +s for TLS; bolt:// for one server alone."] = (
            "neo4j://localhost:7687"
        )
        user: Annotated[str, "Who asks; empty if the server asks for nobody."] = "neo4j"
        password: Annotated[str, "Best as ${ROCKETRIDE_NEO4J_PASSWORD}. Never shown."] = ""
        database: Annotated[str, "Which database of the server; empty: the user's home database."] = ""
        pool_size: Annotated[int, "Connections at most. Every open transaction has one of its own."] = 8
        pool_timeout: Annotated[float, "Seconds that a call waits for a free connection."] = 10.0
        connect_timeout: Annotated[float, "Seconds that connecting may take."] = 5.0

    @classmethod
    def backend(cls, config: Any, ctx: SetupContext) -> GraphBackend:
        ctx.require_local_pipeline()
        from rrext.nodes.graph.neo4j.backend import BoltBackend, BoltSettings

        return BoltBackend(
            BoltSettings(
                uri=config.uri,
                user=config.user,
                password=config.password,
                database=config.database,
                connections=config.pool_size,
                wait=config.pool_timeout,
                connect=config.connect_timeout,
            )
        )
