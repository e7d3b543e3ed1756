"""`Link`: one established session with an MCP server, through the official SDK.

The SDK negotiates, matches answers with requests, and carries HTTP. Lists and calls are sent as plain data, past its
typed results: one malformed tool would make a whole list invalid for it, so lists are read tool by tool. Questions of a
server to the user of a call (elicitation) go to the caller of that call. Over HTTP every failure becomes the answer of one
request, of bounded size (`HttpTransport`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal

import anyio
import httpx2
import msgspec
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.dispatcher import CallOptions, OnRequest, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    ErrorData,
    Implementation,
    LoggingMessageNotification,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from rrext.errors import RrextError, Unavailable
from rrext.http import CONNECT_TIMEOUT, PACKINGS, BodyTooLarge, ForeignPacking, failure_body, new_client, whole_body
from rrext.limits import MAX_QUOTED_NAME
from rrext.providers.mcp.transport import (
    BROKEN,
    CLOSE_PATIENCE,
    RESULT_TOO_LARGE,
    UNREACHABLE,
    McpTarget,
    ServerLog,
    StdioTransport,
    Transport,
    cut,
    of_answer,
    of_lost,
    start,
)
from rrext.providers.provider import HINTS, ProvidedTool
from rrext.tools.context import ToolContext
from rrext.tools.validation import InvalidSchema, SchemaValidator
from rrext.version import __version__

PROBE_SHARE: Final = 0.4
"""The part of the time for connecting that a server of the handshake era may leave the question for its era unanswered."""

MAX_PAGES: Final = 100
"""Pages of one list of tools: a list that never ends must not hang its reader."""

REFRESH_PAUSE: Final = 0.2
"""Seconds between two readings of the list of tools: a server may announce a change of each tool by itself."""

LISTEN_PAUSE: Final = 5.0
"""Seconds until the server is asked anew for announcements after it ended their stream."""

MAX_ROUNDS: Final = 100
"""Rounds of questions in one call of 2026-07-28: a server that asks for ever must not keep its caller."""

NO_HEADERS: Final[Mapping[str, str]] = {}
US: Final = Implementation(name="rrext", version=__version__)

log = logging.getLogger(__name__)


def _in_one_line(record: logging.LogRecord) -> bool:
    """Shorten what the SDK logs of a server's nonsense: a traceback of a page for each message."""
    if record.exc_info and record.exc_info[1] is not None:
        reason = " ".join(str(record.exc_info[1]).split())
        record.msg, record.args, record.exc_info = "%s: %s", (record.getMessage(), cut(reason)), None
    return True


for _name in ("mcp.client.streamable_http", "client"):  # the loggers of the SDK's transport and session
    logging.getLogger(_name).addFilter(_in_one_line)


