"""`PipelineTools`: the tools of a pipeline as those of pydantic-ai's loop, which the engine checks and runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from pydantic_ai import ToolDefinition
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

from rrext.errors import RrextError, ToolError
from rrext.nodes.llm.model_loop import run_on
from rrext.tools.results import encode_json

if TYPE_CHECKING:
    from rrext.nodes.agent.budget import Budget
    from rrext.nodes.agent.node import AgentConfig
    from rrext.tools.context import BoundTool, BoundTools, ToolContext

ANY_RETRIES: Final = 1_000_000
"""Retries of a tool and of unknown names: the limits of a run end it, and `Repetition`."""

READ_RESULT: Final = "read_result"
"""The name of the tool that reads on in a result that was cut; another one if the pipeline has such a tool."""

STREAMED: Final = "_stream"
"""The end of the name of a tool whose chunks are the result of another tool: a model wants the whole."""

KEPT_RESULTS: Final = 32 * 1024 * 1024
"""Characters of cut results that one run keeps for `read_result`; of more the oldest are dropped."""


class Arguments:
    """The validator of arguments: a JSON object is passed on, anything else refused. Tools check the rest."""

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> dict[str, Any]:
        """The arguments in a text. Raises `ToolFailed`, so that nothing runs with half of them."""
        try:
            value = msgspec.json.decode(input)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise ToolFailed(f"The arguments are no JSON, and nothing was run: {error}") from None
        return self.validate_python(value)

    def validate_python(self, input: Any, **_: Any) -> dict[str, Any]:
        """The arguments that the SDK has read. Raises `ToolFailed`."""
        if not isinstance(input, dict):
            raise ToolFailed("The arguments are no JSON object, and nothing was run")
        return input


ARGUMENTS: Final = Arguments()


class ToolAccess(Protocol):
    """The tools that a run may use, and no others. Its methods run on the engine's loop."""

    async def tools(self) -> BoundTools:
        """The tools, now."""
        ...

    async def call(self, tool: BoundTool, input: dict[str, Any]) -> Any:
        """The result of one of them. Raises `RrextError`."""
        ...


class BoundAccess:
    """The tools of the nodes that are bound to a node as one of `kinds`, and of its references."""

    def __init__(self, ctx: ToolContext, kinds: tuple[str, ...]) -> None:
        self._ctx = ctx
        self._kinds = kinds

    async def tools(self) -> BoundTools:
        return await self._ctx.tools(self._kinds)

    async def call(self, tool: BoundTool, input: dict[str, Any]) -> Any:
        return await self._ctx.call(tool.node_id, tool.tool, input)


