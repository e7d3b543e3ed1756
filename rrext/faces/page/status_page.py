"""The requests of the status page: its files for anybody; its feed of server-sent events, pictures and `terminate` for users.

The files are package data, which holds nothing of a server or a user. An event has what changed since the one before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.resources import files
from time import gmtime, strftime
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from rrext.engine.events.records import CallEnded
from rrext.engine.interface.call import Caller
from rrext.engine.interface.engine import Engine
from rrext.engine.interface.operations import GetPipeline, Terminate
from rrext.errors import FrameTooLarge, InvalidArguments, RrextError, ShuttingDown, TooManyRequests
from rrext.faces.http.door import address_of
from rrext.faces.http.failures import failure
from rrext.faces.page.traffic import Watch
from rrext.limits import KIB
from rrext.picture.svg import ROOT, style_sheet
from rrext.server.audit import line_of
from rrext.server.logs import log_tail

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

TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
NAMES: Final = ("index.html", "page.css", "main.js", "feed.js", "tasks.js", "picture.js", "elements.js", "icon.svg")
SAFETY: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""The headers of every answer of the page: nothing from elsewhere runs, is loaded, or frames it."""

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
    picture = import_module("rrext.picture.picture").picture_of_outline(outline)
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


class PageFeed(Response):
    """Sends the states of a watch while the browser reads: a slow one gets fewer of them, and always whole and new."""

    media_type = "text/event-stream"

    def __init__(self, watch: Watch) -> None:
        super().__init__(headers={**SAFETY, "Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._watch = watch
        self._told: dict[str, bytes] = {}
        self._failure = self._line = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send states until the browser or the server ends."""
        watch, number = self._watch, 0
        watch.enter()
        gone = asyncio.get_running_loop().create_task(_disconnect(receive), name="open status page")
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while not gone.done():
                await watch.after(number)
                if watch.is_ended:
                    await send({"type": "http.response.body", "body": b"event: end\ndata: {}\n\n"})
                    break
                number = watch.number
                body = b"data: %b\n\n" % msgspec.json.encode(self._news())
                await send({"type": "http.response.body", "body": body, "more_body": True})
        finally:
            gone.cancel()
            watch.leave()

    def _news(self) -> dict[str, Any]:
        """The sums, with the rows, failures and lines that are new to the page."""
        rows = self._watch.rows
        changed = [msgspec.Raw(b'{"key":%b,"row":%b}' % (msgspec.json.encode(key), row))
                   for key, row in rows.items() if self._told.get(key) != row]  # fmt: skip
        gone = [key for key in self._told if key not in rows]
        self._told = rows
        return {"head": self._watch.head, "rows": changed, "gone": gone, "failures": self._failures(), "lines": self._lines()}

    def _failures(self) -> list[Any]:
        found = self._watch.traffic.failures.after(self._failure)
        self._failure = found[-1][0] if found else self._failure
        return [failure for _, failure in found]

    def _lines(self) -> list[str]:
        """The new lines of the server's log, for a caller who is trusted; else those about calls of the user."""
        if self._watch.caller.trusted:
            logged = log_tail().after(self._line)
            self._line = logged[-1][0] if logged else self._line
            return [line.decode(errors="replace").rstrip("\n") for _, line in logged]
        ended = self._watch.traffic.lines.after(self._line)
        self._line = ended[-1][0] if ended else self._line
        return [_line(event) for _, event in ended]


def _line(event: CallEnded) -> str:
    return f"{strftime('%Y-%m-%dT%H:%M:%SZ', gmtime(event.time))} {line_of(event)}"


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Asset(msgspec.Struct, frozen=True):
    """A file of the page."""

    data: bytes
    media_type: str
    etag: str

    def answer(self, request: Request) -> Response:
        """The file, or the word that the browser has it already."""
        headers = {**SAFETY, "ETag": self.etag, "Cache-Control": "no-cache"}
        known = {etag.strip().removeprefix("W/") for etag in request.headers.get("if-none-match", "").split(",")}
        if self.etag in known:
            return Response(status_code=304, headers=headers)
        return Response(self.data, headers=headers, media_type=self.media_type)


@cache
def assets() -> dict[str, Asset]:
    """All files by name. `picture.css` has the rules of pictures, which may not stand in them here."""
    folder = files("rrext.faces.page") / "static"
    texts = {name: (folder / name).read_bytes() for name in NAMES} | {"picture.css": style_sheet(ROOT).encode()}
    return {
        name: Asset(data, TYPES[name.rpartition(".")[2]], f'"{sha256(data).hexdigest()[:32]}"') for name, data in texts.items()
    }