class Link:
    """A session that is entered and left by its owner; any task may call. `listing` has the tools, `adopt` gets each one."""

    def __init__(
        self,
        target: McpTarget,
        transport: Transport,
        dispatcher: LinkDispatcher,
        earlier: ToolListing | None,
        adopt: Callable[[ToolListing], object],
    ) -> None:
        self.transport = transport
        self.listing = earlier or ToolListing()
        self._adopt = adopt
        self._target = target
        self._dispatcher = dispatcher
        self._log = ServerLog(target.name, target.redact)
        self._stale = anyio.Event()
        self._askers = Askers()
        dispatcher.answer_question = self._answer_question
        self.session = ClientSession(
            dispatcher=dispatcher, client_info=US, message_handler=self._receive, elicitation_callback=_never_asked
        )

    @property
    def is_lost(self) -> bool:
        """Whether the server cannot be called any more."""
        return self.transport.is_ending

    async def establish(self) -> None:
        """Find the version that both speak, and read the list of tools."""
        await self._negotiate()
        await self._refresh()

    async def _negotiate(self) -> None:
        session = self.session
        try:
            with anyio.move_on_after(self._target.timeout * PROBE_SHARE):
                await session.discover()
        except MCPError as error:
            if error.code == UNREACHABLE or self._is_closed(error):
                raise
            log.debug("connection %s: no server/discover: %s", self._target.name, error)
        except (RuntimeError, ValidationError) as error:
            log.debug("connection %s: no usable server/discover: %s", self._target.name, error)
        if session.protocol_version is not None:
            return
        try:
            await session.initialize()
        except MCPError as error:
            if error.code != UNSUPPORTED_PROTOCOL_VERSION:
                raise
            await session.discover()  # a slow server, which has adopted the version of the first question meanwhile

    async def follow(self) -> None:
        """Read the list of tools again after each announcement of the server. Runs as long as the link."""
        capabilities = self.session.server_capabilities
        announces = capabilities is not None and capabilities.tools is not None and capabilities.tools.list_changed
        async with anyio.create_task_group() as tasks:
            if announces and self.session.protocol_version in MODERN_PROTOCOL_VERSIONS:
                tasks.start_soon(self._listen)
            while True:
                await self._stale.wait()
                self._stale = anyio.Event()
                try:
                    with anyio.fail_after(self._target.timeout):
                        await self._refresh()
                except (MCPError, ValueError, TimeoutError) as error:
                    why = str(error) or "the server does not answer"
                    log.warning("connection %s: the changed tools cannot be listed: %s", self._target.name, why)
                await anyio.sleep(REFRESH_PAUSE)

    async def _listen(self) -> None:
        while True:
            try:
                async with listen(self.session, tools_list_changed=True) as events:
                    self._stale.set()  # for changes since the list was read
                    async for _ in events:
                        self._stale.set()
            except (MCPError, SubscriptionLost, ValidationError) as error:
                log.debug("connection %s: no announcements: %s", self._target.name, error)
            await anyio.sleep(LISTEN_PAUSE)

    async def _receive(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._stale.set()
        elif isinstance(message, LoggingMessageNotification):
            self._log.line(f"log ({message.params.level})", str(message.params.data))

    async def _refresh(self) -> None:
        entries: list[Any] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._request("tools/list", {} if cursor is None else {"cursor": cursor})
            tools, cursor = page.get("tools"), page.get("nextCursor")
            if not isinstance(tools, list):
                raise ValueError("its answer to tools/list has no list of tools")
            entries += tools
            if not isinstance(cursor, str) or len(entries) > MAX_TOOLS:
                break
        else:
            log.warning("connection %s: its list of tools has more than %d pages", self._target.name, MAX_PAGES)
        self.listing = await self._target.services.in_thread(read_listing, self._target.name, entries, self.listing)
        self._adopt(self.listing)

    async def call(
        self, tool: str, arguments: dict[str, Any], ctx: ToolContext, headers: Mapping[str, str], asker: Asker
    ) -> dict[str, Any]:
        """The raw result of `tools/call`, as `ask` gives and raises it."""
        headers = {**mcp_param_headers(self.listing.headers.get(tool, {}), arguments), **headers}
        return await self.ask("tools/call", {"name": tool, "arguments": arguments}, ctx, headers, asker)

    async def ask(
        self, method: str, params: dict[str, Any], ctx: ToolContext, headers: Mapping[str, str], asker: Asker
    ) -> dict[str, Any]:
        """The raw result of a request, of which the server may ask the caller. A cancel of the calling task cancels the request
        at the server, too.

        Raises the error that the server answered, and `ToolError` if the server was lost.
        """
        name = self._target.name
        progress = _progress_of(ctx) if ctx.wants_progress else None
        try:
            with self._askers.during(asker):
                result = await self._request(method, params, progress, headers, asker.capabilities)
                for _ in range(MAX_ROUNDS):
                    if result.get("resultType") != "input_required" or not asker.capabilities:
                        break
                    answers = await answers_to(result.get("inputRequests"), asker)
                    if answers is None:
                        break
                    state = {"requestState": result["requestState"]} if "requestState" in result else {}
                    params = {**params, "inputResponses": answers, **state}
                    result = await self._request(method, params, progress, headers, asker.capabilities)
                return result
        except MCPError as error:
            if error.code == CONNECTION_CLOSED and self.transport.is_ending:
                raise of_lost(name, *await self.transport.ending()) from None
            if error.code == BROKEN or self._is_closed(error):
                raise of_lost(name, error.message, {}) from None
            if error.code == HEADER_MISMATCH:
                self._stale.set()
            raise of_answer(name, error.code, error.message, error.data) from None

    async def _answer_question(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of a caller to a question of the server. Raises `MCPError` if nobody can be asked."""
        try:
            return await self._askers.who_is_asked().ask(params)
        except RrextError as error:
            raise MCPError(INVALID_REQUEST, f"Elicitation not supported: {error.message}") from None

    def _is_closed(self, error: MCPError) -> bool:
        """Whether the SDK says that the connection is closed: servers answer with its code, too."""
        return error.code == CONNECTION_CLOSED and (self.transport.is_ending or error.message == "Connection closed")

    async def _request(
        self,
        method: str,
        params: dict[str, Any],
        progress: ProgressFnT | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        capabilities: Mapping[str, Any] = NO_HEADERS,
    ) -> dict[str, Any]:
        version = self.session.protocol_version or ""
        sent = {MCP_PROTOCOL_VERSION_HEADER: version, **headers}
        if version in MODERN_PROTOCOL_VERSIONS:
            about = {PROTOCOL_VERSION_META_KEY: version, **_ABOUT_US, CLIENT_CAPABILITIES_META_KEY: capabilities}
            params = {**params, "_meta": about}
            sent[MCP_METHOD_HEADER] = method
            named = params.get("name", params.get("uri"))
            if named is not None:
                sent[MCP_NAME_HEADER] = encode_header_value(named)
        options: CallOptions = {"headers": sent}
        if progress is not None:
            options["on_progress"] = progress
        return await self._dispatcher.send_raw_request(method, params, options)


def _progress_of(ctx: ToolContext) -> ProgressFnT:
    async def report(progress: float, total: float | None, message: str | None) -> None:
        try:
            ctx.progress(progress, total, message)
        except ValueError as error:  # a number below 0: progress of no meaning fails no call
            log.debug("%s", error)

    return report


_ABOUT_US: Final = {CLIENT_INFO_META_KEY: US.model_dump(by_alias=True, mode="json", exclude_none=True)}


class LinkDispatcher(JSONRPCDispatcher[Any]):
    """Sends and receives messages, and hands over the parameters of a server's questions as they came: the SDK's own way has
    room for schemas of the protocol alone, and servers send others.
    """

    answer_question: Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]

    async def run(self, on_request: OnRequest, *given: Any, **options: Any) -> None:
        """Read messages until the server ends."""

        async def answer(context: Any, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
            if method == METHOD and isinstance((params or {}).get("message"), str):
                return await self.answer_question(params or {})
            return await on_request(context, method, params)

        await super().run(answer, *given, **options)


async def _never_asked(context: Any, params: Any) -> ErrorData:
    """Announces that questions are answered; those without a message come here, and are none."""
    return ErrorData(code=INVALID_PARAMS, message="the question has no message")


@asynccontextmanager
async def open_link(
    target: McpTarget, earlier: ToolListing | None, adopt: Callable[[ToolListing], object]
) -> AsyncIterator[Link]:
    """A link that is not established yet. Enter and leave it in one task. Raises `Unavailable` if a command cannot start."""
    async with AsyncExitStack() as stack:
        secrets = await target.services.in_thread(target.reveal)
        transport: Transport
        if target.command:
            transport = server = StdioTransport(target, *await target.services.in_thread(start, target, secrets))
            await stack.enter_async_context(server.served())
            dispatcher = LinkDispatcher(server.inbox, server.outbox)
        else:
            transport = Transport()
            http = await stack.enter_async_context(
                await target.services.in_thread(client, secrets, transport, target.max_message)
            )
            streams = streamable_http_client(target.url, http_client=http, max_sse_event_size=target.max_message)
            dispatcher = LinkDispatcher(*await stack.enter_async_context(streams))
        link = Link(target, transport, dispatcher, earlier, adopt)
        await stack.enter_async_context(link.session)
        yield link


METHOD: Final = "elicitation/create"
CANCELLED: Final = {"action": "cancel"}

Redact = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""The parameters of a question without secrets."""


class Asker:
    """A request that runs at a server, whose caller may be asked. What it is asked ends with the request."""

    def __init__(self, ctx: ToolContext, redact: Redact) -> None:
        self._ctx = ctx
        self._redact = redact
        self._scopes: set[anyio.CancelScope] = set()
        self._is_over = False

    @property
    def capabilities(self) -> dict[str, Any]:
        """The abilities of the caller, as capabilities of a client of the protocol."""
        modes = self._ctx.question_modes
        return {"elicitation": {mode: {} for mode in modes}} if modes else {}

    @property
    def caller(self) -> object:
        """The key of a caller: equal for all its requests."""
        ctx = self._ctx
        return ctx.connection_id, ctx.user_id, ctx.space_id

    @property
    def open_questions(self) -> int:
        """The number of its unanswered questions."""
        return len(self._scopes)

    async def ask(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The answer, `{action, content?}`. Raises `Unavailable` if the caller cannot be asked in this way."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                if not self._is_over:
                    return await self._ctx.ask(await self._redact(params))
            finally:
                self._scopes.discard(scope)
        return CANCELLED

    def end(self) -> None:
        """The request is over: so are its questions."""
        self._is_over = True
        for scope in list(self._scopes):
            scope.cancel()


_sender: ContextVar[Asker | None] = ContextVar("the request of the server's stream", default=None)
"""Over HTTP a question comes in the stream of a request, and is handled in the context in which that was sent."""


class Askers:
    """The requests that run at one server."""

    def __init__(self) -> None:
        self._running: dict[Asker, None] = {}

    @contextmanager
    def during(self, asker: Asker) -> Iterator[None]:
        """A request runs within the block, which sends it."""
        self._running[asker] = None
        token = _sender.set(asker)
        try:
            yield
        finally:
            _sender.reset(token)
            del self._running[asker]
            asker.end()

    def who_is_asked(self) -> Asker:
        """The request that a question of the server is about. Raises `Unavailable` where that is not certain.

        On stdin and stdout a question names no request: the server asks about the request that runs, or about a request of the
        caller whose requests alone run. Another caller must not read the question.
        """
        sender = _sender.get()
        if sender is not None:
            return sender
        running = list(self._running)
        if not running:
            raise Unavailable("no call runs whose caller could be asked")
        if len({asker.caller for asker in running}) > 1:
            raise Unavailable("calls of several callers run, and nothing says which of them is asked")
        return min(running, key=lambda asker: asker.open_questions)


async def answers_to(requests: Any, asker: Asker) -> dict[str, Any] | None:
    """The answers to the `inputRequests` of a result that needs some (2026-07-28); None if one of them asks for something else.

    Raises `Unavailable` if the caller cannot be asked.
    """
    if not isinstance(requests, dict) or not requests:
        return None
    asked: dict[str, dict[str, Any]] = {}
    for key, each in requests.items():
        if not isinstance(each, dict) or each.get("method") != METHOD or not isinstance(each.get("params"), dict):
            return None
        asked[key] = each["params"]
    return {key: await asker.ask(params) for key, params in asked.items()}


MAX_TOOLS: Final = 5000
"""Tools of one server; more are of no use to any caller."""

MAX_TOOL_NAME: Final = 256
"""Characters of the name of a tool."""

HeaderMap = Mapping[tuple[str, ...], str]


class ToolListing(msgspec.Struct, frozen=True):
    """The tools of a server by name, and the HTTP headers that repeat arguments of calls."""

    tools: dict[str, ProvidedTool] = {}
    headers: dict[str, HeaderMap] = {}


def read_listing(connection: str, entries: Sequence[Any], earlier: ToolListing) -> ToolListing:
    """The tools of the entries of `tools/list`, in a thread. A tool that did not change keeps its record."""
    tools: dict[str, ProvidedTool] = {}
    headers: dict[str, HeaderMap] = {}
    for position, entry in enumerate(entries):
        if len(tools) == MAX_TOOLS:
            log.warning("connection %s: the tools after the first %d are left out", connection, MAX_TOOLS)
            break
        try:
            tool = _tool(entry)
            if tool.name in tools:
                raise _Malformed("an earlier tool has its name")
        except (_Malformed, InvalidSchema, RecursionError) as error:
            named = entry.get("name") if isinstance(entry, dict) else None
            log.warning("connection %s: tool %d (%.100r) is left out: %.500s", connection, position + 1, named, error)
            continue
        known = earlier.tools.get(tool.name)
        tools[tool.name] = known if known is not None and known == tool else tool
        repeated = x_mcp_header_map(tool.input_schema)
        if repeated:
            headers[tool.name] = repeated
    return ToolListing(tools, headers)


class _Malformed(Exception):
    """A tool that cannot be offered."""


def _tool(entry: Any) -> ProvidedTool:
    if not isinstance(entry, dict):
        raise _Malformed("it is no object")
    name = entry.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_TOOL_NAME:
        raise _Malformed(f"its name is no text of 1 to {MAX_TOOL_NAME} characters")
    schema = _schema(entry, "inputSchema") or {"type": "object"}
    if schema.get("type", "object") != "object":
        raise _Malformed("its inputSchema describes no object")
    if (reason := find_invalid_x_mcp_header(schema)) is not None:
        raise _Malformed(f"its inputSchema has an invalid x-mcp-header: {reason}")
    annotations = entry.get("annotations")
    annotations = annotations if isinstance(annotations, dict) else {}
    hints: dict[str, Any] = {hint: annotations[hint] for hint in HINTS if isinstance(annotations.get(hint), bool)}
    title = entry.get("title") or annotations.get("title")
    if isinstance(title, str):
        hints["title"] = title
    description = entry.get("description")
    return ProvidedTool(
        name=name,
        description=description if isinstance(description, str) else "",
        input_schema=schema,
        output_schema=_schema(entry, "outputSchema"),
        annotations=hints or None,
    )


def _schema(entry: dict[str, Any], key: str) -> dict[str, Any] | None:
    schema = entry.get(key)
    if schema is None:
        return None
    if not isinstance(schema, dict):
        raise _Malformed(f"its {key} is no object")
    SchemaValidator(schema).compile()
    return schema


EVENTS: Final = "text/event-stream"
SESSION: Final = "mcp-session-id"
OF_TRANSFER: Final = frozenset({"content-encoding", "content-length", "transfer-encoding"})


class HttpTransport(httpx2.AsyncBaseTransport):
    """Sends requests with the client `inner`. The SDK ends a whole session if one of them fails; here it becomes an error
    answer."""

    def __init__(self, inner: httpx2.AsyncClient, link: Transport, limit: int) -> None:
        self._inner = inner
        self._link = link
        self._limit = limit

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer of the server, or one that tells why there is none."""
        if request.method == "DELETE":  # the end of a session, whose answer matters to nobody
            with anyio.move_on_after(CLOSE_PATIENCE):
                return await self._answer(request)
            return _refusal(BROKEN, "the server does not end the session")
        return await self._answer(request)

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.send(request, stream=True)
            is_open = False
            try:
                answer = await self._checked(request, response)
                is_open = answer is response
                return answer
            finally:
                if not is_open:
                    await response.aclose()
        except httpx2.TransportError as error:
            if request.method != "POST":
                raise  # the SDK tries it again
            code = UNREACHABLE if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout) else BROKEN
            return _refusal(code, f"{_reason(error)} ({request.url.copy_with(userinfo=b'', query=None)})")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()

    async def _checked(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        if response.status_code >= 400:
            return await self._failure(request, response)
        if response.status_code >= 300:
            return response
        packing = response.headers.get("content-encoding", "").strip().lower()
        if response.headers.get("content-type", "").lower().startswith(EVENTS) and packing in PACKINGS:
            return response
        try:
            body = await whole_body(response, self._limit)
        except BodyTooLarge:
            return _refusal(RESULT_TOO_LARGE, f"the answer has more than the {self._limit:,} bytes of a message")
        except ForeignPacking:
            return _refusal(INTERNAL_ERROR, f"the answer is compressed ({packing}), which nobody asked for")
        if request.method == "POST" and response.status_code != 202 and not _is_message(body):
            return _refusal(PARSE_ERROR, _no_message(response))
        return _whole(response, body)

    async def _failure(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """An HTTP error as an error of JSON-RPC, unless it is one already."""
        body = await failure_body(response)
        status = f"HTTP {response.status_code} {response.reason_phrase}".rstrip()
        if response.status_code == 404 and SESSION in request.headers:
            self._link.end("it knows the session no more")
            return _refusal(UNREACHABLE, f"{status}: it was probably started again. The next call begins a new session")
        try:
            msgspec.json.decode(body, type=_Refused)
        except msgspec.DecodeError:
            return _refusal(INTERNAL_ERROR, status, response.status_code)
        return _whole(response, body)


class _Error(msgspec.Struct):
    code: int
    message: str


class _Refused(msgspec.Struct):
    jsonrpc: str
    error: _Error


class _Answer(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    id: int | str | None
    result: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    error: _Error | msgspec.UnsetType = msgspec.UNSET


def _is_message(body: bytes) -> bool:
    """Whether a body is an answer of the protocol. The SDK logs a page of text for any other."""
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except (msgspec.DecodeError, RecursionError):
        return False
    return answer.error is not msgspec.UNSET or (answer.result is not msgspec.UNSET and answer.id is not None)


def _no_message(response: httpx2.Response) -> str:
    kind = response.headers.get("content-type", "").partition(";")[0].strip()[:MAX_QUOTED_NAME]
    return f"HTTP {response.status_code} with {kind or 'no content type'}, which is no message of the protocol"


def _whole(response: httpx2.Response, body: bytes) -> httpx2.Response:
    headers = {name: value for name, value in response.headers.items() if name not in OF_TRANSFER}
    return httpx2.Response(response.status_code, headers=headers, content=body)


def _refusal(code: int, message: str, status: int = 502) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return httpx2.Response(status, json=error)


def _reason(error: httpx2.TransportError) -> str:
    if isinstance(error, httpx2.ConnectTimeout):
        return "the address does not answer"
    if isinstance(error, httpx2.ConnectError):
        return f"the address cannot be reached: {error}"
    return f"the HTTP connection broke: {str(error) or type(error).__name__}"


def client(headers: Mapping[str, str], link: Transport, limit: int) -> httpx2.AsyncClient:
    """The client of one server, made in a thread: certificates are read. Proxies are those of the environment."""
    inner = new_client({}, silence=CONNECT_TIMEOUT, wait=CONNECT_TIMEOUT, trust_env=True)
    return httpx2.AsyncClient(
        headers={"user-agent": "rrext", **headers, "accept-encoding": "identity"},
        timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),  # the deadlines are those of the calls
        transport=HttpTransport(inner, link, limit),
        trust_env=False,
    )
