"""The connection to an editor: pygls' protocol with answers to all that it leaves out, and failures of handlers as errors of
JSON-RPC.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard, cast

from cattrs import transform_error
from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInternalError,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcMethodNotFound,
    JsonRpcRequestCancelled,
)
from pygls.protocol import LanguageServerProtocol, lsp_method

from rrext.errors import RrextError, TooManyRequests, number_of
from rrext.faces.lsp.params import read_initialize
from rrext.limits import DEFAULTS
from rrext.wire.codec import encode_own
from rrext.wire.dialect import wire_error

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer


Command: TypeAlias = Callable[..., Awaitable[Any]]
Note: TypeAlias = Callable[[Any], object]
_Handler: TypeAlias = Callable[..., Any]

log: Final = logging.getLogger("rrext.lsp")

NOT_INITIALIZED: Final = -32002


class PipeProtocol(LanguageServerProtocol):
    """One client's protocol. `receive` takes decoded messages; `sink` receives the bodies of outgoing frames.

    pygls provides the types, the capabilities and the requests to the client; this class decides the answers. The methods in
    `raw` and the notifications in `notes` receive their raw parameters; a note raises `JsonRpcException` if it is unusable.
    """

    _server: PipeServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, server: Any, converter: Any) -> None:
        super().__init__(server, converter)
        self.sink: Callable[[bytes], object] = _nowhere
        self.on_exit: Callable[[int], object] = _nowhere
        self.raw: dict[str, Command] = {}
        self.notes: dict[str, Note] = {types.CANCEL_REQUEST: self._cancel, types.EXIT: self._exit}
        self.most_calls = DEFAULTS.max_inflight
        self.is_initialized = False
        self._calls: dict[int | str, Any] = {}
        self._notified: set[Any] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_shut_down(self) -> bool:
        """Whether the client has sent `shutdown`."""
        return self._shutdown

    def cancel_all(self) -> None:
        """Cancel all running requests; each is answered."""
        for future in [*self._calls.values(), *self._request_futures.values()]:
            if future is not None:
                future.cancel()

    async def idle(self) -> None:
        """Wait until every request is answered."""
        await self._idle.wait()

        # incoming

    def receive(self, message: object) -> None:
        """Handle one message. Never raises; each request gets one answer."""
        try:
            self._take(message)
        except Exception:
            log.exception("a bug of rrext: a message could not be handled")
            request_id = (
                cast("dict[str, Any]", message).get("id") if isinstance(message, dict) and "method" in message else None
            )
            if _is_id(request_id):
                self.refuse(request_id, JsonRpcInternalError("A bug of rrext; its log has more"))

    def _take(self, message: object) -> None:
        if not isinstance(message, dict):
            return self.refuse(None, JsonRpcInvalidRequest("A message is an object: this protocol has no batches"))
        message = cast("dict[str, Any]", message)
        request_id, method, params = message.get("id"), message.get("method"), message.get("params")
        is_sound = message.get("jsonrpc") == self.VERSION and isinstance(method, str)
        if "method" not in message and ("result" in message or "error" in message):
            self._take_answer(request_id, message)
        elif "id" not in message and "method" in message:
            if is_sound:
                self._take_note(cast("str", method), params)
        elif not _is_id(request_id):
            self.refuse(None, JsonRpcInvalidRequest("The id of a request is a whole number or a string"))
        elif not is_sound:
            self.refuse(request_id, JsonRpcInvalidRequest('A request has "jsonrpc": "2.0" and a method'))
        elif request_id in self._calls:
            self.refuse(None, JsonRpcInvalidRequest(f"The id {request_id!r} belongs to a request that is not answered yet"))
        else:
            self._take_request(request_id, cast("str", method), params)
        return None

    def _take_request(self, request_id: int | str, method: str, params: Any) -> None:
        try:
            self._admit(method)
            handler, given = self._handler_of(method, params)
        except JsonRpcException as error:
            return self.refuse(request_id, error)
        self._calls[request_id] = None
        self._idle.clear()
        self._ctx_msg_id.set(request_id)  # `msg_id` in the task that `_run` creates
        future = self._run(handler, given, partial(self._finish, request_id, method))
        if request_id in self._calls:
            self._calls[request_id] = future
        return None

    def _admit(self, method: str) -> None:
        """Raise `JsonRpcException` if requests are not allowed now."""
        if self._shutdown:
            raise JsonRpcInvalidRequest("After shutdown comes exit, and nothing else")
        if self.is_initialized == (method == types.INITIALIZE):
            if self.is_initialized:
                raise JsonRpcInvalidRequest("initialize was sent already")
            raise JsonRpcException("The first request is initialize", NOT_INITIALIZED)
        if len(self._calls) >= self.most_calls:
            raise as_failure(TooManyRequests(f"{len(self._calls)} requests are not answered yet (max_inflight)"))

    def _handler_of(self, method: str, params: Any) -> tuple[_Handler, Any]:
        """The handler of a request, and its parameters. Raises `JsonRpcException`."""
        if method == types.INITIALIZE:
            found, dropped = read_initialize(params, self._converter.structure)
            if dropped:
                log.info("parts of initialize that cannot be read: %s", ", ".join(dropped))
            self._server.take_options(params)
            return self.fm.builtin_features[method], found
        if method in self.raw:
            return _coroutine(self.raw[method]), params
        handler = self._feature(method)
        if handler is not None and _is_request(method):
            return handler, self._structured(method, params)
        raise JsonRpcMethodNotFound.of(method)

    def _take_note(self, method: str, params: Any) -> None:
        if method != types.EXIT and (self._shutdown or not self.is_initialized):
            return
        try:
            if method in self.notes:
                self.notes[method](params)
                return
            handler = self._feature(method)
            if handler is None or _is_request(method):
                log.debug("a notification that means nothing here: %s", method)
                return
            future = self._run(handler, self._structured(method, params), partial(self._noted, method))
            if future is not None:
                self._notified.add(future)
                future.add_done_callback(self._notified.discard)
        except JsonRpcException as error:
            log.warning("%s cannot be used: %s", method, error.message)

    def _take_answer(self, request_id: Any, message: dict[str, Any]) -> None:
        """Take the client's answer to a request of ours. A late or unmatched one is logged."""
        future: Future[Any] | None = self._request_futures.pop(request_id, None) if _is_id(request_id) else None
        if future is None:
            log.info("an answer that nobody waits for: %r", message.get("error", request_id))
            return
        expected = self._result_types.pop(request_id, None)
        if not future.set_running_or_notify_cancel():  # the requester has given up
            return
        try:
            if "error" in message:
                future.set_exception(
                    JsonRpcException.from_error(self._converter.structure(message["error"], types.ResponseError))
                )
            else:
                future.set_result(self._converter.structure(message, expected).result if expected else message.get("result"))
        except Exception:
            future.set_exception(JsonRpcInternalError("The client's answer cannot be read"))

    def _feature(self, method: str) -> _Handler | None:
        return self.fm.builtin_features.get(method) or self.fm.features.get(method)

    def _structured(self, method: str, params: Any) -> Any:
        """The parameters as an object of the protocol. Raises `JsonRpcInvalidParams`."""
        wanted = types.METHOD_TO_TYPES.get(method, (None, None, None, None))[2]
        if wanted is None:
            return params
        try:
            return self._converter.structure({} if params is None else params, wanted)
        except Exception as error:
            raise invalid_params(method, error) from None

    def _run(self, handler: _Handler, params: Any, callback: Callable[[Any], None]) -> Any:
        """Run a handler through pygls; the future of an unfinished one, or None."""
        key = str(uuid.uuid4())
        self._execute_handler(key, handler, callback, (params,))
        return self._request_futures.pop(
            key, None
        )  # pygls stores futures of client answers there; no client may answer this one

    def _cancel(self, params: Any) -> None:
        request_id = cast("dict[str, Any]", params).get("id") if isinstance(params, dict) else None
        future = self._calls.get(request_id) if _is_id(request_id) else None
        if future is not None:
            future.cancel()

        # outgoing

    def refuse(self, request_id: Any, error: JsonRpcException) -> None:
        """Answer with an error; without an id if the message has no readable one."""
        shown = {"code": error.code, "message": error.message}
        if error.data is not None:
            shown["data"] = error.data
        self._send_data({"jsonrpc": self.VERSION, "id": request_id, "error": shown})

    def _finish(self, request_id: int | str, method: str, future: Any) -> None:
        """Answer a finished request."""
        self._calls.pop(request_id, None)
        if not self._calls:
            self._idle.set()
        error: BaseException | None = asyncio.CancelledError() if future.cancelled() else future.exception()
        if error is not None:
            return self.refuse(request_id, failure_of(error, method))
        if method == types.INITIALIZE:
            self.is_initialized = True
        response = None if method in self.raw else types.METHOD_TO_TYPES.get(method, (None, None))[1]
        result = future.result()
        try:
            if response is None:
                self._send_data({"jsonrpc": self.VERSION, "id": request_id, "result": result})
            else:
                self._send_data(response(id=request_id, result=result))
        except Exception as error:
            self.refuse(request_id, failure_of(error, method))
        return None

    def _send_data(self, data: Any) -> None:
        # Lone surrogates, which texts from JavaScript may have, are escaped.
        self.sink(json.dumps(data, default=self._serialize_message, separators=(",", ":"), allow_nan=False).encode())

    def send_notification(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification of plain data, because objects of the protocol are too slow for large texts."""
        message = {"jsonrpc": self.VERSION, "method": method, "params": params}
        try:
            self.sink(encode_own(message))
        except UnicodeEncodeError:
            self._send_data(message)

    def plain(self, value: Any) -> Any:
        """An object of the protocol as plain data."""
        return self._converter.unstructure(value)

    def _noted(self, method: str, future: Any) -> None:
        error = None if future.cancelled() else future.exception()
        if error is not None:
            log.error("a bug of rrext: %s failed", method, exc_info=error)

        # overrides of pygls

    @lsp_method(types.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(self, params: types.ExecuteCommandParams) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run a command in a task of its own, so that it can be cancelled."""
        return await self._server.execute(params)

    @lsp_method(types.SHUTDOWN)
    def lsp_shutdown(self, *args: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Stop all requests; the client wants no more results."""
        self._shutdown = True
        self.cancel_all()

    def _exit(self, _: Any) -> None:
        """End the server: with 0 after `shutdown`, else with 1, as the protocol says."""
        self.on_exit(0 if self._shutdown else 1)


def _is_request(method: str) -> bool:
    """Whether the protocol defines an answer for a method; custom methods have one."""
    return types.METHOD_TO_TYPES.get(method, (None, True))[1] is not None


def _coroutine(work: Command) -> _Handler:
    async def run(params: Any) -> Any:  # pygls tests for coroutine functions, and a `partial` is none
        return await work(params)

    return run


def _is_id(value: object) -> TypeGuard[int | str]:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def _nowhere(_: object) -> None:
    """Drop a message, before a transport is connected."""


MAX_REASONS: Final = 3
"""Reasons named in one error of invalid parameters."""


def as_failure(error: RrextError) -> JsonRpcException:
    """An error of rrext in the form in which `rrext serve` answers it over JSON-RPC."""
    parts = wire_error(error)
    hint = {} if parts.hint is None else {"hint": parts.hint}
    return JsonRpcException(parts.message, number_of(parts.code), {**parts.data, "code": parts.code, **hint})


def failure_of(error: BaseException, method: str) -> JsonRpcException:
    """The error answer for an exception. An unforeseen one is a bug: the log has its traceback, the client one line."""
    if isinstance(error, asyncio.CancelledError):
        return JsonRpcRequestCancelled(f"{method} was cancelled")
    if isinstance(error, RrextError):
        return as_failure(error)
    if isinstance(error, JsonRpcException):
        return error
    log.error("a bug of rrext: %s failed", method, exc_info=error)
    reason = f"{type(error).__name__}: {error}"[: DEFAULTS.max_error_text]
    return JsonRpcInternalError(f"A bug of rrext: {method} failed with {reason} (its log has more)")


def invalid_params(method: str, error: Exception) -> JsonRpcInvalidParams:
    """The error for parameters that break the protocol, with the paths of the misfits."""
    try:
        reasons = transform_error(error, path="params")
    except Exception:  # cattrs cannot describe every exception
        reasons = [str(error)]
    more = f" (and {len(reasons) - MAX_REASONS} more)" if len(reasons) > MAX_REASONS else ""
    text = f"Invalid parameters of {method}: {'; '.join(reasons[:MAX_REASONS])}{more}"
    return JsonRpcInvalidParams(text[: DEFAULTS.max_error_text])
