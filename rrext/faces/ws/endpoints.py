"""The HTTP endpoints beside the WebSockets: life signs, metrics, the webhook, and the Model Context Protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from rrext.engine.interface.call import Caller
from rrext.errors import RrextError, ShuttingDown, Unavailable
from rrext.faces.http.access import USER, TokenRequests
from rrext.faces.http.budget import Budgets
from rrext.faces.http.door import arrival_of
from rrext.faces.http.failures import failure
from rrext.faces.http.tokens import UserTokens
from rrext.faces.ws.bearer import key_of, user_of
from rrext.faces.ws.metrics import metrics_text
from rrext.faces.ws.webhook import Webhook
from rrext.nodes.base.setup import missing_packages
from rrext.server.process import ServingProcess
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

    def give_up(self) -> None:
        """Answer the unanswered requests with an error."""
        self._webhook.give_up()
        for app, _ in self._mcp_apps.values():
            app.give_up()

    # endpoints

    async def _metrics(self, request: Request) -> Response:
        key = key_of(request)
        is_user = self._keys is not None and self._keys.find(key) is not None
        is_operator = not is_user and self._metrics_keys is not None and self._metrics_keys.find(key) is not None
        if is_operator:
            arrival_of(request.scope).knows_client()
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
