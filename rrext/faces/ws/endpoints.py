"""The HTTP endpoints beside the WebSockets: life signs, metrics as Prometheus reads them, the webhook, which sends the body of
a request through a pipeline, and the Model Context Protocol.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.background import BackgroundTask
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from rrext.engine.interface.call import Caller
from rrext.engine.interface.engine import Engine
from rrext.engine.interface.operations import Close, Open, Write
from rrext.engine.interface.task_identity import TaskIdentity
from rrext.engine.interface.totals import BUCKETS, COMMANDS, Labels, Times
from rrext.errors import (
    FrameTooLarge,
    InvalidArguments,
    NotAuthenticated,
    RrextError,
    ShuttingDown,
    TooManyRequests,
    Unavailable,
)
from rrext.faces.http.access import USER, TokenRequests
from rrext.faces.http.budget import Budgets
from rrext.faces.http.door import address_of, arrival_of, found_by_key
from rrext.faces.http.exchange import NOBODY, Exchange, new_exchange
from rrext.faces.http.failures import failure
from rrext.faces.http.tokens import UserTokens
from rrext.faces.ws.authentication import key_of, user_of
from rrext.limits import Limits
from rrext.nodes.base.setup import missing_packages
from rrext.server.process import ServingProcess
from rrext.threads import shielded
from rrext.version import __version__

if TYPE_CHECKING:
    from rrext.faces.mcp.http_app import McpApp
    from rrext.faces.page.status_page import StatusPage


class Endpoints:
    """Answers requests over HTTP. `caller` is the caller without its user; `on_answer` is called after each call.

    `metrics_keys` has the key of the operator, for the metrics of users and pipelines.
    """

    def __init__(
        self,
        process: ServingProcess,
        caller: Caller,
        keys: UserTokens | None,
        budgets: Budgets,
        on_answer: Callable[[], object],
        metrics_keys: UserTokens | None = None,
    ) -> None:
        engine = process.engine
        self._engine = engine
        self._process = process
        self._caller = caller
        self._keys = keys
        self._metrics_keys = metrics_keys
        self._on_answer = on_answer
        self._budgets = budgets
        self._is_draining = False
        self._webhook = Webhook(engine, process.limits, caller, keys, budgets, on_answer)
        self._mcp_apps: dict[str, tuple[McpApp, asyncio.Task[None]]] = {}
        """The apps of users; none knows the tools of another user."""
        self._page: StatusPage | None = None
        self._requests = TokenRequests(keys)
        self._router = Router(
            [
                Route("/ping", _pong),
                Route("/version", _version),
                Route("/healthz", _health),
                Route("/metrics", self._metrics),
                Route("/webhook", self._webhook.answer, methods=["POST"]),
            ],
            redirect_slashes=False,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        shown = None if self._keys is None else self._keys.find(key_of(Request(scope)))
        await self._requests.serve(self._answer, scope, receive, send, shown)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/mcp":
            await self._model_context(scope, receive, send)
        elif scope["path"] == "/" or scope["path"].startswith("/status/"):
            await (self._page or await self._opened_page())(scope, receive, send)
        else:
            await self._router(scope, receive, send)

    @property
    def is_busy(self) -> bool:
        """Whether a request is unanswered."""
        is_page_busy = self._page is not None and self._page.is_busy
        return is_page_busy or self._webhook.is_busy or any(app.is_busy for app, _ in self._mcp_apps.values())

    def drain(self) -> None:
        """Refuse new calls."""
        self._is_draining = self._webhook.is_draining = True
        if self._page is not None:
            self._page.drain()
        for app, _ in self._mcp_apps.values():
            app.drain()

    def fail_all(self) -> None:
        """Answer the unanswered requests with an error."""
        self._webhook.fail_all()
        for app, _ in self._mcp_apps.values():
            app.fail_all()

    # endpoints

    async def _metrics(self, request: Request) -> Response:
        key = key_of(request)
        is_user = self._keys is not None and self._keys.find(key) is not None
        is_operator = not is_user and self._metrics_keys is not None and self._metrics_keys.find(key) is not None
        if is_operator:
            arrival_of(request.scope).accept_client()
        else:
            try:
                await user_of(request, self._keys)
            except RrextError as error:
                return failure(error)
        redact = self._process.host.redactor.text if is_operator else None
        text = await metrics_text(self._engine, self._process.peers, redact=redact)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def _opened_page(self) -> StatusPage:
        """The status page, which most servers never show."""
        module = await asyncio.to_thread(import_module, "rrext.faces.page.status_page")
        page = self._page
        if page is None:
            page = self._page = module.StatusPage(
                self._engine, self._caller, lambda request: user_of(request, self._keys), self._on_answer
            )
            if self._is_draining:
                page.drain()
        return page

    async def _model_context(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer by the app of the request's user."""
        answer: ASGIApp
        try:
            user = await user_of(Request(scope), self._keys)
            missing = missing_packages("mcp", "mcp")
            if missing is not None:
                raise Unavailable(missing)
            if self._is_draining:
                raise ShuttingDown("the server ends and takes no new requests")
            answer = await self._mcp_app(user)
            scope[USER] = user
        except RrextError as error:
            answer = failure(error)
        await answer(scope, receive, send)

    async def _mcp_app(self, user: str) -> Any:
        if user not in self._mcp_apps:
            module = await asyncio.to_thread(import_module, "rrext.faces.mcp.http_app")
            if user in self._mcp_apps:
                return self._mcp_apps[user][0]
            from rrext.faces.mcp.pipelines import ManyPipelines

            caller = msgspec.structs.replace(self._caller, user_id=user)
            engine = ManyPipelines(self._engine)
            app: McpApp = module.McpApp(engine, self._process.host, self._budgets, caller=caller, tokens=self._keys)
            app.on_answer = self._on_answer
            self._mcp_apps[user] = app, self._process.host.loop.create_task(app.run(), name=f"MCP of {user}")
        return self._mcp_apps[user][0]


