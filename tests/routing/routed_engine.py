"""An engine in this process whose tasks run in real processes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from plain_hosts import plain_links

from rrext.engine.interface.call import ANONYMOUS, Call, Caller
from rrext.engine.interface.engine import Engine
from rrext.engine.interface.operations import Execute, Operation, Tool
from rrext.errors import RrextError
from rrext.limits import DEFAULTS
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.tasks.settings import WorkerSettings
from rrext.tasks.task_engine import TaskEngine
from rrext.tasks.worker import Worker
from rrext.tasks.worker_process import WorkerProcess

PLACE = "here"
"""Where tasks run: here, or on a host."""

NODES = str(Path(__file__).resolve().parent / "routed_nodes.py")


def pipeline(project: str = "p", provider: str = "routed") -> dict[str, Any]:
    """A pipeline of one node."""
    return {
        "project_id": project,
        "source": "webhook_1",
        "components": [
            {"id": "webhook_1", "provider": "webhook", "config": {}},
            {"id": "routed_1", "provider": provider, "config": {}, "input": [{"lane": "text", "from": "webhook_1"}]},
        ],
    }


class Routed:
    """The engine, and calls of it."""

    def __init__(self, engine: TaskEngine) -> None:
        self.engine = engine

    async def execute(self, token: str, caller: Caller = ANONYMOUS, **more: Any) -> Worker:
        """Load a pipeline; its worker."""
        text = more.pop("pipeline", None) or pipeline(token)
        body, _ = await self.engine.ask(Execute(pipeline=text, token=token, **more), caller)
        return next(each.worker for each in self.engine.tasks if each.token == json.loads(body)["token"])

    async def tool(self, token: str, tool: str, caller: Caller = ANONYMOUS, **given: Any) -> Any:
        """Call a tool; its result."""
        body, _ = await self.engine.ask(tool_of(token, tool, **given), caller)
        return json.loads(body)["result"]


def tool_of(token: str, tool: str, **given: Any) -> Tool:
    """A call of a tool."""
    return Tool(token=token, tool=tool, input=given)


def descriptor_of(worker: Worker) -> int:
    """What becomes readable when something of a worker has arrived."""
    link: Any = worker.link
    return link.read_fd if isinstance(link, WorkerProcess) else link._tls.fileno


class Noted:
    """A call that notes its answer."""

    def __init__(self, engine: Engine, operation: Operation, caller: Caller = ANONYMOUS, data: bytes | None = None) -> None:
        self.answers: list[Any] = []
        self.call = Call(operation, self, caller, data=data)
        engine.start(self.call)

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None:
        self.answers.append(json.loads(body))

    def fail(self, call: Call, error: RrextError) -> None:
        self.answers.append(error)


async def until(condition: Callable[[], Any]) -> None:
    """Return when it holds."""
    while not condition():
        await asyncio.sleep(0.005)


@asynccontextmanager
async def routed(**values: str) -> AsyncIterator[Routed]:
    """An engine, which has ended with all its processes in the end. `values` are variables."""
    from rrext.pipefile.catalog.plugins import load_nodes

    catalog = Catalog()
    for node in load_nodes(NODES):
        catalog.add(node)
    settings = WorkerSettings(
        number=0, limits=DEFAULTS, values=values, names=list(values), nodes=[NODES], modules=list(sys.path)
    )
    links = {} if PLACE == "here" else {"links": plain_links(settings)}
    engine = TaskEngine(catalog=catalog, environment=Environment(values, list(values)), settings=settings, **links)
    try:
        yield Routed(engine)
    finally:
        await engine.aclose()
