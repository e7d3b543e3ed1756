"""The commands of `workspace/executeCommand`. Each takes one object as argument."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec
from lsprotocol import types

from rrext.errors import InvalidArguments
from rrext.faces.lsp.runs.calls import ask_question, call_tool, send_files, send_text
from rrext.faces.lsp.runs.deployments import Ready
from rrext.faces.lsp.runs.engine import EngineProcess
from rrext.faces.lsp.runs.errors import TRUST_HINT, InputNeeded, NotTrusted
from rrext.faces.lsp.runs.marks import Work
from rrext.faces.lsp.runs.questions import UserQuestions, missing_input
from rrext.faces.lsp.runs.runner import DocumentRun, Runner
from rrext.limits import DEFAULTS
from rrext.server.arguments import decode

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer

T = TypeVar("T", bound=msgspec.Struct)

Token: TypeAlias = int | str | None
Handler: TypeAlias = Callable[[dict[str, Any], Token], Awaitable[Any]]


class RunTool(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Call a tool of a document. Without `node`, the first node that has the tool."""

    uri: str
    node: str | None = None
    tool: str | None = None
    input: dict[str, Any] | None = None


class SendFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Send files, or a text, through a document's pipeline. Relative paths start at the document's folder."""

    uri: str
    path: str | list[str] | None = None
    text: str | None = None
    mime_type: str | None = None


class Chat(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Ask a question to a document's pipeline."""

    uri: str
    question: str | dict[str, Any] | None = None


class ListDocumentTools(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """List the callable tools of a document, and the token of its loaded pipeline."""

    uri: str
    node: str | None = None


class Nothing(msgspec.Struct, frozen=True):
    """No arguments."""


class Commands:
    """The commands of one server that run pipelines."""

    def __init__(self, server: PipeServer, engine: EngineProcess, runner: Runner) -> None:
        self._server = server
        self._engine = engine
        self._runner = runner
        self._asking = UserQuestions(server)
        handlers: dict[str, tuple[Handler, bool]] = {
            "rrext.runTool": (self._run_tool, True),
            "rrext.sendFile": (self._send_file, True),
            "rrext.chat": (self._chat, True),
            "rrext.listTools": (self._list_tools, True),
            "rrext.restartEngine": (self._restart, True),
            "rrext.explainTrust": (self._explain, False),
        }
        for name, (handler, runs) in handlers.items():
            server.add_command(name, partial(self._handle, handler, runs))

    async def _handle(self, handler: Handler, runs: bool, params: types.ExecuteCommandParams) -> Any:
        if runs and not self._server.options.trusted:
            raise NotTrusted(params.command)
        given = params.arguments or ({},)
        if len(given) != 1 or not isinstance(given[0], dict):
            raise InvalidArguments.at("", f"{params.command} takes one object")
        return await handler(given[0], params.work_done_token)

    async def _run_tool(self, arguments: dict[str, Any], token: Token) -> dict[str, Any]:
        given = decode(arguments, RunTool, DEFAULTS)

        async def doing(run: DocumentRun, ready: Ready) -> Any:
            node, tool, input = given.node or "", given.tool or "", given.input
            if not tool or input is None:
                node, tool, input = await self._completed(given, ready)
            run.begin(Work(kind="tool", node=node, tool=tool))
            return await call_tool(ready, node, tool, input, run.progress)

        work = Work(kind="tool", node=given.node or "", tool=given.tool or "")
        return await self._runner.run(given.uri, work, doing, token=token)

    async def _completed(self, given: RunTool, ready: Ready) -> tuple[str, str, dict[str, Any]]:
        """Node, tool and input, completed by the user's choices."""
        tools = await ready.client.tools(token=ready.token, node_id=given.node)
        if not given.tool:
            tool = await self._asking.tool(tools, f'"{given.node}"' if given.node else "this pipeline")
        else:
            found = next((tool for tool in tools if tool["name"] == given.tool), None)
            if found is None:
                return given.node or "", given.tool, {}  # the engine reports the unknown name
            tool = found
        if given.input is None and tool["inputSchema"].get("required"):
            raise missing_input(tool)
        return tool["nodeId"], tool["name"], given.input or {}

    async def _send_file(self, arguments: dict[str, Any], token: Token) -> dict[str, Any]:
        given = decode(arguments, SendFile, DEFAULTS)
        paths = [given.path] if isinstance(given.path, str) else given.path
        if paths and given.text is not None:
            raise InvalidArguments.at("/text", "either `path` or `text` is sent")

        async def doing(run: DocumentRun, ready: Ready) -> Any:
            if not paths and given.text is None:
                raise InputNeeded("/path", "is missing: a path, or `text`", hint="pass `path`, or `text`")
            run.begin(Work(kind="send"))
            if given.text is not None:
                return await send_text(ready, given.text, given.mime_type)
            return await send_files(ready, paths or [], given.mime_type, run.progress)

        return await self._runner.run(given.uri, Work(kind="send"), doing, token=token)

    async def _chat(self, arguments: dict[str, Any], token: Token) -> dict[str, Any]:
        given = decode(arguments, Chat, DEFAULTS)

        async def doing(run: DocumentRun, ready: Ready) -> Any:
            if not given.question:
                raise InputNeeded("/question", "is missing", hint="pass `question`")
            run.begin(Work(kind="chat"))
            return await ask_question(ready, given.question)

        return await self._runner.run(given.uri, Work(kind="chat"), doing, token=token)

    async def _list_tools(self, arguments: dict[str, Any], token: Token) -> dict[str, Any]:
        given = decode(arguments, ListDocumentTools, DEFAULTS)

        async def doing(run: DocumentRun, ready: Ready) -> Any:
            return {"tools": await ready.client.tools(token=ready.token, node_id=given.node), "token": ready.token}

        return await self._runner.run(given.uri, Work(kind="tools"), doing, token=token, quiet=True)

    async def _restart(self, arguments: dict[str, Any], _: Token) -> dict[str, Any]:
        decode(arguments, Nothing, DEFAULTS)
        return {"ok": True, "ended": await self._engine.end()}

    async def _explain(self, _: dict[str, Any], __: Token) -> dict[str, Any]:
        # one short line: some editors truncate longer ones
        self._server.tell('Nothing is run here until "trusted": true is set in initializationOptions.')
        return {"trusted": self._server.options.trusted, "hint": TRUST_HINT}