class PipelineTools(AbstractToolset[Any]):
    """The tools that one run may use, and `read_result`.

    They are listed anew for each turn. The last turn has none.
    """

    def __init__(self, access: ToolAccess, engine: asyncio.AbstractEventLoop, config: AgentConfig, budget: Budget) -> None:
        self._access = access
        self._engine = engine
        self._config = config
        self._budget = budget
        self._places = asyncio.Semaphore(config.parallel_tools)
        self._offered: dict[str, BoundTool] = {}
        self._kept: dict[int, str] = {}
        self._results = 0
        self._read = READ_RESULT
        self._missing: dict[str, str] = {}
        self.failures: dict[str, RrextError] = {}
        """The failures of calls, by the id of the call."""
        self.results: dict[str, Any] = {}
        """The results of calls as they were, for those who watch them."""

    @property
    def id(self) -> str:
        return "rrext"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The tools of the next turn."""
        if not self._budget.may_call:
            return {}
        tools = await run_on(self._engine, self._access.tools())
        listed = {(tool.node_id, tool.tool) for tool in tools}
        twins = {(node_id, f"{tool}{STREAMED}") for node_id, tool in listed}
        self._offered = {tool.name: tool for tool in tools if (tool.node_id, tool.tool) not in twins}
        self._missing = {label: error.message for label, error in tools.failed.items()}
        is_deferred = len(self._offered) > self._config.defer_tools
        found = {
            name: self._tool(name, tool.description, tool.input_schema, is_deferred) for name, tool in self._offered.items()
        }
        if self._kept:
            while self._read in self._offered:
                self._read = f"{self._read}_"
            found[self._read] = self._tool(self._read, READ_DESCRIPTION, READ_SCHEMA, False)
        return found

    def _tool(self, name: str, description: str, schema: Any, is_deferred: bool) -> ToolsetTool[Any]:
        definition = ToolDefinition(
            name=name, description=description, parameters_json_schema=dict(schema), defer_loading=is_deferred
        )
        return ToolsetTool(toolset=self, tool_def=definition, max_retries=ANY_RETRIES, args_validator=ARGUMENTS)

    async def get_instructions(self, ctx: RunContext[Any]) -> str | None:
        """The nodes whose tools are missing now, so that the model says so instead of guessing."""
        if not self._missing:
            return None
        listed = "\n".join(f"- {label}: {message}" for label, message in self._missing.items())
        return f"These tools are not available now:\n{listed}"

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]) -> str:
        """The result of a tool as text. Raises `ToolFailed` for a failure, which goes back to the model."""
        if name == self._read and name not in self._offered:
            return self._read_on(tool_args)
        offered = self._offered[name]
        try:
            if refused := self._budget.take_call():
                raise ToolError(refused, code="agent_limit")
            async with self._places:
                result = await run_on(self._engine, self._access.call(offered, tool_args))
            if ctx.tool_call_id is not None:
                self.results[ctx.tool_call_id] = result
            return self._shortened(_text(result))
        except RrextError as error:
            if ctx.tool_call_id is not None:
                self.failures[ctx.tool_call_id] = error
            hint = f" ({error.hint})" if error.hint and error.hint not in error.message else ""
            raise ToolFailed(f"{error.code}: {error.message}{hint}") from None

    def _shortened(self, text: str) -> str:
        """The text, cut with a notice if it is longer than `max_result`; the whole is kept for `read_result`."""
        most = self._config.max_result
        if len(text) <= most:
            return text
        self._results += 1
        self._kept[self._results] = text
        while len(self._kept) > 1 and sum(map(len, self._kept.values())) > KEPT_RESULTS:
            del self._kept[next(iter(self._kept))]
        return (
            f"{text[:most]}\n[cut: these are {most:,} of {len(text):,} characters; "
            f"{self._read} with result {self._results} and start {most} reads on]"
        )

    def _read_on(self, given: dict[str, Any]) -> str:
        """A piece of a result that was cut."""
        number, start = given.get("result"), given.get("start", 0)
        if not isinstance(number, int) or number not in self._kept:
            raise ToolFailed(f"There is no result {number!r}; there are {', '.join(map(str, self._kept)) or 'none'}")
        text = self._kept[number]
        if isinstance(start, bool) or not isinstance(start, int) or not 0 <= start < len(text):
            raise ToolFailed(f"start is a number from 0 to {len(text) - 1}")
        end = min(start + self._config.max_result, len(text))
        rest = "the end" if end == len(text) else f"read on with start {end}"
        return f"{text[start:end]}\n[characters {start:,} to {end:,} of {len(text):,}; {rest}]"


READ_DESCRIPTION: Final = "Read on in a result that was cut."
READ_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "result": {"type": "integer", "description": "The number of the result, as the notice of the cut says it."},
        "start": {"type": "integer", "description": "The first character to read.", "minimum": 0},
    },
    "required": ["result", "start"],
    "additionalProperties": False,
}


def _text(result: Any) -> str:
    """The result of a tool as its model reads it: a text as it is, of another agent its content, other values as JSON."""
    if isinstance(result, dict) and result.keys() == {"content", "meta", "stack"}:
        result = result["content"]
    if isinstance(result, str):
        return result
    if isinstance(result, bytes):
        return f"[{len(result):,} bytes that are no text]"
    return encode_json(result).decode()


class Repetition:
    """Counts the turns in which a model makes the same failing calls and no other, which has no end by itself."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._last: frozenset[tuple[str, str, str]] = frozenset()
        self._times = 0

    def note(self, agent: str, failed: frozenset[tuple[str, str, str]], *, any_succeeded: bool) -> None:
        """Note the calls of a turn, each with tool, arguments and failure. Raises `ToolError` `agent_stuck`."""
        if any_succeeded or not failed or failed != self._last:
            self._times = 0
        self._last = frozenset() if any_succeeded else failed
        if not failed or any_succeeded:
            return
        self._times += 1
        if self._times >= self._most:
            tool, _, failure = next(iter(failed))
            raise ToolError(
                f'Agent "{agent}" made the same failing call of "{tool}" {self._times} times in a row: {failure}',
                code="agent_stuck",
                hint="Say in the instructions how the tool is used, or give the agent another tool or model.",
                data={"agent": agent, "tool": tool, "failure": failure},
            )
