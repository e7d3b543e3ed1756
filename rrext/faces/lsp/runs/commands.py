"""The commands of `workspace/executeCommand`: calls of tools, files and texts through a pipeline, questions. Each takes one
object. And where an editor offers them: code lenses, code actions at the cursor for editors without lenses, and methods.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import msgspec
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from rrext.editor.analysis import Analysis
from rrext.editor.outline import Action, Lens, lenses_of, source_of
from rrext.editor.schemas import example_of, schemas_at
from rrext.editor.text import Text
from rrext.errors import Cancelled, InvalidArguments, InvalidRequest, ResultTooLarge, RrextError
from rrext.faces.lsp.documents import as_range
from rrext.faces.lsp.runs.cases import cases_of, run_cases
from rrext.faces.lsp.runs.engine import (
    TRUST_HINT,
    EngineOutput,
    EngineProcess,
    FilesFailed,
    InputNeeded,
    NotTrusted,
    Ready,
    as_editor_error,
)
from rrext.faces.lsp.runs.runner import DocumentRun, Runner, Work, WorkProgress
from rrext.limits import DEFAULTS
from rrext.pipefile.text.problems import Span
from rrext.server.commands import COMMANDS, CancelArguments, decode
from rrext.wire.codec import encode_own

if TYPE_CHECKING:
    from rrext.client.client import Client
    from rrext.client.upload import FileResult, UploadProgress
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


class RunCases(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Run the cases beside a document; with `words` those alone whose names hold them."""

    uri: str
    words: str | None = None