async def _health(request: Request) -> Response:
    return PlainTextResponse("ok")  # a server that ends answers every request with 503


async def _pong(request: Request) -> Response:
    return JSONResponse({"pong": True})


async def _version(request: Request) -> Response:
    return JSONResponse({"name": "rrext", "version": __version__})


MAX_WEBHOOKS: Final = 32
"""Requests to the webhook at once: the body of each is in memory."""

MAX_PARTS: Final = 100
"""Files and fields of one request to the webhook."""

WEBHOOK_TIMEOUT: Final = 300.0
"""Seconds for one object of a webhook, from `open` to `close`; proxies in between wait no longer anyway."""

DEFAULT_TYPE: Final = "application/octet-stream"
WANTED: Final = "a public key of a running pipeline (pk_…, the `publicToken` of `execute` and `rrext_get_tasks`)"


class Part(msgspec.Struct):
    """An object of a request."""

    name: str | None
    mime_type: str
    data: bytes


class Webhook:
    """Answers the requests to the webhook. `caller` is the caller of their calls, without the user.

    A public key opens nothing, and its requests end, while the user of its pipeline has none of the `keys` any more.
    """

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        caller: Caller,
        keys: UserTokens | None,
        budgets: Budgets,
        on_answer: Callable[[], object],
    ) -> None:
        self._engine = engine
        self._limits = limits
        self._caller = caller
        self._budgets = budgets
        self._on_answer = on_answer
        self._numbers = count(1)
        self._works: dict[asyncio.Task[Response], TaskIdentity] = {}
        self.is_draining = False
        self._keys = keys
        if keys is not None:
            keys.on_change.append(self._check_keys)

    @property
    def is_busy(self) -> bool:
        """Whether a request is unanswered."""
        return bool(self._works)

    def fail_all(self) -> None:
        """Answer the unanswered requests with an error."""
        for work in self._works:
            work.cancel()

    async def answer(self, request: Request) -> Response:
        """The answer to a request; the work of a client that goes away is cancelled."""
        if self.is_draining:
            return failure(ShuttingDown("the server ends and takes no new requests"))
        if len(self._works) >= MAX_WEBHOOKS:
            return failure(TooManyRequests(f"{MAX_WEBHOOKS} requests are in work; try again soon"))
        try:
            task = await found_by_key(request.scope, key_of(request), self._task_with_key, WANTED)
        except RrextError as error:
            return failure(error)
        work = asyncio.get_running_loop().create_task(self._worked(request, task))
        self._works[work] = task
        try:
            return await shielded(work)
        except asyncio.CancelledError:
            if not work.cancelled():
                work.cancel()
                raise
            if self._is_gone(task):
                return failure(NotAuthenticated("the user of this pipeline has no key any more"))
            return failure(ShuttingDown("the server ended before this request did"))
        finally:
            del self._works[work]
            self._on_answer()

    def _task_with_key(self, public_token: str) -> TaskIdentity | None:
        task = self._engine.task_with_key(public_token)
        return None if task is None or self._is_gone(task) else task

    def _is_gone(self, task: TaskIdentity) -> bool:
        return self._keys is not None and self._keys.is_gone(task.owner)

    def _check_keys(self) -> None:
        for work, task in self._works.items():
            if self._is_gone(task):
                work.cancel()

    async def _worked(self, request: Request, task: TaskIdentity) -> Response:
        exchange = new_exchange(request.scope, self._budgets, task.owner or NOBODY)
        try:
            caller = msgspec.structs.replace(
                self._caller,
                connection_id=f"webhook-{next(self._numbers)}",
                user_id=task.owner,
                is_keyed=True,
                address=address_of(request.scope),
            )
            exchange.require_room()
            parts, is_form = await self._parts(request, None if task.owner is None else exchange)
            async with self._unless_gone(request, caller):
                results = [await self._sent(part, task.token, caller) for part in parts]
        except RrextError as error:
            return failure(error)
        except ClientDisconnect:
            return Response(status_code=499)
        finally:
            exchange.answered()
        body = msgspec.json.encode({"objects": results} if is_form else results[0])
        is_failed = any("error" in result for result in results)
        sent = BackgroundTask(exchange.answered)
        return Response(body, 500 if is_failed else 200, media_type="application/json", background=sent)

    async def _parts(self, request: Request, exchange: Exchange | None) -> tuple[list[Part], bool]:
        """The objects of a request, and whether it was a form. The body counts for an exchange if there is one: those of the
        server's own pipelines do not. Raises `FrameTooLarge`, `InvalidArguments` and `TooManyRequests`.
        """
        most, size, pieces = self._limits.max_frame, 0, []
        async for piece in request.stream():
            size += len(piece)
            if size > most:
                raise FrameTooLarge(f"the body is over {most} bytes (max_frame)", data={"limit": "max_frame", "maximum": most})
            pieces.append(piece)
            if exchange is not None:
                await exchange.grow(len(piece))
        if exchange is not None:
            exchange.is_unfinished = False
        body = b"".join(pieces)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower() or DEFAULT_TYPE
        if kind != "multipart/form-data":
            return [Part(request.query_params.get("name"), kind, body)], False
        return await _form_parts(request, body), True

    @asynccontextmanager
    async def _unless_gone(self, request: Request, caller: Caller) -> AsyncIterator[None]:
        """Cancel the work inside if the client goes away, and free what it opened in any case."""
        work = asyncio.current_task()
        assert work is not None
        is_gone = False

        async def watch_disconnect() -> None:
            nonlocal is_gone
            while (await request.receive())["type"] != "http.disconnect":
                pass
            is_gone = True
            work.cancel()

        looking = asyncio.get_running_loop().create_task(watch_disconnect())
        try:
            yield
        except asyncio.CancelledError:
            if is_gone:
                raise ClientDisconnect from None
            raise
        finally:
            looking.cancel()
            self._engine.disconnect(caller.connection_id)

    async def _sent(self, part: Part, token: str, caller: Caller) -> dict[str, Any]:
        """The result of one object."""
        ask, seconds = self._engine.ask, WEBHOOK_TIMEOUT
        described: dict[str, Any] = {"size": len(part.data)} | ({} if part.name is None else {"name": part.name})
        opened, _ = await ask(Open(token=token, object=described, mime_type=part.mime_type, timeout=seconds), caller)
        pipe_id: int = msgspec.json.decode(opened)["pipe_id"]
        failed: RrextError | None = None
        try:
            if part.data:
                await ask(Write(pipe_id=pipe_id, timeout=seconds), caller, data=part.data)
        except RrextError as error:
            failed = error  # the result tells it too, with what came before
        body, _ = await ask(Close(pipe_id=pipe_id, timeout=seconds), caller)
        result: dict[str, Any] = msgspec.json.decode(body)
        if failed is not None:
            result.setdefault("error", {"code": failed.code, "message": failed.message})
        return result


