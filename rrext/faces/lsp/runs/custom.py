"""The commands of protocol.md as methods of the editor's connection, for plugins with their own buttons."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from rrext.errors import Cancelled, InvalidRequest, RrextError
from rrext.faces.lsp.runs.engine import EngineProcess
from rrext.faces.lsp.runs.errors import NotTrusted, as_editor_error
from rrext.faces.lsp.runs.output import EngineOutput
from rrext.limits import DEFAULTS
from rrext.server.arguments import decode
from rrext.server.commands import COMMANDS, CancelArguments

if TYPE_CHECKING:
    from rrext.client.client import Client
    from rrext.faces.lsp.server import PipeServer

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
        self._server.protocol.tell(name, body)

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
        self._server.protocol.tell(name, {**_without_tail(body, "chunk"), "request": request_id})

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
