"""The status page: its files for anybody; its feed of server-sent events, pictures and `terminate` for users; and its state for
one user: rows of pipelines with latencies, failures, lines of calls, and counts of nodes and edges.

The files are package data, which holds nothing of a server or a user. An event has what changed since the one before. The state
is made anew each second while a page is open. Events come from any thread, and of all users: those of others are left out.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.resources import files
from threading import RLock
from time import gmtime, strftime, time
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from rrext.columns import one_line
from rrext.engine.events.hub import Subscription
from rrext.engine.events.records import (
    CallEnded,
    CallEvent,
    CallStarted,
    EngineEvent,
    Filter,
    LaneIn,
    LaneOut,
    ObjectEnded,
    PipeOpened,
    TaskBegun,
    TaskEnded,
    TaskEvent,
    kind_of,
)
from rrext.engine.interface import operations
from rrext.engine.interface.call import Caller
from rrext.engine.interface.engine import Engine
from rrext.engine.interface.operations import GetPipeline, Terminate
from rrext.engine.tasks.registry import FINISHED_TASK_TIME
from rrext.errors import FrameTooLarge, InvalidArguments, RrextError, ShuttingDown, TaskError, TooManyRequests
from rrext.faces.http.door import address_of
from rrext.faces.http.failures import failure
from rrext.limits import KIB
from rrext.picture.svg import ROOT, style_sheet
from rrext.server.audit import line_of
from rrext.server.logs import Tail, log_tail
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


MAX_PAGE_TEXT: Final = 500
"""Characters of a name, a description or a message on the page; a row is sent whole whenever a number of it changes."""

KEPT_LATENCIES: Final = 1000
"""Calls of each pipeline whose latencies are kept: ten are slower than the 99th percentile."""

MAX_COUNTED: Final = 2000
"""Nodes and edges of a pipeline that are counted; a call may name nodes that do not exist."""

KEPT_FAILURES: Final = 100
"""Recent errors of a user."""

KEPT_LINES: Final = 200
"""Lines about recent calls of a user."""

KINDS: Final = (TaskBegun, TaskEnded, PipeOpened, ObjectEnded, LaneIn, LaneOut, CallStarted, CallEnded)
FILTER: Final = Filter(kinds=frozenset(map(kind_of, KINDS)))
"""The events that the traffic is made of, without data."""

TIMED: Final = frozenset(("tool", "call_tool", "open", "write", "close"))
"""The commands whose latencies are shown."""

FAILING: Final = frozenset(("tool", "call_tool", "open", "execute", "restart", "terminate"))
"""The commands whose failures are shown; that of a write is shown as the failure of its object."""

LOGGED: Final = TIMED | FAILING
MISSING: Final = frozenset(("node_not_found", "tool_not_found"))
"""The codes of calls that reached no node."""


class RecentError(msgspec.Struct, frozen=True):
    """A call or an object that failed."""

    time: float
    token: str | None
    where: str
    code: str
    message: str


class TaskTraffic:
    """The traffic of one pipeline. `version` grows with each change."""

    __slots__ = ("calls", "edges", "nodes", "objects", "seconds", "version")

    def __init__(self) -> None:
        self.version = 0
        self.objects = 0
        self.calls = 0
        self.seconds: deque[float] = deque(maxlen=KEPT_LATENCIES)
        self.nodes: dict[str, list[int]] = {}
        """Node → calls, those at work now, those that failed."""
        self.edges: dict[tuple[str, str, str], int] = {}
        """Kind, lane or calling tool (empty for a client), node at the end → payloads, or calls."""

    def enter(self, node: str, edge: tuple[str, str, str]) -> None:
        """Count a call of a node, which came along an edge."""
        counts = self._of(node)
        if counts is not None:
            counts[0] += 1
            counts[1] += 1
        if edge in self.edges or len(self.edges) < MAX_COUNTED:
            self.edges[edge] = self.edges.get(edge, 0) + 1

    def leave(self, node: str, *, is_failure: bool) -> None:
        """Note the end of a call of a node; of one that began before the first page nothing is known."""
        counts = self._of(node)
        if counts is not None and counts[1]:
            counts[1] -= 1
            counts[2] += is_failure

    def withdraw(self, node: str, edge: tuple[str, str, str]) -> None:
        """Take back a call of a node that does not exist; its caller misspelt it."""
        counts = self.nodes.get(node)
        if counts is not None:
            counts[0] -= 1
            counts[1] = max(0, counts[1] - 1)
            if not counts[0]:
                del self.nodes[node]
        if edge in self.edges:
            self.edges[edge] -= 1
            if not self.edges[edge]:
                del self.edges[edge]

    def _of(self, node: str) -> list[int] | None:
        if node not in self.nodes and len(self.nodes) >= MAX_COUNTED:
            return None
        return self.nodes.setdefault(node, [0, 0, 0])


class Traffic:
    """The traffic that a caller may see, since this was made."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._lock = RLock()  # a finalizer that runs inside of it may end a pipe
        self._running: dict[int, tuple[str, str]] = {}
        """Call → token and node, of calls at work."""
        self._tasks: dict[str, TaskTraffic] = {}
        self._seconds: deque[float] = deque(maxlen=KEPT_LATENCIES)
        self.failures: Tail[RecentError] = Tail(KEPT_FAILURES)
        self.lines: Tail[CallEnded] = Tail(KEPT_LINES)
        self.is_list_old = True
        """Whether pipelines began or ended since the last list."""

    def take(self, event: EngineEvent) -> None:
        """Count an event."""
        if not self._is_seen(event):
            return
        with self._lock:
            match event:
                case CallEnded():
                    self._call_ended(event)
                case CallStarted():
                    self._call_started(event)
                case LaneIn():
                    self._task(event).enter(event.node_id, ("data", event.lane, event.node_id))
                case LaneOut():
                    self._task(event).leave(event.node_id, is_failure=event.code is not None)
                case PipeOpened():
                    self._task(event).objects += 1
                case ObjectEnded():
                    if event.code is not None:
                        name = f"object {event.name[:MAX_PAGE_TEXT]}"
                        self._fail(event, name, event.code, event.message or "it was never closed")
                case TaskBegun() | TaskEnded():
                    self.is_list_old = True

    def _is_seen(self, event: Any) -> bool:
        caller, user = self._caller, event.user_id
        if caller.trusted or (user is None and isinstance(event, TaskEvent)):
            return True
        return user is not None and user == caller.user_id

    def _task(self, event: EngineEvent) -> TaskTraffic:
        return self._touched(event.token or "")

    def _touched(self, token: str) -> TaskTraffic:
        """The traffic of a pipeline, which changes now."""
        if token not in self._tasks:
            self._tasks[token] = TaskTraffic()
        self._tasks[token].version += 1
        return self._tasks[token]

    def _call_started(self, event: CallStarted) -> None:
        if event.node_id is not None:
            self._task(event).enter(event.node_id, _edge_of(event, event.node_id))
            self._running[event.call] = event.token or "", event.node_id

    def _call_ended(self, event: CallEnded) -> None:
        begun = self._running.pop(event.call, None)
        if event.command not in LOGGED:
            return
        node = event.node_id
        if begun is not None:
            traffic = self._touched(begun[0])
            if event.code in MISSING:
                traffic.withdraw(begun[1], _edge_of(event, begun[1]))
            else:
                traffic.leave(begun[1], is_failure=event.code is not None)
        elif node is not None and event.code not in MISSING:
            traffic = self._task(event)
            traffic.enter(node, _edge_of(event, node))
            traffic.leave(node, is_failure=event.code is not None)
        self.lines.add(event if event.result is msgspec.UNSET else msgspec.structs.replace(event, result=msgspec.UNSET))
        if event.callers:
            return  # a nested call: a failure counts once, with the outer call, if that fails too
        if event.command in TIMED:
            traffic = self._task(event)
            traffic.calls += 1
            traffic.seconds.append(event.seconds)
            self._seconds.append(event.seconds)
        if event.code is not None and event.command in FAILING:
            where = event.command if event.tool is None else event.tool if node is None else f"{node}.{event.tool}"
            self._fail(event, where, event.code, event.message or "")

    def _fail(self, event: EngineEvent, where: str, code: str, message: str) -> None:
        where, message = where[: 2 * MAX_PAGE_TEXT], message[:MAX_PAGE_TEXT]
        self.failures.add(RecentError(event.time, event.token, where, code, message))

    # for the page

    def latencies(self) -> list[float]:
        """The seconds of the last calls of all pipelines."""
        with self._lock:
            return list(self._seconds)

    def version(self, token: str) -> int:
        """A number that differs after each change of a pipeline's measures."""
        traffic = self._tasks.get(token)
        return 0 if traffic is None else traffic.version

    def measures(self, token: str) -> dict[str, Any]:
        """The members of a pipeline's row on the page."""
        with self._lock:
            traffic = self._tasks.get(token) or TaskTraffic()
            seconds = list(traffic.seconds)
            nodes = {one_line(node): list(counts) for node, counts in traffic.nodes.items()}
            edges = [[kind, one_line(name), one_line(node), number] for (kind, name, node), number in traffic.edges.items()]
        return {"objects": traffic.objects, "calls": traffic.calls, "nodes": nodes, "edges": edges, **percentiles(seconds)}

    def forget_all_but(self, tokens: frozenset[str]) -> None:
        """Forget the pipelines that are gone."""
        with self._lock:
            for token in self._tasks.keys() - tokens:
                del self._tasks[token]


def percentiles(seconds: list[float]) -> dict[str, float | None]:
    """The 50th and the 99th percentile by nearest rank, in seconds; None without calls."""
    ranked = sorted(seconds)
    return {
        name: ranked[max(0, -(-len(ranked) * share // 100) - 1)] if ranked else None
        for name, share in (("p50", 50), ("p99", 99))
    }


def _edge_of(event: CallEvent, node: str) -> tuple[str, str, str]:
    """The control edge of a call."""
    return ("control", event.callers[-1] if event.callers else "", node)


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
            "toolCalls": status["calls"],
            "rate": (measures["calls"] - calls) / (now - before) if now > before else 0.0,
            "completed": status["completedCount"],
            "failed": status["failedCount"],
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
        caller = self.caller
        clients = [client.caller for client in list(self._engine.clients.values())]
        return {
            "version": __version__,
            "user": caller.user_id or "",
            "isTrusted": caller.trusted,
            "serverBegan": self._server_began,
            "began": self._began,
            "clients": len([each for each in clients if caller.trusted or each.user_id == caller.user_id]),
            "tasks": len(rows),
            **{name: sum(row[name] for row in rows) for name in ("pipes", "rate", "completed", "failed")},
            **percentiles(self.traffic.latencies()),
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