class ListDocumentTools(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """List the callable tools of a document, and the token of its loaded pipeline."""

    uri: str
    node: str | None = None


class Nothing(msgspec.Struct, frozen=True):
    """No arguments."""


class Commands:
    """The commands of one server that run pipelines."""

    def __init__(self, server: PipeServer, engine: EngineProcess, runner: Runner, output: EngineOutput) -> None:
        self._server = server
        self._engine = engine
        self._runner = runner
        self._output = output
        self._asking = UserQuestions(server)
        handlers: dict[str, tuple[Handler, bool]] = {
            "rrext.runTool": (self._run_tool, True),
            "rrext.sendFile": (self._send_file, True),
            "rrext.chat": (self._chat, True),
            "rrext.runCases": (self._run_cases, True),
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

    async def _run_cases(self, arguments: dict[str, Any], token: Token) -> dict[str, Any]:
        given = decode(arguments, RunCases, DEFAULTS)
        text = self._server.documents.get(given.uri).state.text

        async def doing(run: DocumentRun) -> str:
            return await run_cases(given.uri, text.content, given.words, self._server.options, self._output)

        return await self._runner.run_alone(given.uri, Work(kind="cases"), doing, token=token)

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
        self._server.show_to_user('Nothing is run here until "trusted": true is set in initializationOptions.')
        return {"trusted": self._server.options.trusted, "hint": TRUST_HINT}


log: Final = logging.getLogger("rrext.lsp")


class UserQuestions:
    """Asks the user to choose a tool."""

    def __init__(self, server: PipeServer) -> None:
        self._server = server

    async def tool(self, tools: Sequence[dict[str, Any]], where: str) -> dict[str, Any]:
        """The descriptor of the only tool, or of the one that the user chooses. Raises `InputNeeded`."""
        if len(tools) == 1:
            return tools[0]
        if not tools:
            raise InputNeeded("/tool", f"{where} has no tool that can be called")
        names = [tool["name"] for tool in tools]
        twice = {name for name in names if names.count(name) > 1}
        titles = [f"{tool['name']} ({tool['nodeId']})" if tool["name"] in twice else tool["name"] for tool in tools]
        chosen = await self._choose(f"Which tool of {where} is to run?", titles)
        if chosen is None:
            raise InputNeeded("/tool", "no tool was chosen", hint=f"pass `tool`, one of {', '.join(titles)}")
        return tools[titles.index(chosen)]

    async def _choose(self, message: str, titles: Sequence[str]) -> str | None:
        actions = [types.MessageActionItem(title) for title in titles]
        asked = types.ShowMessageRequestParams(types.MessageType.Info, message, actions)
        try:
            chosen = await self._server.window_show_message_request_async(asked)
        except JsonRpcException as error:
            log.info("the client asks nobody: %s", error)
            return None
        return chosen.title if chosen is not None and chosen.title in titles else None


def missing_input(tool: dict[str, Any]) -> InputNeeded:
    """The error of a call without the input that its tool requires. Editors show its message, with the comment to write."""
    name, schema = tool["name"], tool["inputSchema"]
    words = json.dumps(example_of(schema, schemas_at(schema, ())), ensure_ascii=False)
    message = (
        f"is missing: {', '.join(schema['required'])}. Write it in a comment of the component: // rrext tool {name} {words}"
    )
    return InputNeeded("/input", message, hint="pass `input`")


MAX_CHUNK: Final = 80
"""Characters of a chunk in a progress message."""

GENERATORS: Final = ("generator", "async_generator")


async def call_tool(ready: Ready, node: str, tool: str, input: dict[str, Any], progress: WorkProgress) -> Any:
    """The result of a tool; for a generator, the list of its chunks, or `{chunks, value}`."""
    chunks = _Chunks(progress)

    def report(value: float, total: float | None, message: str | None) -> None:
        share = value / total if total else None
        amount = f"{value:g}" if total is None else f"{value:g}/{total:g}"
        progress.report(f"{amount} {message or ''}".rstrip(), share)

    value = await ready.client.tool(
        tool=tool, node_id=node, input=input, token=ready.token, progress=report, on_chunk=chunks.add
    )
    if not chunks.values and not _is_generator(ready, node, tool):
        return value
    return chunks.values if value is None else {"chunks": chunks.values, "value": value}


class _Chunks:
    """The chunks of a generator, limited to the size of one result."""

    def __init__(self, progress: WorkProgress) -> None:
        self._progress = progress
        self._size = 0
        self.values: list[Any] = []

    async def add(self, chunk: Any) -> None:
        """Add a chunk. Raises `ResultTooLarge`, which ends the generator."""
        await asyncio.sleep(0)  # many chunks must not delay answers to the editor
        encoded = encode_own(chunk)
        self._size += len(encoded)
        if self._size > DEFAULTS.max_result:
            raise ResultTooLarge.of(self._size, DEFAULTS.max_result, "What the tool gave so far")
        self.values.append(chunk)
        text = encoded[: 4 * MAX_CHUNK].decode("utf-8", "ignore")
        self._progress.report(f"chunk {len(self.values)}: {text if len(text) <= MAX_CHUNK else f'{text[:MAX_CHUNK]}…'}")


def _is_generator(ready: Ready, node: str, tool: str) -> bool:
    drafts = [ready.analysis.by_id[node]] if node in ready.analysis.by_id else ready.analysis.drafts
    owner = next((draft.node for draft in drafts if draft.node is not None and tool in draft.node.tools), None)
    return owner is not None and owner.tools[tool].kind in GENERATORS


def _source(ready: Ready, kind: str) -> str | None:
    """The source that takes a kind of input, if only one does."""
    source = source_of(ready.analysis, kind)
    return None if source is None else source.id


async def ask_question(ready: Ready, question: str | dict[str, Any]) -> Any:
    """The result body of a question."""
    return await ready.client.chat(question=question, token=ready.token, source=_source(ready, "chat"))


async def send_text(ready: Ready, text: str, mime_type: str | None) -> Any:
    """The result body of a text."""
    return await ready.client.send(text, token=ready.token, source=_source(ready, "send"), mimetype=mime_type)


async def send_files(ready: Ready, paths: Sequence[str], mime_type: str | None, progress: WorkProgress) -> Any:
    """The result body of a file; for several files, `[{path, result}]`.

    Relative paths begin at the document's folder. Raises the failure of a single file, and `FilesFailed` with the outcome of
    each of several.
    """
    found = [_absolute(path, ready.folder) for path in paths]

    def report(state: UploadProgress) -> None:
        share = state.bytes_done / state.bytes_total if state.bytes_total else state.files_done / max(state.files_total, 1)
        progress.report(f"{state.files_done}/{state.files_total} files, {os.path.basename(state.path)}", share)

    source = _source(ready, "send")
    results = await ready.client.send_files(found, token=ready.token, source=source, mimetype=mime_type, progress=report)
    if len(results) == 1 and results[0].path == found[0]:
        if results[0].error is not None:
            raise _failure(results[0])
        return results[0].result
    told = [_outcome(result, ready.folder) for result in results]
    failed = [result for result in results if result.error is not None]
    if failed:
        message = (
            f"{len(failed)} of {len(results)} files failed; {_named(failed[0], ready.folder)}: {_failure(failed[0]).message}"
        )
        error = FilesFailed(message)
        error.result = {"files": told}
        raise error
    return told


def _absolute(path: str, folder: str | None) -> str:
    return os.path.join(folder or os.getcwd(), os.path.expanduser(path))


def _failure(result: FileResult) -> RrextError:
    """The failure of a file as an error of rrext."""
    error = result.error
    if isinstance(error, RrextError):
        error.result = result.result
        return error
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return FilesFailed(f"{os.path.basename(result.path)}: {reason}")


def _outcome(result: FileResult, folder: str | None) -> dict[str, Any]:
    told: dict[str, Any] = {"path": _named(result, folder)}
    if result.skipped is not None:
        told["skipped"] = result.skipped
    if result.error is not None:
        failure = _failure(result)
        told["error"] = {"code": failure.code, "message": failure.message}
    if result.result is not None:
        told["result"] = result.result
    return told


def _named(result: FileResult, folder: str | None) -> str:
    """The path of a file relative to the folder, in characters that JSON can hold."""
    path = result.path
    if folder is not None and path.startswith(os.path.join(folder, "")):
        path = os.path.relpath(path, folder)
    return os.fsencode(path).decode("utf-8", "backslashreplace")


LENS_COMMANDS: Final[dict[Action, str]] = {
    "run_tool": "rrext.runTool",
    "send_file": "rrext.sendFile",
    "chat": "rrext.chat",
    "run_cases": "rrext.runCases",
    "show_graph": "rrext.showGraph",
}
RUN: Final = "rrext.run"
"""The kind of these code actions."""


class Offers:
    """Lenses and code actions of one server."""

    def __init__(self, server: PipeServer) -> None:
        self._server = server
        server.answer(types.TEXT_DOCUMENT_CODE_LENS, self._lenses, types.CodeLensOptions(resolve_provider=False))
        server.action_sources.append(self.actions)

    async def _lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        uri = params.text_document.uri
        _, text, analysis = await self._server.analysis_of(uri)
        found = lenses_of(analysis, has_cases=cases_of(uri) is not None)
        return [types.CodeLens(as_range(text, lens.span), self._command(uri, lens)) for lens in found]

    def _command(self, uri: str, lens: Lens) -> types.Command:
        if lens.runs and not self._server.options.trusted:
            return types.Command(f"▷ {lens.title} (not trusted)", "rrext.explainTrust")
        sign = "▶" if lens.runs else "◇"
        return types.Command(f"{sign} {lens.title}", LENS_COMMANDS[lens.action], arguments=[{"uri": uri, **lens.arguments}])

    def actions(self, params: types.CodeActionParams, text: Text, span: Span, analysis: Analysis) -> Iterator[types.CodeAction]:
        """The runnable actions at the cursor or selection, only on an explicit request."""
        asked = params.context
        is_automatic = asked.trigger_kind == types.CodeActionTriggerKind.Automatic
        if is_automatic or not self._server.options.trusted or not wants(asked.only, RUN):
            return
        uri = params.text_document.uri
        comments = [lens for lens in lenses_of(analysis) if lens.is_comment and _touches(lens.span, span)]
        for lens in comments:
            yield _run(lens.title, LENS_COMMANDS[lens.action], {"uri": uri, **lens.arguments})
        draft = None if comments else analysis.component_at(span[0])
        if draft is not None and draft.node is not None:
            for name in draft.node.tools:
                yield _run(f"Run tool {name}", LENS_COMMANDS["run_tool"], {"uri": uri, "node": draft.id, "tool": name})


def _run(title: str, command: str, arguments: dict[str, Any]) -> types.CodeAction:
    return types.CodeAction(title, kind=RUN, command=types.Command(title, command, arguments=[arguments]))


def wants(only: Sequence[str] | None, kind: str) -> bool:
    """Whether a client's filter of action kinds includes this kind."""
    names = None if only is None else [str(getattr(name, "value", name)) for name in only]
    return names is None or any(name in ("", kind) or kind.startswith(f"{name}.") for name in names)


def _touches(one: Span, other: Span) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


OWN: Final = frozenset({"initialize", "shutdown", "disconnect"})
"""Commands about a connection. The editor's connection has its own; `rrext.restartEngine` ends the engine."""


class CustomMethods:
    """Forwards requests to the engine: arguments, answers and errors stay the same, events become notifications.

    Events and `cancel` name a request by the editor's id.
    """

    def __init__(self, server: PipeServer, engine: EngineProcess, output: EngineOutput) -> None:
        self._server = server
        self._engine = engine
        self._output = output
        self._running: dict[int | str, asyncio.Task[Any]] = {}
        for command in COMMANDS:
            if command not in OWN:
                server.protocol.raw[command] = self._cancel if command == "cancel" else partial(self._request, command)

    def event(self, name: str, body: dict[str, Any]) -> None:
        """Forward an event of the engine."""
        self._server.protocol.send_notification(name, body)

    async def _request(self, command: str, params: Any) -> dict[str, Any]:
        arguments = self._arguments(command, params)
        request_id, task = self._server.protocol.msg_id, asyncio.current_task()
        assert request_id is not None
        assert task is not None
        self._running[request_id] = task
        self._output.refill()
        client: Client | None = None
        try:
            client = await self._engine.client()
            body = await client.request(command, arguments, on_event=partial(self._relay, request_id))
        except asyncio.CancelledError:
            raise Cancelled from None
        except RrextError as error:
            raise as_editor_error(error, has_ended=client is not None and self._engine.has_ended(client)) from None
        finally:
            self._running.pop(request_id, None)
        return _without_tail(body, "result")

    async def _relay(self, request_id: int | str, name: str, body: dict[str, Any]) -> None:
        await self._server.documents.taken()
        self._server.protocol.send_notification(name, {**_without_tail(body, "chunk"), "request": request_id})

    async def _cancel(self, params: Any) -> dict[str, Any]:
        given = decode(self._arguments("cancel", params), CancelArguments, DEFAULTS)
        task = self._running.get(given.request_id)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])  # its answer leaves first, as in the engine
        return {"cancelled": task is not None}

    def _arguments(self, command: str, params: Any) -> dict[str, Any]:
        if not self._server.options.trusted:
            raise NotTrusted(command)
        if params is not None and not isinstance(params, dict):
            raise InvalidRequest('"params" must be an object: arguments go by name')
        return cast("dict[str, Any]", params or {})


def _without_tail(body: dict[str, Any], member: str) -> dict[str, Any]:
    """A body with its raw tail as base64 in a member, because the editor's protocol has no tails."""
    data = body.get("data")
    if not isinstance(data, bytes):
        return body
    return {**{key: value for key, value in body.items() if key != "data"}, member: _base64(data)}


def _base64(data: bytes) -> str:
    from binascii import b2a_base64

    return b2a_base64(data, newline=False).decode()
