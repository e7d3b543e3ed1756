"""The status page: its files for anybody; its feed of server-sent events, pictures, times of tools and `terminate` for users;
and its state for one user: rows of pipelines, sums, failures, lines of calls. `Traffic` counts what these are made of.

The files are package data, which holds nothing of a server or a user. An event has what changed since the one before. The state
is made anew each second while a page is open. Its workbench is a client of the WebSocket like any other, and has nothing here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.resources import files
from time import gmtime, strftime, time
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from rrext.engine.events.hub import Subscription
from rrext.engine.events.records import CallEnded
from rrext.engine.interface import operations
from rrext.engine.interface.call import Caller
from rrext.engine.interface.engine import Engine
from rrext.engine.interface.operations import GetPipeline, Terminate
from rrext.engine.tasks.registry import FINISHED_TASK_TIME
from rrext.errors import FrameTooLarge, InvalidArguments, RrextError, ShuttingDown, TaskError, TooManyRequests
from rrext.faces.http.door import address_of
from rrext.faces.http.failures import failure
from rrext.faces.page.traffic import FILTER, MAX_PAGE_TEXT, STEP, STEPS, Traffic
from rrext.limits import KIB
from rrext.picture.svg import ROOT, style_sheet
from rrext.server.journal.audit import line_of
from rrext.server.journal.logs import log_tail
from rrext.version import __version__

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
NAMES: Final = (
    *("index.html", "page.css", "icon.svg", "main.js", "feed.js", "tasks.js", "picture.js", "times.js", "elements.js"),
    *("bench/bench.css", "bench/bench.js", "bench/panel.js", "bench/results.js", "bench/calls.js", "bench/form.js"),
    *("bench/fields.js", "bench/schema.js", "bench/json.js"),
)
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
        actions = {"picture": self._picture, "terminate": self._terminate, "tools": self._tools}
        file, action = assets().get(name), actions.get(name)
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

    async def _tools(self, token: str, caller: Caller) -> Response:
        """The times of those tools of a pipeline that the user has called since the first of their pages was opened."""
        watch, now = self._watches.get(caller.user_id or ""), time()
        tools = [] if watch is None else watch.traffic.tools(token, now)
        body = msgspec.json.encode({"step": STEP, "steps": STEPS, "tools": tools})
        return Response(body, headers=PRIVATE, media_type=JSON)

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


PAGE_INTERVAL: Final = 1.0
"""Seconds between two states of a status page: as fast as numbers can be read."""

MAX_PAGE_INTERVAL: Final = 8.0
"""Seconds between two states at most; pages take a server that says nothing for longer for lost."""

PAGE_SHARE: Final = 0.05
"""The share of its time that the server spends on the states of one user; with many pipelines they come more rarely."""

STATUS_TIMEOUT: Final = 2.0
"""Seconds for the status of one pipeline; the page shows the one before if it takes longer."""

SHOWN_ERRORS: Final = 10
"""Errors and warnings of a pipeline itself on the page; its status has all that are kept."""

MAX_ENDED: Final = 50
"""Pipelines on the page that have ended."""

ENDS: Final = {5: "Completed", 6: "Cancelled"}
"""The states of pipelines that have ended. One in the first state with another exit code than 0, or none, has failed."""

log: Final = logging.getLogger("rrext.server")


class Watch:
    """The latest state of the page of one user. It looks at nothing while `pages` is 0.

    `rows` has the encoded row of each pipeline by its key, `head` the sums. `on_end` is called when the last page has left.
    """

    def __init__(self, engine: Engine, caller: Caller, loop: asyncio.AbstractEventLoop, on_end: Callable[[], object]) -> None:
        self._engine = engine
        self._loop = loop
        self._on_end = on_end
        self._subscription: Subscription | None = None
        self._looking: asyncio.Task[None] | None = None
        self._listed: dict[str, dict[str, Any]] = {}
        self._latest: dict[str, dict[str, Any]] = {}
        self._ended: dict[str, dict[str, Any]] = {}
        self._measured: dict[str, tuple[int, dict[str, Any]]] = {}
        self._calls: dict[str, tuple[float, int]] = {}
        self._server_began = 0.0
        self._began = time()
        self._changed = asyncio.Event()
        self.caller = caller
        self.traffic = Traffic(caller)
        self.pages = 0
        self.number = 0
        self.is_ended = False
        self.head: dict[str, Any] = {}
        self.rows: dict[str, bytes] = {}

    def enter(self) -> None:
        """Begin to look, for a page more."""
        self.pages += 1
        if self._looking is None:
            self._subscription = self._engine.subscribe(FILTER, self.traffic.take)
            self._looking = self._loop.create_task(self._poll(), name="status page")

    def leave(self) -> None:
        """End, if this was the last page."""
        self.pages -= 1
        if not self.pages:
            self.end()

    def end(self) -> None:
        """Look no more; the pages get no further state."""
        if self.is_ended:
            return
        self.is_ended = True
        if self._subscription is not None:
            self._subscription.cancel()
        if self._looking is not None:
            self._looking.cancel()
        self._changed.set()
        self._on_end()

    async def after(self, number: int) -> None:
        """Wait for a state after that of a number, or for the end."""
        while self.number <= number and not self.is_ended:
            await self._changed.wait()

    async def _poll(self) -> None:
        while True:
            began = self._loop.time()
            try:
                await self._take_state(began)
            except RrextError as error:
                self.traffic.is_list_old = True
                log.info("the status page shows an old state: %s", error.message)
            except Exception:
                log.exception("a bug of rrext, in the status page")
            self.number += 1
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
            pause = (self._loop.time() - began) / PAGE_SHARE
            await asyncio.sleep(min(max(PAGE_INTERVAL, pause), MAX_PAGE_INTERVAL))

    async def _take_state(self, now: float) -> None:
        if self.traffic.is_list_old:
            self.traffic.is_list_old = False
            await self._list()
        rows: dict[str, dict[str, Any]] = {}
        for token, listed in list(self._listed.items()):
            try:
                status = await self._ask(operations.TaskStatus(token=token, timeout=STATUS_TIMEOUT))
            except TaskError:
                del self._listed[token]  # it ended, and an event will say so
            except RrextError as error:
                log.info("the status page shows an old status of a pipeline: %s", error.message)
                if token in self._latest:
                    rows[token] = self._latest[token]
            else:
                rows[token] = self._row(token, listed, status, now)
        self._latest = rows.copy()
        self._measured = {token: kept for token, kept in self._measured.items() if token in rows}
        self._calls = {token: kept for token, kept in self._calls.items() if token in rows}
        self.traffic.forget_all_but(frozenset(self._listed))
        self.head = self._head(list(rows.values()))
        until = time() - FINISHED_TASK_TIME
        rows |= {key: row for key, row in self._ended.items() if row["ended"] > until}
        self.rows = {key: msgspec.json.encode(row) for key, row in rows.items()}

    async def _list(self) -> None:
        """Learn which pipelines run, and which ended a short while ago."""
        listed: dict[str, dict[str, Any]] = {}
        for task in (await self._ask(operations.ListTasks()))["tasks"]:
            is_own = bool(task["pipeline"])  # others are the server's, and not this user's to end
            if is_own or task["token"] not in listed:  # a user's own name hides that of the server's
                listed[task["token"]] = {name: task[name][:MAX_PAGE_TEXT] for name in ("name", "description")} | {"own": is_own}
        board = await self._ask(operations.Dashboard())
        ended = [row for row in board["tasks"] if row["completed"]]
        self._listed = listed
        self._server_began = time() - board["overview"]["serverUptime"]
        self._ended = {f"{row['id']} {row['startTime']}": ended_row(row) for row in ended[-MAX_ENDED:]}

    async def _ask(self, operation: operations.Operation) -> Any:
        body, _ = await self._engine.ask(operation, self.caller)
        return msgspec.json.decode(body)

    def _row(self, token: str, listed: dict[str, Any], status: dict[str, Any], now: float) -> dict[str, Any]:
        version = self.traffic.version(token)
        known = self._measured.get(token)
        if known is None or known[0] != version:
            known = self._measured[token] = version, self.traffic.measures(token)
        measures = known[1]
        before, calls = self._calls.get(token, (now, 0))
        self._calls[token] = now, measures["calls"]
        return {
            **listed,
            "token": token,
            "project": status["project_id"],
            "source": status["source"],
            "state": status["status"],
            "began": status["startTime"],
            "pipes": status["pipeflow"]["totalPipes"],
            "rate": (measures["calls"] - calls) / (now - before) if now > before else 0.0,
            "threads": status["threads"],
            "leftBehind": sum(status["leftBehind"].values()),
            "loopBlocks": status["loopBlocks"]["count"],
            "unavailable": [{**node, "reason": node["reason"][:MAX_PAGE_TEXT]} for node in status["unavailable"]],
            "warnings": [text[:MAX_PAGE_TEXT] for text in status["warnings"][-SHOWN_ERRORS:]],
            "errors": [text[:MAX_PAGE_TEXT] for text in status["errors"][-SHOWN_ERRORS:]],
            **measures,
        }

    def _head(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """The sums, and what is known of the server."""
        caller, now = self.caller, time()
        clients = [client.caller for client in list(self._engine.clients.values())]
        return {
            "version": __version__,
            "user": caller.user_id or "",
            "isTrusted": caller.trusted,
            "now": now,
            "serverBegan": self._server_began,
            "began": self._began,
            "clients": len([each for each in clients if caller.trusted or each.user_id == caller.user_id]),
            "tasks": len(rows),
            **{name: sum(row[name] for row in rows) for name in ("pipes", "rate")},
            **self.traffic.sums(),
        }


def ended_row(row: dict[str, Any]) -> dict[str, Any]:
    """The row of a pipeline that has ended, by that of the dashboard."""
    return {
        "name": row["name"].removesuffix(f".{row['source']}")[:MAX_PAGE_TEXT],
        "state": "Failed" if row["state"] == 5 and row["exitCode"] != 0 else ENDS.get(row["state"], "Ended"),
        "began": row["startTime"],
        "ended": row["endTime"] or 0,
        "exitCode": row["exitCode"],
        "source": row["source"],
        "project": row["projectId"],
        "completed": row["completedCount"],
        "failed": row["totalCount"] - row["completedCount"],
    }
