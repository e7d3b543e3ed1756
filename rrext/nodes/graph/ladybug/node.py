"""`graph_ladybug`: a graph database in a file or in memory. It needs no server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import msgspec

from rrext.nodes.base.setup import SetupContext
from rrext.nodes.graph.backend import GraphBackend
from rrext.nodes.graph.node import GraphNode


class LadybugNode(GraphNode):
    """An embedded graph database. Labels and relationship types are declared with CREATE NODE TABLE and CREATE REL TABLE.

    Processes take turns with the file between their transactions; where all have `allow_execute` off, several read it at
    once. Statements that read or write other files of the machine are refused, also in `execute`.

    Ladybug works in a process of its own, as some wrong uses of its functions end that, and some statements cannot be
    stopped. Such a call fails with `graph_crashed` or `statement_timeout`. Others that only read are done again on the next
    process; open transactions are lost.
    """

    provider = "graph_ladybug"
    title = "Ladybug"
    extra = "graph-embedded"
    packages = ("ladybug",)

    paths = {"path": "file"}

    class Config(GraphNode.Config):
        path: Annotated[
            str, "The file. A relative one begins at --root, or else at the folder of the pipeline's file. Empty: in memory."
        ] = ""
        memory_mb: Annotated[int, "Megabytes that the database may use for its pages."] = 256
        threads: Annotated[int, "Threads that one statement may use."] = 2
        lock_timeout: Annotated[float, "Seconds that a call waits until another transaction has written."] = 10.0
        wait: Annotated[
            float, msgspec.Meta(ge=0, le=3600), "Seconds that a call waits for other processes that use the file."
        ] = 10.0

    @classmethod
    def missing(cls, config: Any, path: Callable[[str], str]) -> Iterable[tuple[str, str]]:
        if config.path and not config.allow_execute and not os.path.exists(path(config.path)):
            yield "path", f'There is no graph database "{config.path}"; "allow_execute": true would make an empty one.'

    @classmethod
    def backend(cls, config: Any, ctx: SetupContext) -> GraphBackend:
        from rrext.nodes.graph.ladybug.process import ProcessBackend
        from rrext.nodes.graph.ladybug.rules import EmbeddedSettings

        return ProcessBackend(
            EmbeddedSettings(
                path=ctx.path(config.path) if config.path else "",
                read_only=not config.allow_execute,
                memory_mb=config.memory_mb,
                threads=config.threads,
                lock_timeout=config.lock_timeout,
                procedures=config.allowed_procedures,
                wait=ctx.wait(config.wait),
                owner=os.getpid(),
            )
        )
