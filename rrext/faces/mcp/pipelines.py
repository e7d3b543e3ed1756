"""Several pipelines as one: their tools in one list, under names that are unique in it; and whole pipelines as tools: a text
or a question goes in, the result of its object comes out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from rrext.engine.events.hub import EventSink, Subscription
from rrext.engine.events.records import Filter
from rrext.engine.interface.call import Call, Caller
from rrext.engine.interface.engine import Engine
from rrext.engine.interface.failures import internal_error
from rrext.engine.interface.operations import ListTasks, ListTools, Tool
from rrext.engine.local_engine import LocalEngine
from rrext.errors import RrextError, ToolNotFound, UsageError, near_matches
from rrext.tools.names import exported_names


class ManyPipelines(Engine):
    """Another engine, whose callers name no pipeline.

    A tool has its own name, or `token__tool` if several pipelines have one of that name. Names of the last list are unique;
    a name of an earlier list keeps its meaning until a later list gives it to another tool.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.batch = engine.batch
        self._tools: dict[str, tuple[str, str]] = {}  # listed name → token and name in its pipeline
        self._running: set[asyncio.Task[None]] = set()

    def start(self, call: Call, *, alone: bool = False) -> bool:
        operation = call.operation
        if isinstance(operation, ListTools) and operation.token is None:
            self._run(call)
            return False
        if isinstance(operation, Tool) and operation.token is None and not self._directed(call, operation):
            self._run(call)
            return False
        return self._engine.start(call, alone=alone)

    def start_here(self, call: Call, *, alone: bool = False) -> bool:
        operation = call.operation
        if isinstance(operation, Tool) and (operation.token is not None or self._directed(call, operation)):
            return self._engine.start_here(call, alone=alone)
        return False

    def subscribe(self, filter: Filter, sink: EventSink) -> Subscription:
        return self._engine.subscribe(filter, sink)

    def disconnect(self, connection_id: str) -> None:
        self._engine.disconnect(connection_id)

    async def aclose(self) -> None:
        await self._engine.aclose()

    def _directed(self, call: Call, operation: Tool) -> bool:
        """Name the pipeline of a tool call; False if the name was not listed."""
        found = self._tools.get(operation.tool)
        if found is None:
            return False
        call.operation = msgspec.structs.replace(operation, token=found[0], tool=found[1])
        return True

    def _run(self, call: Call) -> None:
        running = asyncio.get_running_loop().create_task(self._answer(call))
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    async def _answer(self, call: Call) -> None:
        """Answer a list of tools, or a call of a tool that was not listed yet."""
        try:
            tools = await self._listed(call.caller, call.operation)
            operation = call.operation
            if isinstance(operation, ListTools):
                call.succeed(msgspec.json.encode({"tools": tools}))
            elif isinstance(operation, Tool) and not call.settled:
                if not self._directed(call, operation):
                    listed = [tool["name"] for tool in tools]  # those of this caller
                    raise ToolNotFound.near(f'No pipeline has a tool "{operation.tool}".', operation.tool, listed)
                self._engine.start(call)
        except RrextError as error:
            call.fail(error)
        except BaseException:
            call.fail(internal_error())
            raise

    async def _listed(self, caller: Caller, operation: Any) -> list[dict[str, Any]]:
        """List the tools of all pipelines, and note their names."""
        body, _ = await self._engine.ask(ListTasks(), caller)
        found: dict[tuple[str, str], dict[str, Any]] = {}
        refusals: list[RrextError] = []
        for token in [task["token"] for task in msgspec.json.decode(body)["tasks"]]:
            try:
                body, _ = await self._engine.ask(ListTools(token=token, format="mcp"), caller)
            except RrextError as error:
                if not caller.claims:
                    raise
                refusals.append(error)  # of a pipeline whose spaces are others
                continue
            found |= {(token, tool["name"]): tool for tool in msgspec.json.decode(body)["tools"]}
        if refusals and not found:
            raise refusals[0].again()
        names = exported_names(found)
        self._tools |= {name: key for key, name in names.items()}
        return [_renamed(tool, names[token, name], token) for (token, name), tool in found.items()]


def _renamed(tool: dict[str, Any], name: str, token: str) -> dict[str, Any]:
    return tool if name == tool["name"] else {**tool, "name": name, "title": f"{tool['title']} ({token})"}


TOKEN: Final = "--as-tool"
"""The token of the pipeline that offers the others: no file is called so."""

LANES: Final = ("text", "tags", "questions")


def offer(engine: LocalEngine, offered: Sequence[str], tokens: Sequence[str]) -> None:
    """Load a pipeline whose tools are other pipelines: `NAME` for the only one, `TOKEN=NAME` or `TOKEN` for one of several.

    Raises `UsageError` for a pipeline that is not there or takes no text and for a name that is taken, and `InvalidPipeline`
    for a name that is none.
    """
    meant = [_meant(text, tokens) for text in offered]
    taken: dict[str, str] = {}
    for token in tokens:
        for part in engine.task(token).components.values():
            taken |= dict.fromkeys(part.node_class.tools, f'a tool of "{token}"')
    for token, name in meant:
        if name in taken:  # else both would get other names than those that the operator knows
            raise UsageError(
                f"--as-tool {name}: {taken[name]} has this name", hint=f"choose another one: --as-tool {token}=NAME"
            )
        taken[name] = "another pipeline"
    tools = [_reference(engine, token, name) for token, name in meant]
    source = {"id": "tools_1", "provider": "tools", "config": {"tools": tools}}
    engine.load({"components": [source], "source": "tools_1"}, token=TOKEN, name="pipelines")


def _meant(text: str, tokens: Sequence[str]) -> tuple[str, str]:
    """The token of a pipeline and the name of the tool. Raises `UsageError`."""
    token, equals, name = text.rpartition("=")
    if not equals:
        token = tokens[0] if len(tokens) == 1 else text
    if token not in tokens:
        near = near_matches(token, tokens)
        hint = f"did you mean {near[0]}={name}?" if near else f"TOKEN=NAME, with one of {', '.join(tokens)}"
        raise UsageError(f"--as-tool {text}: no file has the token (stem) {token!r}", hint=hint)
    return token, name


def _reference(engine: LocalEngine, token: str, name: str) -> dict[str, Any]:
    task = engine.task(token)
    plan = task.plan_from(None)
    if not any(map(plan.listens, LANES)):
        raise UsageError(f'--as-tool {name}: nothing in "{token}" takes texts or questions from its source "{plan.source}"')
    described = {"description": task.spec.description} if task.spec.description else {}
    return {"type": "pipeline", "pipeline": token, "name": name, **described}