async def _form_parts(request: Request, body: bytes) -> list[Part]:
    """The files and fields of a form."""
    from starlette.formparsers import MultiPartException, MultiPartParser

    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    parser = MultiPartParser(
        request.headers,
        stream(),
        max_files=MAX_PARTS,
        max_fields=MAX_PARTS,
        max_part_size=max(1, len(body)),  # type: ignore[arg-type]
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise InvalidArguments(f"the form cannot be read: {error.message}") from None
    except (KeyError, UnicodeDecodeError):
        raise InvalidArguments("the form cannot be read: its boundary or its charset is wrong") from None
    parts: list[Part] = []
    try:
        for field, value in form.multi_items():
            if isinstance(value, UploadFile):
                parts.append(Part(value.filename or field, value.content_type or DEFAULT_TYPE, await value.read()))
            else:
                parts.append(Part(field, "text/plain", value.encode()))
    finally:
        await form.close()
    if not parts:
        raise InvalidArguments("the form has no file and no field")
    return parts


async def metrics_text(engine: Engine, connections: int, *, redact: Callable[[str], str] | None = None) -> str:
    """The exposition of all metrics, version 0.0.4 of the text format.

    With `redact`, which takes secrets out of the names of pipelines, also of those that are for the operator alone.
    """
    totals = await engine.totals()
    rows = (
        ("rrext_connections", "gauge", "Clients of WebSockets and of stdin.", connections),
        ("rrext_tasks", "gauge", "Pipelines that are loaded.", totals.tasks),
        ("rrext_pipes", "gauge", "Pipes that are open.", totals.pipes),
        ("rrext_running_calls", "gauge", "Calls that run.", totals.running),
        ("rrext_calls_total", "counter", "Calls that began.", totals.calls),
        ("rrext_objects_completed_total", "counter", "Objects whose pipe was closed without a failure.", totals.completed),
        ("rrext_objects_failed_total", "counter", "Objects that failed.", totals.failed),
    )
    lines = _head("rrext_info", "gauge", "The version of the server.")
    lines.append(f'rrext_info{{version="{__version__}"}} 1')
    for name, kind, meaning, value in rows:
        lines += [*_head(name, kind, meaning), f"{name} {value}"]
    if engine.times is not None:
        times, outcomes = engine.times.read()
        sums = dict.fromkeys(COMMANDS.values(), Times())
        for (_, _, command), each in times.items():
            sums[command] = sums[command].plus(each)
        meaning = "How long the calls of a command took, with their time in line."
        lines += _histogram("rrext_call_duration_seconds", meaning, {f'command="{name}"': sums[name] for name in sums})
        if redact is not None:
            lines += _of_users(times, outcomes, redact)
    return "\n".join([*lines, ""])


def _of_users(times: Mapping[Labels, Times], outcomes: Mapping[Labels, int], redact: Callable[[str], str]) -> Iterator[str]:
    shown_times: dict[str, Times] = {}
    shown_outcomes: Counter[str] = Counter()
    for labels, each in times.items():  # two names may look alike once their secrets are taken out
        shown = _labels(labels, "command", redact)
        shown_times[shown] = shown_times.get(shown, Times()).plus(each)
    for labels, number in outcomes.items():
        shown_outcomes[_labels(labels, "outcome", redact)] += number
    meaning = "How long the calls of a user to a pipeline took."
    yield from _histogram("rrext_user_call_duration_seconds", meaning, shown_times)
    yield from _head("rrext_user_calls_total", "counter", "The calls of a user to a pipeline that were answered.")
    yield from (f"rrext_user_calls_total{{{labels}}} {number}" for labels, number in shown_outcomes.items())


def _histogram(name: str, meaning: str, times: Mapping[str, Times]) -> Iterator[str]:
    yield from _head(name, "histogram", meaning)
    for labels, each in times.items():
        for bound, number in zip((*map(str, BUCKETS), "+Inf"), each.reached, strict=True):
            yield f'{name}_bucket{{{labels},le="{bound}"}} {number}'
        yield f"{name}_sum{{{labels}}} {each.seconds}"
        yield f"{name}_count{{{labels}}} {each.reached[-1]}"


def _head(name: str, kind: str, meaning: str) -> list[str]:
    return [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]


def _labels(labels: Labels, last: str, redact: Callable[[str], str]) -> str:
    names = ("user", "pipeline", last)
    return ",".join(f'{name}="{_escaped(redact(value))}"' for name, value in zip(names, labels, strict=True))


def _escaped(value: str) -> str:
    """A label's value: clients choose names with anything in them."""
    plain = value.encode("utf-8", "replace").decode()
    return plain.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
