"""The Language Server Protocol as pygls has it, with an answer for every message, and documents of our own."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams, JsonRpcInvalidRequest
from pygls.protocol import LanguageServerProtocol, lsp_method

from rrext.errors import RrextError, number_of
from rrext.wire.frames import wire_error

if TYPE_CHECKING:
    from rrext.bridges.lsp.server import PipeServer

__all__ = ["Command", "PipeProtocol", "as_failure"]

Command: TypeAlias = Callable[..., Awaitable[Any]]

log: Final = logging.getLogger("rrext.lsp")

NOT_INITIALIZED: Final = -32002


class PipeProtocol(LanguageServerProtocol):
    """One client's protocol. `receive` takes decoded messages, and `sink` gets the bodies of frames to be written.

    What pygls leaves unanswered is answered here: messages that are none, requests before `initialize` and after
    `shutdown`, missing and wrong parameters. `raw` methods get their parameters as they came.
    """

    _server: PipeServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, server: Any, converter: Any) -> None:
        super().__init__(server, converter)
        self.sink: Callable[[bytes], object] = _nowhere
        self.on_exit: Callable[[int], object] = _nowhere
        self.raw: dict[str, Command] = {}
        self.unknown: Command | None = None
        """What answers a request that no feature has."""
        self._initialized = False

    @property
    def is_shut_down(self) -> bool:
        """Whether the client has asked for the end."""
        return self._shutdown

    # in

    def receive(self, message: object) -> None:
        """Take one message. Whatever it is, this does not raise, and a request is answered."""
        if not isinstance(message, dict):
            self.refuse(None, JsonRpcInvalidRequest("A message is a JSON object: batches are not part of this protocol"))
            return
        message = cast("dict[str, Any]", message)
        has_id = "id" in message
        request_id = message.get("id")
        if message.get("jsonrpc") != self.VERSION or (has_id and not _is_id(request_id)):
            self.refuse(
                request_id if _is_id(request_id) else None, JsonRpcInvalidRequest('Expected "jsonrpc": "2.0" and an id')
            )
        elif "method" not in message:
            self._take_answer(message, has_id)
        elif not isinstance(message["method"], str):
            self.refuse(request_id, JsonRpcInvalidRequest("The method is a string"))
        else:
            self._take_call(message, message["method"], request_id, has_id)

    def refuse(self, request_id: Any, error: JsonRpcException) -> None:
        """Answer something that cannot be handled; without an id if it had none that could be read."""
        self._send_data({"jsonrpc": self.VERSION, "id": request_id, "error": error.to_response_error()})

    def _take_answer(self, message: dict[str, Any], has_id: bool) -> None:
        if not has_id or not ("result" in message or "error" in message):
            self.refuse(None, JsonRpcInvalidRequest("A message has a method, or an id with a result or an error"))
        elif message["id"] not in self._request_futures:
            log.debug("an answer that nobody waits for: %r", message["id"])
        else:
            self._structured(message)

    def _take_call(self, message: dict[str, Any], method: str, request_id: Any, has_id: bool) -> None:
        if not self._initialized and method not in (types.INITIALIZE, types.EXIT):
            if has_id:
                self.refuse(request_id, JsonRpcException("The first request is initialize", NOT_INITIALIZED))
            return
        if self._shutdown and method != types.EXIT:
            if has_id:
                self.refuse(request_id, JsonRpcInvalidRequest("After shutdown comes exit, and nothing else"))
            return
        if method == types.INITIALIZE:
            if self._initialized:
                self.refuse(request_id, JsonRpcInvalidRequest("initialize was sent already"))
                return
            self._server.take_options(message.get("params"))
        raw = self.raw.get(method)
        if raw is None and has_id and self._is_unknown(method):
            raw = self.unknown and partial(self.unknown, method)
        if raw is None:
            needs_params = method not in _WITHOUT_PARAMS
            self._structured({**message, "params": message.get("params")} if needs_params else message)
        elif has_id:
            answer = partial(self._send_handler_result, msg_id=request_id)
            self._execute_handler(request_id, _coroutine(raw), answer, (message.get("params"),))

    def _is_unknown(self, method: str) -> bool:
        return method not in self.fm.builtin_features and method not in self.fm.features

    def _structured(self, message: dict[str, Any]) -> None:
        try:
            structured = self.structure_message(message)
        except JsonRpcException as error:
            if "method" in message and "id" in message:
                self.refuse(message["id"], JsonRpcInvalidParams(f"Invalid parameters of {message['method']}"))
            else:
                log.warning("a message that cannot be used: %s: %s", message.get("method", "an answer"), error)
            return
        self.handle_message(cast("Any", structured))
        if message.get("method") == types.INITIALIZE:
            self._initialized = True

    # out

    def _send_data(self, data: Any) -> None:
        self.sink(json.dumps(data, default=self._serialize_message, separators=(",", ":")).encode())

    def _send_handler_result(self, future: Any, *, msg_id: Any) -> None:
        """Answer a request; errors of ours keep their code, number, hint and data."""
        error = None if future.cancelled() else future.exception()
        if isinstance(error, RrextError):
            self._request_futures.pop(msg_id, None)
            self.refuse(msg_id, as_failure(error))
        else:
            super()._send_handler_result(future, msg_id=msg_id)

    # what pygls would keep for itself

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A document was opened."""
        self._server.documents.open(params.text_document)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A document was edited."""
        self._server.documents.change(params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A document was closed."""
        self._server.documents.close(params.text_document.uri)

    @lsp_method(types.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(self, params: types.ExecuteCommandParams) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run a command; as a task of its own, so that it can be cancelled."""
        return await self._server.execute(params)

    @lsp_method(types.EXIT)
    def lsp_exit(self, *args: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The client is done: 0 after `shutdown`, else 1, as the protocol has it."""
        self.on_exit(0 if self._shutdown else 1)


_WITHOUT_PARAMS: Final = frozenset({types.SHUTDOWN, types.EXIT})


def as_failure(error: RrextError) -> JsonRpcException:
    """An error of ours in the form that `rrext serve` answers over JSON-RPC."""
    parts = wire_error(error)
    hint = {} if parts.hint is None else {"hint": parts.hint}
    return JsonRpcException(parts.message, number_of(parts.code), {**parts.data, "code": parts.code, **hint})


def _coroutine(work: Command) -> Callable[..., Any]:
    async def run(params: Any) -> Any:
        return await work(params)

    assert asyncio.iscoroutinefunction(run)
    return run


def _is_id(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def _nowhere(_: object) -> None:
    """Before anybody listens."""
