"""One node in this process, for tests by its author."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from rrext.client.client import Client
from rrext.client.pipe import Data
from rrext.client.updates import ChunkCallback, ProgressCallback
from rrext.clock import Clock
from rrext.engine.events.hub import EventSink
from rrext.limits import DEFAULTS, Limits
from rrext.nodes.base.lanes import LANES
from rrext.nodes.base.node import Node
from rrext.testing.pipelines import open_pipeline
from rrext.testing.waiting import run_to_end
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
