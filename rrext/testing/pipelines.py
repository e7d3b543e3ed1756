"""Pipelines in this process, for tests by their authors."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias

import anyio

from rrext.client.client import Client
from rrext.clock import Clock
from rrext.connections import Connections
from rrext.engine.events.hub import EventSink
from rrext.engine.events.records import Filter
from rrext.engine.local_engine import LocalEngine
from rrext.limits import DEFAULTS, Limits
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.catalog.plugins import load_nodes
from rrext.pipefile.environment import Environment
from rrext.testing.pairs import pair
from rrext.testing.waiting import run_to_end
from rrext.tools.context import SILENT, ToolCallbacks

Pipeline: TypeAlias = Mapping[str, Any] | str | os.PathLike[str]
"""An object, or the path of a file."""
Nodes: TypeAlias = Iterable[type[Node] | str | os.PathLike[str]]
"""Node classes, or values of `--nodes`: a Python file or a module's name."""


@asynccontextmanager
async def open_pipeline(
    pipeline: Pipeline,
    *,
    nodes: Nodes = (),
    env: Mapping[str, str] | None = None,
    connections: Mapping[str, Any] | None = None,
    root: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULTS,
    clock: Clock | None = None,
    callbacks: ToolCallbacks = SILENT,
    over: Literal["memory", "pipes"] = "memory",
    dialect: Literal["dap", "jsonrpc"] = "dap",
    context: Mapping[str, Any] | None = None,
    on_event: EventSink | None = None,
) -> AsyncIterator[Client]:
    """Load a pipeline in this process and give its `Client`: `async with open_pipeline("a.pipe") as client: …`.

    On asyncio. `env` holds all variables for `${NAME}`, and those of `connections`, which are tables as in a file of
    connections. `on_event` receives all events of the engine and their data, see `Engine.subscribe`. The end closes
    everything. Raises `InvalidPipeline` with all problems.
    """
    environment = Environment(env, env or ())
    folder = None if root is None else os.fspath(root)
    engine = LocalEngine(
        catalog=Catalog(_classes(nodes)),
        environment=environment,
        limits=limits,
        clock=clock,
        callbacks=callbacks,
        root=folder,
        connections=Connections.of(connections or {}, env or {}),
    )
    try:
        if on_event is not None:
            engine.subscribe(Filter(data=True), on_event)
        if isinstance(pipeline, Mapping):
            engine.load(dict(pipeline))
        else:
            text = await anyio.Path(pipeline).read_bytes()
            stem, _ = os.path.splitext(os.path.basename(pipeline))
            engine.load(text, token=stem, name=stem, folder=os.path.dirname(os.path.abspath(pipeline)))  # noqa: ASYNC240
        async with pair(engine, over=over, dialect=dialect, context=context) as client:
            yield client
    finally:
        await engine.aclose()


def run_pipeline(
    pipeline: Pipeline,
    data: bytes | str,
    *,
    mimetype: str | None = None,
    objinfo: Mapping[str, Any] | None = None,
    nodes: Nodes = (),
    env: Mapping[str, str] | None = None,
    root: str | os.PathLike[str] | None = None,
    context: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Send one object through a pipeline and return its result body. Blocks; in `async` tests use `open_pipeline`.

    Raises the object's failure, with the partial result as `.result`.
    """

    async def send() -> dict[str, Any]:
        async with open_pipeline(pipeline, nodes=nodes, env=env, root=root, context=context) as client:
            return await client.send(data, mimetype=mimetype, objinfo=objinfo)

    return run_to_end(send)


def _classes(nodes: Nodes) -> list[type[Node]]:
    found: list[type[Node]] = []
    for node in nodes:
        found += [node] if isinstance(node, type) else load_nodes(os.fspath(node))
    return found
