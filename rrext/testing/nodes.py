"""Nodes and pipelines in this process, for tests by their authors, blocking or `async`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias, TypeVar

import anyio

from rrext.client.client import Client
from rrext.client.pipe import Data
from rrext.client.updates import ChunkCallback, ProgressCallback
from rrext.clock import Clock
from rrext.connections import Connections
from rrext.engine.events.hub import EventSink
from rrext.engine.events.records import Filter
from rrext.engine.local_engine import LocalEngine
from rrext.errors import UsageError
from rrext.limits import DEFAULTS, Limits
from rrext.nodes.base.lanes import LANES
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.catalog.plugins import load_nodes
from rrext.pipefile.environment import Environment
from rrext.testing.sessions import pair
from rrext.tools.context import SILENT, ToolCallbacks
from rrext.wire.codec import encode


class Feeder(Node):
    """The source of the pipeline around a tested node: it offers every lane, and controls the node."""

    provider = "rrext_testing_feeder"
    lanes = {"_source": LANES}
    class_types = ("source",)


@asynccontextmanager
async def open_node(
    node: type[Node],
    config: Mapping[str, Any] | None = None,
    *,
    emitted: dict[str, list[Any]] | None = None,
    env: Mapping[str, str] | None = None,
    root: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULTS,
    clock: Clock | None = None,
    callbacks: ToolCallbacks = SILENT,
    context: Mapping[str, Any] | None = None,
    on_event: EventSink | None = None,
) -> AsyncIterator[Client]:
    """Load one node in this process and give a `Client` for it: tools by `client.tool`, lanes by `client.pipe`.

    The node's id is `node`. A pipe's `mimetype="lane/text"` names the lane. `emitted` receives the node's output, a list of
    payloads for each lane. `on_event` receives all events, such as messages that the node publishes.
    """
    recorder = _recorder(emitted if emitted is not None else {})
    outgoing = {lane for lanes in node.lanes.values() for lane in lanes} & set(LANES)
    pipeline = {
        "source": "feeder",
        "components": [
            {"id": "feeder", "provider": Feeder.provider, "config": {"mode": "Source"}},
            {
                "id": "node",
                "provider": node.provider,
                "config": dict(config or {}),
                "input": [{"lane": lane, "from": "feeder"} for lane in node.lanes if lane in LANES],
                "control": [{"classType": "tool", "from": "feeder"}] if node.tools else [],
            },
            {
                "id": "recorder",
                "provider": recorder.provider,
                "config": {},
                "input": [{"lane": lane, "from": "node"} for lane in sorted(outgoing)],
            },
        ],
    }
    nodes = [node, Feeder, recorder]
    async with open_pipeline(
        pipeline,
        nodes=nodes,
        env=env,
        root=root,
        limits=limits,
        clock=clock,
        callbacks=callbacks,
        context=context,
        on_event=on_event,
    ) as client:
        yield client


def call_tool(
    node: type[Node],
    tool: str,
    input: Mapping[str, Any] | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    progress: ProgressCallback | None = None,
    on_chunk: ChunkCallback | None = None,
    env: Mapping[str, str] | None = None,
    root: str | os.PathLike[str] | None = None,
) -> Any:
    """Call one tool of a node class and return its result. Blocks; in `async` tests use `open_node`.

    Schema, config, `setup`, availability and the JSON of the result are the real ones. `context` is `{userId, spaceId}`.
    `progress` is called with value, total and message of each report, `on_chunk` with each chunk of a generator. Raises the
    caller's errors: `InvalidArguments`, `ToolError` …
    """

    async def call() -> Any:
        async with open_node(node, config, env=env, root=root, context=context) as client:
            return await client.tool(
                tool=tool, node_id="node", input=input, timeout=timeout, progress=progress, on_chunk=on_chunk
            )

    return run_to_end(call)


def run_node(
    node: type[Node],
    lane: str,
    *payloads: Any,
    config: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    root: str | os.PathLike[str] | None = None,
) -> dict[str, list[Any]]:
    """Send one object through a node and return its output: lane → payloads. Blocks, as `call_tool` does.

    Each payload is one write to `lane`: text, bytes, or a JSON value for lanes of JSON. Raises the object's failure.
    """
    emitted: dict[str, list[Any]] = {}

    async def send() -> dict[str, list[Any]]:
        opened = open_node(node, config, emitted=emitted, env=env, root=root, context=context)
        async with opened as client, client.pipe(mimetype=f"lane/{lane}") as pipe:
            for payload in payloads:
                await pipe.write(_data(payload))
        return emitted

    return run_to_end(send)


def _data(payload: Any) -> Data:
    return payload if isinstance(payload, str | bytes | bytearray | memoryview) else encode(payload)


def _recorder(emitted: dict[str, list[Any]]) -> type[Node]:
    """A node class that keeps every payload that it receives."""

    def writing(lane: str) -> Any:
        def write(self: Node, payload: Any) -> None:
            emitted.setdefault(lane, []).append(payload)

        return write

    members: dict[str, Any] = {f"write_{lane}": writing(lane) for lane in LANES}
    return type("Recorder", (Node,), {"provider": "rrext_testing_recorder", "lanes": dict.fromkeys(LANES, ()), **members})


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


T = TypeVar("T")


def run_to_end(function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function on its own event loop. Raises `UsageError` inside another one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(function())
    raise UsageError("This helper blocks: in async tests use open_node or open_pipeline.")
