"""What an editor can call: code lenses, code actions at the cursor for editors without lenses, and the methods of the engine's
commands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from lsprotocol import types

from rrext.editor.analysis import Analysis
from rrext.editor.outline import Action, Lens, lenses_of
from rrext.editor.text import Text
from rrext.errors import Cancelled, InvalidRequest, RrextError
from rrext.faces.lsp.documents import as_range
from rrext.faces.lsp.runs.engine import EngineOutput, EngineProcess, NotTrusted, as_editor_error
from rrext.limits import DEFAULTS
from rrext.pipefile.text.problems import Span
from rrext.server.commands import COMMANDS, CancelArguments, decode

if TYPE_CHECKING:
    from rrext.client.client import Client
    from rrext.faces.lsp.server import PipeServer


LENS_COMMANDS: Final[dict[Action, str]] = {
    "run_tool": "rrext.runTool",
    "send_file": "rrext.sendFile",
    "chat": "rrext.chat",
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
        return [types.CodeLens(as_range(text, lens.span), self._command(uri, lens)) for lens in lenses_of(analysis)]

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
