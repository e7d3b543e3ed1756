"""Who may use a port: requests are let through by their host, their origin and their token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from anyio import CancelScope
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rrext.errors import NotAuthenticated, RrextError, ShuttingDown
from rrext.faces.http.address import Address
from rrext.faces.http.door import found_by_key
from rrext.faces.http.failures import failure
from rrext.faces.http.tokens import ShownToken, UserTokens

LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")

USER: Final = "rrext.user"
"""The member of a request's scope with the user of its token; None without tokens."""
TOKEN: Final = "rrext.token"
"""The member of a request's scope with its token."""


class TokenRequests:
    """The unanswered requests with a token. Those whose token stands for their user no more are cut off."""

    def __init__(self, tokens: UserTokens | None) -> None:
        self._tokens = tokens
        self._open: dict[CancelScope, ShownToken] = {}
        if tokens is not None:
            tokens.on_change.append(self._cut_off)

    async def serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, token: ShownToken | None) -> None:
        """Let an app answer a request with a token: 401 in its place, or the end of its stream, once the token is gone."""
        if token is None:
            await app(scope, receive, send)
            return
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                if any(name.lower() == b"content-length" for name, _ in message["headers"]):
                    self._open.pop(cut, None)  # the answer is known, and only has to be read
            await send(message)

        scope[TOKEN] = token
        with CancelScope() as cut:
            self._open[cut] = token
            try:
                await app(scope, receive, sent)
            finally:
                self._open.pop(cut, None)
        if not cut.cancelled_caught:
            return
        if begun:
            await send({"type": "http.response.body", "body": b""})
        else:
            await failure(NotAuthenticated("this token is known no more"))(scope, receive, send)

    def _cut_off(self) -> None:
        assert self._tokens is not None
        for cut, token in list(self._open.items()):
            if not self._tokens.holds(token):
                cut.cancel()


class Access:
    """Lets requests through to an app, and answers all others.

    A page of a foreign site may make its reader's browser send requests, also under a host name that it has pointed to this
    machine: a request that has an origin must have a known one, and at a local address it must name a known host. Every
    request must have a token, if there are any. `origins` are further known ones, `scheme://host[:port]`; `is_behind` says that
    clients come through a proxy, from other machines.
    """

    def __init__(
        self, app: ASGIApp, address: Address, tokens: UserTokens | None, origins: Sequence[str], *, is_behind: bool
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._requests = TokenRequests(tokens)
        self.is_draining = False
        """Whether the server ends: every request is answered with 503."""
        self._origins = frozenset(origins)
        names = {*LOCAL_NAMES, address.written_host, *(urlsplit(origin).hostname or "" for origin in origins)}
        self._hosts = frozenset(names) if address.is_local and not is_behind else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._refusal(scope) or await self._recognised(scope)
        if answer is not None:
            await answer(scope, receive, send)
            return
        await self._requests.serve(self._app, scope, receive, send, scope.get(TOKEN))

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a request under a foreign name or of a foreign page, and at the end of the server; None for another."""
        if self.is_draining:
            refusal = failure(ShuttingDown("the server ends and takes no new requests"))
            refusal.headers["Connection"] = "close"
            return refusal
        if self._hosts is not None and _host_of(_header(scope, b"host")) not in self._hosts:
            return PlainTextResponse("this host name is not served here; see --allow-origin", 421)
        origin = _header(scope, b"origin")
        if origin and not self.knows_origin(origin) and not self._is_own(origin, scope):
            return PlainTextResponse("this origin is not allowed; see --allow-origin", 403)
        return None

    async def _recognised(self, scope: Scope) -> Response | None:
        """The answer to a request without a known token; None for one with it, whose user is in its scope then."""
        scope[USER] = None
        if self._tokens is None:
            return None
        kind, _, token = _header(scope, b"authorization").partition(" ")
        try:
            found = await found_by_key(scope, token.strip() if kind.lower() == "bearer" else "", self._tokens.find)
        except RrextError as error:
            return failure(error)
        scope[USER], scope[TOKEN] = found.user, found
        return None

    def _is_own(self, origin: str, scope: Scope) -> bool:
        """Whether a page comes from this port, under a name that only its readers know: all requests have a key there.

        A page without TLS is not that of a port with it: who changes the page on its way must not reach the port.
        """
        page = urlsplit(origin)
        is_safe = page.scheme == "https" or scope["scheme"] in ("http", "ws")
        return self._hosts is None and is_safe and page.netloc == (_header(scope, b"host") or None)

    def knows_origin(self, origin: str) -> bool:
        """Whether pages of an origin may send requests."""
        if origin in self._origins:
            return True
        scheme, _, host = origin.partition("://")
        return self._hosts is not None and scheme in ("http", "https") and _host_of(host) in LOCAL_NAMES


def _header(scope: Any, name: bytes) -> str:
    """The value of a header; several are joined, which is no known value of any header here."""
    return ", ".join(value.decode("latin-1") for key, value in scope["headers"] if key == name)


def _host_of(text: str) -> str:
    """The host in `host[:port]`, in lower case."""
    name, colon, port = text.lower().rpartition(":")
    return name if colon and (port.isdecimal() or not port) else text.lower()
