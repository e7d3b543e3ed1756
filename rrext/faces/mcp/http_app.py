"""The Model Context Protocol over HTTP: an app of the official SDK, whose handlers ask the engine. `ProgressFeed` passes the
progress of a call, and its questions to the user, to the coroutines of the SDK.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import msgspec
from mcp import MCPError
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import ListenHandler, ToolsListChanged
from mcp_types import (
    NotificationParams,
    RequestParams,
    ServerCapabilities,
)
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rrext.engine.host.host import Host
from rrext.engine.host.places import HeldPlace, Place
from rrext.engine.interface.call import Call, Caller
from rrext.engine.interface.engine import AwaitedAnswer, Engine
from rrext.engine.interface.failures import shortened
from rrext.engine.interface.operations import ListOffers, ListTools, Operation, Tool
from rrext.errors import Cancelled, InvalidArguments, InvalidRequest, RrextError, ShuttingDown
from rrext.faces.http.access import TOKEN, USER
from rrext.faces.http.budget import Budgets
from rrext.faces.http.door import address_of, arrival_of
from rrext.faces.http.exchange import NOBODY, Exchange, exchange_of, new_exchange
from rrext.faces.http.failures import failure
from rrext.faces.http.tokens import ShownToken, UserTokens
from rrext.faces.mcp.host_offers import CAPABILITY, METHODS, TTL, HostOffers
from rrext.faces.mcp.listing import SPACE_PATH, ListedTools, decoded, space_of, start_of, watch_tools
from rrext.faces.mcp.progress import CallSteps
from rrext.faces.mcp.protocol import CAPABILITIES, NO_RESULTS, PATH, SERVER, VERSIONS, content_of, content_of_error, failure_of
from rrext.faces.mcp.questions import METHOD as ELICIT
from rrext.faces.mcp.questions import SuspendableCall, SuspendedCalls, answer, can_ask, modes_of, question
from rrext.limits import LARGE_RESULT
from rrext.server.commands import decode, refuse_long_names
from rrext.threads import note_dropped
from rrext.wire.messages import Request

MAX_SESSIONS: Final = 1000
"""Sessions of the handshake era over HTTP; each has a few tasks, and ends after half an hour without a request."""

MAX_SUBSCRIPTIONS: Final = 1000
"""Open `subscriptions/listen` over HTTP."""

_CONNECTIONS: Final = count(1)
"""The numbers of calls, each a connection of its own to the engine: the apps of all users share that engine."""

log: Final = logging.getLogger("rrext.server")

Context = ServerRequestContext[Any, Any]

SENT: Final = "rrext.sent"
"""The member of a request's scope with its `_Sent`."""


class McpServer(Server[Any]):
    """A server of the SDK, which announces that its list of tools may change, and what is offered beside tools."""

    offers: HostOffers | None = None
    """None: whatever may be offered, which changes."""

    def get_capabilities(self, *args: Any, **kwargs: Any) -> ServerCapabilities:
        """The capabilities."""
        offered = CAPABILITY if self.offers is None else self.offers.capabilities
        return ServerCapabilities.model_validate({**CAPABILITIES, **{name: {} for name in offered}})


