"""The requests of the status page: its files for anybody, its feed, pictures and `terminate` for users."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from rrext.engine.interface.call import Caller
from rrext.engine.interface.engine import Engine
from rrext.engine.interface.operations import GetPipeline, Terminate
from rrext.errors import FrameTooLarge, InvalidArguments, RrextError, ShuttingDown, TooManyRequests
from rrext.faces.http.door import address_of
from rrext.faces.http.failures import failure
from rrext.faces.page.assets import SAFETY, assets
from rrext.faces.page.feed import PageFeed
from rrext.faces.page.watch import Watch
from rrext.limits import KIB

MAX_PAGES: Final = 64
"""Status pages that are open at once; each has a connection, and a state to compare with."""
MAX_PAGES_OF_USER: Final = 12
"""Status pages of one user; browsers open six connections to a host, and people have more than one browser."""
MAX_PAGE_REQUEST: Final = 8 * KIB
"""Bytes of the body of a request of the page, which names a pipeline."""
PICTURE_WIDTH: Final = 110
"""Columns of a picture on the page: two thirds of a screen."""
MAX_DRAWINGS: Final = 2
"""Pictures that are drawn at once; the others wait. One of a thousand nodes takes seconds."""

FOLDER: Final = "/status/"
PRIVATE: Final = {**SAFETY, "Cache-Control": "no-store"}
FOREIGN: Final = PlainTextResponse("only the status page itself may ask for this", 403, SAFETY)
JSON: Final = "application/json"


class TaskRequest(msgspec.Struct, frozen=True):
    """The body of a request about one pipeline."""

    token: str


class StatusPage:
    """Answers the requests of pages. `caller` is the caller of their users, without the user; `user_of` finds that by the key.

    A key comes in the header `Authorization` of each request, from the memory of the page. A browser adds no such header
    by itself, so that no other page can act for the user; a cookie would go to every port of the host, and come from all.
    """

    def __init__(
        self, engine: Engine, caller: Caller, user_of: Callable[[Request], Awaitable[str]], on_answer: Callable[[], object]
    ) -> None:
        self._engine = engine
        self._caller = msgspec.structs.replace(caller, connection_id="page")
        self._user_of = user_of
        self._on_answer = on_answer
        self._watches: dict[str, Watch] = {}
        self._drawings = asyncio.Semaphore(MAX_DRAWINGS)
        self._calls = 0
        self._is_draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except ClientDisconnect:
            return
        except RrextError as error:
            answer = failure(error)
            answer.headers.update(PRIVATE)
        await answer(scope, receive, send)

    @property
    def is_busy(self) -> bool:
        """Whether a call is unanswered."""
        return self._calls > 0

    def drain(self) -> None:
        """End the feeds of all pages."""
        self._is_draining = True
        for watch in list(self._watches.values()):
            watch.end()

    async def _answer(self, request: Request) -> Response:
        path, method = request.url.path, request.method
        name = "index.html" if path == "/" else path.removeprefix(FOLDER)
        file, action = assets().get(name), {"picture": self._picture, "terminate": self._terminate}.get(name)
        if action is not None and method == "POST":
            return FOREIGN if _is_foreign(request) else await self._acted(request, action)
        is_feed = path == FOLDER + "feed"
        allowed = ("GET",) if is_feed else ("GET", "HEAD") if action is None else ("POST",)
        if method not in allowed:
            return PlainTextResponse("Method Not Allowed", 405, {**SAFETY, "Allow": ", ".join(allowed)})
        if is_feed:
            return FOREIGN if _is_foreign(request) else await self._feed(request)
        if file is None:
            return PlainTextResponse("Not Found", 404, SAFETY)
        return file.answer(request)

    async def _user(self, request: Request) -> Caller:
        """The caller of a request. Raises `NotAuthenticated` and `TooManyRequests`."""
        user = await self._user_of(request)
        user_id = user if self._caller.is_keyed else None
        return msgspec.structs.replace(self._caller, user_id=user_id, address=address_of(request.scope))

    async def _feed(self, request: Request) -> Response:
        caller = await self._user(request)
        if self._is_draining:
            raise ShuttingDown("the server ends and takes no new requests")
        user = caller.user_id or ""
        watch = self._watches.get(user)
        if sum(each.pages for each in self._watches.values()) >= MAX_PAGES or (
            watch is not None and watch.pages >= MAX_PAGES_OF_USER
        ):
            raise TooManyRequests("too many status pages are open; close some")
        if watch is None:
            loop = asyncio.get_running_loop()
            watch = self._watches[user] = Watch(self._engine, caller, loop, lambda: self._watches.pop(user, None))
        return PageFeed(watch)

    async def _acted(self, request: Request, action: Callable[[str, Caller], Any]) -> Response:
        """Do what a page asks for about one pipeline."""
        caller = await self._user(request)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:  # no form can send this
            raise InvalidArguments(f"the body must be {JSON}")
        if self._is_draining:
            raise ShuttingDown("the server ends and takes no new requests")
        self._calls += 1
        try:
            return await action(await _token(request), caller)
        finally:
            self._calls -= 1
            self._on_answer()

    async def _terminate(self, token: str, caller: Caller) -> Response:
        await self._engine.ask(Terminate(token=token), caller)
        return Response(b"{}", headers=PRIVATE, media_type=JSON)

    async def _picture(self, token: str, caller: Caller) -> Response:
        body, _ = await self._engine.ask(GetPipeline(token=token, outline=True), caller)
        async with self._drawings:
            svg = await asyncio.to_thread(_drawn, msgspec.json.decode(body)["outline"])
        return Response(svg, headers=PRIVATE, media_type="image/svg+xml")


def _drawn(outline: dict[str, Any]) -> str:
    """The picture of an outline, without a style sheet of its own."""
    picture = import_module("rrext.picture.outline").picture_of_outline(outline)
    return import_module("rrext.picture.svg").as_svg(picture, PICTURE_WIDTH, styled=False)


async def _token(request: Request) -> str:
    """The token in the body. Raises `InvalidArguments` and `FrameTooLarge`."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_PAGE_REQUEST:
            raise FrameTooLarge(f"the body is over {MAX_PAGE_REQUEST} bytes")
    try:
        return msgspec.json.decode(body, type=TaskRequest).token
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidArguments('expected {"token": "…"}') from None


def _is_foreign(request: Request) -> bool:
    """Whether a browser says that another page asks, be it one of another port of this host."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = request.headers.get("origin")
    return bool(origin) and urlsplit(origin).netloc != request.headers.get("host", "")
