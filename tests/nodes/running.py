"""Pipelines on the real engine, in this process: what a client would do, in a line each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from rrext.engine.interface.operations import Close, ListTools, Open, Operation, Tool, Write
from rrext.engine.local_engine import LocalEngine
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.catalog import Catalog

__all__ = ["Running", "component", "pipeline", "running"]


class Running:
    """A loaded pipeline, and its client."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine

    async def ask(self, operation: Operation, data: bytes | None = None) -> Any:
        """The body of the answer; raises the failure."""
        body, _ = await self._engine.ask(operation, data=data)
        return msgspec.json.decode(body)

    async def tool(self, tool: str, input: Mapping[str, Any] | None = None, *, node: str = "", pipe: int | None = None) -> Any:
        """A tool's result."""
        operation = Tool(tool=tool, node_id=node, input=dict(input or {}), pipe_id=pipe)
        return (await self.ask(operation))["result"]

    async def tools(self) -> list[str]:
        """The names of the tools that can be called."""
        return [found["name"] for found in (await self.ask(ListTools()))["tools"]]

    async def open(self, mime_type: str = "text/plain", name: str = "a.txt") -> int:
        """A pipe's number."""
        return (await self.ask(Open(object={"name": name}, mime_type=mime_type)))["pipe_id"]

    async def write(self, pipe: int, data: bytes) -> None:
        await self.ask(Write(pipe_id=pipe), data)

    async def close(self, pipe: int) -> dict[str, Any]:
        """The result body."""
        return await self.ask(Close(pipe_id=pipe))

    async def send(self, mime_type: str, *writes: Any) -> dict[str, Any]:
        """The result body of one object. What is no bytes is written as JSON."""
        pipe = await self.open(mime_type)
        for data in writes:
            await self.write(pipe, data if isinstance(data, bytes) else msgspec.json.encode(data))
        return await self.close(pipe)

    async def chat(self, question: Any) -> dict[str, Any]:
        """The result body of one question."""
        return await self.send("application/rocketride-question", question)


@asynccontextmanager
async def running(
    text: str | dict[str, Any], *, nodes: Iterable[type[Node]] = (), folder: str = "", root: str | None = None
) -> AsyncIterator[Running]:
    """Load a pipeline whose file would stand in `folder`, as `--root` if given; unload it at the end."""
    engine = LocalEngine(catalog=Catalog(nodes), root=root)
    try:
        engine.load(text, folder=folder)
        yield Running(engine)
    finally:
        await engine.aclose()


def component(name: str, provider: str, *inputs: str, control: str = "", **config: Any) -> dict[str, Any]:
    """A component; each input is `lane:from`, `control` is the node that may call its tools."""
    edges = [dict(zip(("lane", "from"), edge.split(":"), strict=True)) for edge in inputs]
    controls = [{"classType": "tool", "from": control}] if control else []
    return {"id": name, "provider": provider, "config": config, "input": edges, "control": controls}


def pipeline(*components: dict[str, Any]) -> dict[str, Any]:
    """A pipeline that begins at its first component."""
    project = "3f0f5d1e-4a0b-4a57-9a63-0d5f6f4f7a11"
    return {"components": list(components), "source": components[0]["id"], "project_id": project, "version": 1}
