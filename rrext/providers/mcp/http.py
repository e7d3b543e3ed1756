"""The HTTP client below an MCP server's Streamable HTTP: every failure is the answer of one request, of bounded size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import anyio
import httpx2
import msgspec
from mcp_types import INTERNAL_ERROR, PARSE_ERROR

from rrext.http import CONNECT_TIMEOUT, PACKINGS, BodyTooLarge, ForeignPacking, failure_body, new_client, whole_body
from rrext.limits import MAX_QUOTED_NAME
from rrext.providers.mcp.stdio import CLOSE_PATIENCE
from rrext.providers.mcp.transport import BROKEN, RESULT_TOO_LARGE, UNREACHABLE, Transport

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