class McpApp:
    """Answers the requests of both eras at the path `/mcp`. Made on the loop's thread. Without `offers` it looks what the
    pipelines offer with each request.

    `caller` is the caller without a token; a token's user replaces its user. When `tokens` change, calls and sessions end.
    Requests and their answers count for the `budgets` of their users.
    """

    def __init__(
        self,
        engine: Engine,
        host: Host,
        budgets: Budgets,
        *,
        caller: Caller,
        offers: HostOffers | None = None,
        tokens: UserTokens | None = None,
    ) -> None:
        self._engine = engine
        self._host = host
        self._limits = limits = host.limits
        self._caller = caller
        self._offers = offers
        self._loop = asyncio.get_running_loop()
        self._listed = ListedTools()
        self._suspended = SuspendedCalls(limits.max_inflight_bytes)
        self._calls: dict[Call, ShownToken | None] = {}
        """The unanswered calls, with the tokens of their requests."""
        self._is_draining = False
        self.on_answer: Callable[[], object] = lambda: None
        self._app: ASGIApp | None = None
        self._server: McpServer | None = None
        self._ready = asyncio.Event()
        self._changes = ChangeBus(self._loop)
        self._listening = ListenHandler(self._changes, max_subscriptions=MAX_SUBSCRIPTIONS)
        watch_tools(engine, self._changes.changed)
        self._tokens = tokens
        self._budgets = budgets
        if tokens is not None:
            tokens.on_change.append(self._check_tokens)

    # -- the life of the app

    async def run(self) -> None:
        """Keep the sessions of the handshake era, until a cancel."""
        server = self._server = self._made_server()
        app = server.streamable_http_app(
            streamable_http_path=PATH, max_request_body_size=self._limits.max_frame, max_sessions=MAX_SESSIONS, host=""
        )
        async with server.session_manager.run():
            self._app = app
            self._ready.set()
            try:
                await self._loop.create_future()
            finally:
                self._ready.clear()

    def _made_server(self) -> McpServer:
        server = McpServer(
            SERVER["name"],
            version=SERVER["version"],
            get_tool_input_schema=lambda name: None,  # no tool takes arguments from headers
            on_list_tools=self._list_tools,  # type: ignore[arg-type]
            on_call_tool=self._call_tool,  # type: ignore[arg-type]
            on_subscriptions_listen=self._listening,
        )
        server.offers = self._offers
        for method in METHODS:
            server.add_request_handler(method, RequestParams, partial(self._offered, method))
        server.add_notification_handler("notifications/initialized", NotificationParams, self._initialized)
        server.middleware = [_with_decoded_arguments]
        return server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._ready.wait()
        assert self._app is not None
        arrival_of(scope).accept_client()  # its token was looked at before, or it needs none
        user = scope.get(USER)
        if user is not None:  # a session of the handshake era belongs to the user who began it
            scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=user, scopes=[]))
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        exchange = new_exchange(scope, self._budgets, user or NOBODY)
        try:
            try:
                receive = await exchange.whole_body(receive, self._limits.max_frame)
            except RrextError as error:
                await failure(error)(scope, receive, send)
            else:
                await self._answer(scope, receive, send)
        finally:
            exchange.answered()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a message of a client."""
        assert self._app is not None
        first = await receive()
        if first.get("body", b"").lstrip()[:1] == b"[":
            await self._refuse_batch(first, scope, receive, send)
            return
        message, sent = _Received(first, receive), _Sent(send)
        scope[SENT] = sent
        del first
        try:
            await self._app(scope, message, sent)
        finally:
            sent.end_turn()
            if not sent.is_whole:  # a cancelled task of the SDK leads to itself
                note_dropped(self._loop, message.nbytes, in_cycles=True)

    async def _refuse_batch(self, message: Message, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse each request of a batch by its id: clients of 2025-03-26 wait for these, and the SDK names none."""
        body = bytearray(message.get("body", b""))
        while message.get("more_body") and len(body) <= self._limits.max_frame:
            message = await receive()
            body += message.get("body", b"")
        try:
            messages: list[Any] = msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            messages = []
        ids = [each["id"] for each in messages if isinstance(each, dict) and type(each.get("id")) in (int, str)]
        error = failure_of(InvalidRequest("batches are not taken over HTTP: send each message by itself"))
        refusals = [{"jsonrpc": "2.0", "id": each, "error": error} for each in ids[: self._limits.max_inflight]]
        answer = msgspec.json.encode(refusals or {"jsonrpc": "2.0", "id": None, "error": error})
        await Response(answer, 400, media_type="application/json")(scope, receive, send)

    @property
    def is_busy(self) -> bool:
        """Whether a call is unanswered."""
        return bool(self._calls)

    def drain(self) -> None:
        """Refuse new calls."""
        self._is_draining = True

    def fail_all(self) -> None:
        """Answer the unanswered calls with an error, and end the subscriptions."""
        for call in list(self._calls):
            call.cancel("shutting_down", ShuttingDown("the server ended before this call did"))
        self._listening.close()

    def _check_tokens(self) -> None:
        """Cancel the calls whose tokens are gone, and end the sessions of users who have none any more."""
        assert self._tokens is not None
        for call, token in list(self._calls.items()):
            if self._is_gone(token):
                call.cancel("cancelled", _token_gone())
        if self._server is not None and self._app is not None:
            manager = self._server.session_manager
            for session_id, owner in list(manager._session_owners.items()):  # the SDK has no public list of its sessions
                if owner["client_id"] not in self._tokens.users:
                    session = manager._server_instances[session_id]
                    self._loop.create_task(manager._discard_session(session_id, session), name="end of a session")

    # -- handlers

    async def _initialized(self, context: Context, params: NotificationParams) -> None:
        self._changes.add(context.session._connection)  # the SDK has no public way from a request to its connection

    async def _list_tools(self, context: Context, params: Any) -> dict[str, Any]:
        try:
            page = await self._page(context, start_of((context.params or {}).get("cursor")))
        except RrextError as error:
            raise _as_error(error) from None
        return _result(context, page, ttlMs=int(TTL * 1000), cacheScope="private")

    async def _page(self, context: Context, start: int) -> bytes:
        return self._listed.page(await self._ask(context, ListTools(format="mcp")), start)

    async def _offered(self, method: str, context: Context, params: Any) -> dict[str, Any]:
        is_modern = context.protocol_version in VERSIONS
        try:
            offers = self._offers or await self._running_offers(context)
            arguments, fact = offers.ask(method, dict(context.params or {}))
            value = None
            if arguments:
                try:
                    value = msgspec.json.decode(await self._ask(context, decode(arguments, Tool, self._limits)))["result"]
                except RrextError as error:
                    value = offers.without(fact, error)
                    if value is None:
                        raise
            members = offers.result(method, fact, value, keeps=is_modern)
        except RrextError as error:
            raise MCPError(**failure_of(error, method, shakes_hands=not is_modern)) from None
        return {**members, "resultType": "complete"} if is_modern else members

    async def _running_offers(self, context: Context) -> HostOffers:
        """The prompts and resources of the pipelines that run now."""
        listed = msgspec.json.decode(await self._ask(context, ListOffers()))
        return HostOffers.of(listed["tasks"], self._caller.tools)

    async def _call_tool(self, context: Context, params: Any) -> dict[str, Any]:
        given = dict(context.params or {})
        is_modern = context.protocol_version in VERSIONS
        try:
            if params.name not in self._listed:  # what is known of its input and its result stands in the list
                await self._page(context, 0)
            arguments = self._listed.call(given)
            if is_modern and given.get("requestState") is not None:
                return await self._outcome(context, self._resumed(context, given, arguments))
            arguments |= can_ask(modes_of(_capabilities(context), context.protocol_version))
            refuse_long_names(Request(None, "rrext_process", arguments, None, 0), self._limits)
            operation = decode(arguments, Tool, self._limits)
            if operation.questions and is_modern:
                return await self._outcome(context, self._suspendable(context, operation, arguments))
            if operation.is_fed:
                feed = ProgressFeed(self._loop, context.session.report_progress, partial(_asked, context))
                body = await feed.sent_during(self._ask(context, operation, feed))
            else:
                body = await self._ask(context, operation)
            return await self._encoded(context, body)
        except NO_RESULTS as error:
            raise _as_error(error) from None
        except RrextError as error:
            members = content_of_error(error)
            if len(members) > self._limits.max_result:
                members = content_of_error(shortened(error, self._limits))
            return _result(context, members)

    def _suspendable(self, context: Context, operation: Tool, arguments: dict[str, Any]) -> _SuspendableCall:
        """A call that has begun, and can be suspended."""
        call = _SuspendableCall(self._user_of(context), arguments, context)
        feed = ProgressFeed(self._loop, call.report_progress, call.ask)
        call.run = self._loop.create_task(feed.sent_during(self._ask(context, operation, feed)))

        def over(run: asyncio.Task[bytes]) -> None:
            self._suspended.forget(call)
            if not run.cancelled():
                run.exception()  # nobody may wait for it any more

        call.run.add_done_callback(over)
        return call

    def _resumed(self, context: Context, given: dict[str, Any], arguments: dict[str, Any]) -> _SuspendableCall:
        """The suspended call that goes on under this request, with the answers of the user. Raises `MCPError`."""
        try:
            call = self._suspended.resume(given["requestState"], self._user_of(context), arguments)
        except InvalidArguments as error:
            raise _as_error(error) from None
        assert isinstance(call, _SuspendableCall)
        call.context = context
        for number, event, result in call.take_answers(given.get("inputResponses")):
            call.answered[number].set_result(answer(event, result))
        return call

    async def _outcome(self, context: Context, call: _SuspendableCall) -> dict[str, Any]:
        """The result of a call, or the questions of a call, which is suspended then. A cancelled request cancels its call."""
        try:
            while not call.run.done():
                if call.questions:
                    call.context = None
                    return {**self._suspended.suspend(call), "resultType": "input_required"}
                call.changed.clear()
                changed = self._loop.create_task(call.changed.wait())
                try:
                    await asyncio.wait([call.run, changed], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
            return await self._encoded(context, await call.run)
        except BaseException:
            call.run.cancel()
            raise

    async def _encoded(self, context: Context, body: bytes) -> dict[str, Any]:
        """The result of a call. Large ones are made one after the other, and users take turns: the SDK keeps the loop for a
        second for 50 MB, and holds several copies until they are on their way.
        """
        if len(body) > LARGE_RESULT and context.request is not None:
            caller = msgspec.structs.replace(self._caller, user_id=self._user_of(context))
            turn = self._budgets.turns.take(caller)
            context.request.scope[SENT].turn = turn
            await self._host.granted(turn)
            exchange = exchange_of(context.request.scope)
            if exchange is not None and exchange.is_gone:
                raise Cancelled("cancelled: the client is gone")
        return _result(context, content_of(body))

    async def _ask(self, context: Context, operation: Operation, feed: ProgressFeed | None = None) -> bytes:
        """Run an operation of a request, whose answer has no raw bytes. Raises the error of the operation."""
        if self._is_draining:
            raise ShuttingDown("the server ends and takes no new requests")
        token = None if context.request is None else context.request.scope.get(TOKEN)
        if self._is_gone(token):  # since the request came: its session may take it later
            raise _token_gone()
        exchange = None if context.request is None else exchange_of(context.request.scope)
        caller = msgspec.structs.replace(
            self._caller,
            connection_id=f"http-{next(_CONNECTIONS)}",
            user_id=self._user_of(context),
            address=None if context.request is None else address_of(context.request.scope),
            counts_for=None if exchange is None else exchange.user,
        )
        if (space := space_of(context.params or {}, self._limits)) is not None:
            caller = caller.claiming(space, SPACE_PATH)
        answer = _KeptAnswer(self._loop, exchange)
        call = Call(
            operation,
            answer,
            caller,
            context.request_id,
            "rrext_process",
            feed=feed,
            received=self._host.clock.now(),
            outlet=exchange,
        )
        self._calls[call] = token
        try:
            self._engine.start(call)
            body, _ = await answer.future
        except asyncio.CancelledError:
            call.cancel("cancelled", Cancelled())
            raise
        finally:
            self._calls.pop(call, None)
            self._engine.disconnect(caller.connection_id)  # a transaction or a pipe of the call has no later one
            self.on_answer()
        return body

    def _is_gone(self, token: ShownToken | None) -> bool:
        return token is not None and self._tokens is not None and not self._tokens.holds(token)

    def _user_of(self, context: Context) -> str | None:
        """The user of a request's token; without tokens that of the server."""
        user = context.request.scope.get(USER) if context.request is not None else None
        return user or self._caller.user_id


class ChangeBus:
    """Hands changes of the list of tools to subscriptions, and to the sessions of the handshake era: to each session once,
    however often the list changes, while its client reads nothing.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_due = False
        self._listeners: dict[object, Callable[[Any], None]] = {}
        self._sessions: WeakKeyDictionary[Connection, asyncio.Task[None] | None] = WeakKeyDictionary()

    def add(self, session: Connection) -> None:
        """Notify a session too, as long as it lasts."""
        self._sessions[session] = None

    def subscribe(self, listener: Callable[[Any], None]) -> Callable[[], None]:
        """Call `listener` after each change; the function that ends that."""
        key = object()
        self._listeners[key] = listener
        return lambda: self._listeners.pop(key, None) and None

    async def publish(self, event: Any) -> None:
        """Call each listener."""
        for listener in list(self._listeners.values()):
            listener(event)

    def changed(self, event: Any) -> None:
        """Notify all listeners and sessions soon; several changes at once count as one. From any thread."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon_threadsafe(self._notify_listeners)

    def _notify_listeners(self) -> None:
        self._is_due = False
        for listener in list(self._listeners.values()):
            listener(ToolsListChanged())
        for session, telling in list(self._sessions.items()):
            if telling is None or telling.done():
                self._sessions[session] = self._loop.create_task(session.send_tool_list_changed())


class _Received:
    """The messages of a request, of which the first was taken, and the size of its body."""

    def __init__(self, first: Message, receive: Receive) -> None:
        self._waiting = [first]
        self._receive = receive
        self.nbytes = 0

    async def __call__(self) -> Message:
        message = self._waiting.pop() if self._waiting else await self._receive()
        self.nbytes += len(message.get("body", b""))
        return message


class _Sent:
    """The answer to a request."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_whole = False
        self.turn: Place | HeldPlace | None = None

    def end_turn(self) -> None:
        """Let the next large answer be made: this one is on its way, or will never be."""
        turn, self.turn = self.turn, None
        if turn is not None:
            turn.release()

    async def __call__(self, message: Message) -> None:
        if message.get("body"):
            self.end_turn()  # the client may read it slowly
        self.is_whole = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)


class _KeptAnswer(AwaitedAnswer):
    """The answer of a call, whose bytes count for the user of the request until they are sent."""

    __slots__ = ("_exchange",)

    def __init__(self, loop: asyncio.AbstractEventLoop, exchange: Exchange | None) -> None:
        super().__init__(loop)
        self._exchange = exchange

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None:
        if self._exchange is not None:
            self._exchange.keep(len(body))
        super().succeed(call, body, tail)


async def _with_decoded_arguments(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Take arguments that a model wrote as JSON text for the object in it, before the SDK refuses them."""
    params = ctx.params
    if ctx.method == "tools/call" and isinstance(params, Mapping) and isinstance(params.get("arguments"), str):
        ctx = replace(ctx, params={**params, "arguments": decoded(params["arguments"])})
    return await call_next(ctx)


class _SuspendableCall(SuspendableCall):
    """A call over HTTP, which runs in a task of its own: `run`. `context` belongs to the request that waits for the call, if a
    request does.
    """

    run: asyncio.Task[bytes]

    def __init__(self, user: str | None, arguments: Mapping[str, Any], context: Context) -> None:
        super().__init__(user, arguments, len(msgspec.json.encode(arguments)))
        self.context: Context | None = context
        self.answered: dict[int, asyncio.Future[Any]] = {}
        self.changed = asyncio.Event()
        self._numbers = count(1)

    async def report_progress(self, value: float, total: float | None, message: str | None) -> None:
        """Report to the request that waits; to none, if the call is suspended."""
        if self.context is not None:
            await self.context.session.report_progress(value, total, message)

    async def ask(self, event: str, body: dict[str, Any]) -> Any:
        """Ask the user, and wait for the answer."""
        number = next(self._numbers)
        self.questions[number] = event, question(event, body)
        self.answered[number] = asyncio.get_running_loop().create_future()
        self.changed.set()
        try:
            return await self.answered[number]
        finally:
            self.questions.pop(number, None)
            del self.answered[number]


async def _asked(context: Context, event: str, body: dict[str, Any]) -> Any:
    """The answer of the user of a session to an event. One who cannot be asked permits nothing, and cancels the rest."""
    try:
        # the SDK has no public way for questions with other schemas than those that it knows
        result = await context.session._request_outbound.send_raw_request(ELICIT, question(event, body))
    except MCPError as error:
        log.debug("a client was asked: %s", error)
        result = {}
    return answer(event, result)


def _token_gone() -> Cancelled:
    return Cancelled("cancelled: the token of this client is gone")


def _capabilities(context: Context) -> dict[str, Any]:
    """The capabilities that the client declared."""
    declared = context.session.client_capabilities
    return {} if declared is None else declared.model_dump(by_alias=True, exclude_none=True)


def _result(context: Context, members: bytes, **modern: Any) -> dict[str, Any]:
    """A result of its encoded members; `modern` are those that it has without a handshake."""
    result = msgspec.json.decode(b"{%b}" % members)
    return {**result, "resultType": "complete", **modern} if context.protocol_version in VERSIONS else result


def _as_error(error: RrextError) -> MCPError:
    return MCPError(**failure_of(error))


MAX_WAITING_PROGRESS: Final = 64
"""Reports of a call that wait for a client that reads slowly; earlier ones are dropped."""

T = TypeVar("T")


class ProgressFeed:
    """Takes the progress of a call from any thread, and reports it on the loop. While the client reads slowly, the latest
    reports wait and earlier ones are dropped.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[float, float | None, str | None], Awaitable[None]],
        ask: Callable[[str, dict[str, Any]], Awaitable[Any]],
    ) -> None:
        self._loop = loop
        self._report = report
        self._ask = ask
        self._waiting: deque[tuple[float, float | None, str | None]] = deque(maxlen=MAX_WAITING_PROGRESS)
        self._changed = asyncio.Event()
        self._steps = CallSteps()
        self._is_over = False

    async def sent_during(self, call: Coroutine[Any, Any, T]) -> T:
        """Await a call and report its progress meanwhile, all of it before this returns."""
        sending = self._loop.create_task(self._send())
        try:
            result = await call
            self._is_over = True
            self._changed.set()
            await sending
        finally:
            sending.cancel()
        return result

    async def _send(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._waiting:
                await self._report(*self._waiting.popleft())
            if self._is_over:
                return

    def progress(self, value: float, total: float | None, message: str | None) -> None:
        """Take a report."""
        if self._steps.reported(value, total):
            self._add(value, total, message)

    def _add(self, value: float, total: float | None, message: str | None) -> None:
        text = None if message is None else message.encode("utf-8", "replace").decode()
        self._waiting.append((value, total, text))
        self._loop.call_soon_threadsafe(self._changed.set)

    def chunk(self, index: int, chunk: bytes, tail: bytes | None) -> None:
        """Drop a chunk: no call of this protocol asks for them."""

    def call_event(self, body: dict[str, Any]) -> None:
        """Take a step of the call."""
        if (told := self._steps.step(body)) is not None:
            self._add(told["progress"], told.get("total"), told["message"])

    async def ask(self, event: str, body: dict[str, Any]) -> Any:
        """Ask the client."""
        return await self._ask(event, body)

    def wait_for_room(self) -> None:
        """Return at once."""

    async def room(self) -> None:
        """Return at once."""

    def end(self) -> None:
        """Do nothing: what waits is reported by `sent_during`."""
