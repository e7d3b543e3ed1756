"""`tool_python`: runs the programs of agents and other callers in a sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from rrext.content import Content
from rrext.errors import Cancelled, InvalidArguments
from rrext.nodes.base.node import Node
from rrext.nodes.sandbox.grant import LEAST_MEMORY, LONGEST_TIMEOUT, MIB, MOST_MEMORY, SHORTEST_TIMEOUT, SandboxLimits
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function
from rrext.tools.results import LARGE_TEXT, JsonText, encode_json

if TYPE_CHECKING:
    from rrext.nodes.base.setup import SetupContext
    from rrext.nodes.sandbox.grant import Grant
    from rrext.nodes.sandbox.sandlock_sandbox import SandlockSandbox

DEFAULTS = SandboxLimits()

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "stdout": {"type": "string"},
        "stderr": {"type": "string", "description": "The traceback too, if the program failed."},
        "exit_code": {"type": "integer", "description": "0 fine, 1 exception, −1 timeout, else the program's own."},
        "timed_out": {"type": "boolean"},
        "result": {"description": "The program's variable `result`; absent if unset or None."},
    },
    "required": ["stdout", "stderr", "exit_code", "timed_out"],
    "additionalProperties": False,
}


class Module(msgspec.Struct, frozen=True):
    """A row of RocketRide's list."""

    moduleName: str = ""


class PythonNode(Node):
    """Runs Python programs in a sandbox: the whole standard library, but no file, network or process of this machine.
    Installed packages are there if the operator offers them and `allowedModules` names them.

    Each program has a fresh interpreter, bounded in time, memory, threads and output. Where the machine cannot
    isolate it, the tool is unavailable; a program never runs unprotected.
    """

    provider = "tool_python"
    title = "Python"
    class_types = ("tool",)
    shared: SandlockSandbox

    class Config:
        timeout: Annotated[float, "Seconds until a program is killed; taken as 1 to 1200."] = DEFAULTS.timeout
        memory: Annotated[
            int, "MiB of address space of a program, with 30 for Python and 4 for each thread; taken as 64 to 65536."
        ] = DEFAULTS.memory // MIB
        totalMemory: Annotated[
            int, "MiB that all programs of this node use at a time, at least `memory`; beyond it the largest is killed."
        ] = DEFAULTS.total_memory // MIB
        allowedModules: Annotated[
            list[Module | str],
            "Packages that programs may import beside the standard library, if the operator offers them (--python-package).",
        ] = []

    @classmethod
    def unavailable(cls) -> str | None:
        """The reason why this machine cannot isolate programs, if any."""
        from rrext.nodes.sandbox.sandlock_sandbox import missing_piece

        return missing_piece()

    @classmethod
    def not_offered(cls, config: Any, packages: Sequence[str]) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """The names in `allowedModules` that no program can import."""
        from rrext.nodes.sandbox.packages import how_to_offer, offered

        offer = offered(tuple(packages))
        for place, name in _modules(config):
            if not offer.has(name):
                yield place, f'No program can import "{name}" here: {how_to_offer(name)}.'

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[SandlockSandbox]:
        """Make one sandbox for all objects; it starts at the first program."""
        from rrext.nodes.sandbox.grant import NOTHING
        from rrext.nodes.sandbox.sandlock_sandbox import SandlockSandbox

        allowed = [name for _, name in _modules(config)]
        grant = await ctx.in_thread(_granted, ctx.packages, allowed) if ctx.packages or allowed else NOTHING
        if grant.names:
            offered = f"Python with {', '.join(grant.names)} beside the standard library."
            ctx.tool_description = f"{ctx.tool_description}\n\n{offered}".strip()
        sandbox = SandlockSandbox(grant)
        try:
            yield sandbox
        finally:
            sandbox.close()

    @tool_function(output_schema=OUTPUT_SCHEMA, annotations={"readOnlyHint": True, "openWorldHint": False})
    def execute(self, code: Annotated[str, msgspec.Meta(min_length=1)], *, ctx: ToolContext) -> dict[str, Any] | Content:
        """Run a Python program and answer what it printed, how it ended, and its variable `result`.

        It is a whole program, run as `__main__` with the standard library, and with the packages that are named above, if
        there are any: no other can be imported or installed. There is no network, no file, no input and no other process,
        though threads work, and nothing is kept for the next call. A program that fails is a successful call: see
        `exit_code` and `stderr`. To hand a value back, assign it to `result`: numbers, strings, lists and dicts stay what
        they are, arrays become lists, anything else becomes its `repr`. A PNG, as bytes or in base64, and a figure of
        matplotlib are shown as a picture, too.

        Args:
            code: The program.
        """
        if not code.strip():
            raise InvalidArguments.at("/input/code", "the program is empty")
        ctx.check()
        try:
            run = self.shared.run(code, limits_of(self.config), ctx.on_cancel)
        except Cancelled:
            ctx.check()  # raises the more exact reason: the deadline, or the end of the server
            raise
        answer: dict[str, Any] = {
            "stdout": run.stdout,
            "stderr": run.stderr,
            "exit_code": run.exit_code,
            "timed_out": run.timed_out,
        }
        text = run.result_text
        if text is not None:
            answer["result"] = run.result if len(text) <= LARGE_TEXT else JsonText(text)
        if run.picture is None:
            return answer
        return Content(encode_json(answer).decode(), run.picture, structured=answer)


def _modules(config: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The names in `allowedModules`, each with its place in the settings. An editor's empty rows are none."""
    for index, row in enumerate(config.allowedModules):
        name, key = (row, ()) if isinstance(row, str) else (row.moduleName, ("moduleName",))
        if name.strip():
            yield ("allowedModules", index, *key), name.strip()


def _granted(packages: Sequence[str], allowed: Sequence[str]) -> Grant:
    from rrext.nodes.sandbox.packages import offered  # it reads the metadata of what is installed

    return offered(tuple(packages)).grant(allowed)


def limits_of(config: Any) -> SandboxLimits:
    """The bounds of a component's settings, within sensible limits."""
    memory = min(max(config.memory, LEAST_MEMORY), MOST_MEMORY)
    total = min(max(config.totalMemory, memory), MOST_MEMORY)
    timeout = min(max(config.timeout, SHORTEST_TIMEOUT), LONGEST_TIMEOUT)
    return SandboxLimits(timeout=timeout, memory=memory * MIB, total_memory=total * MIB)
