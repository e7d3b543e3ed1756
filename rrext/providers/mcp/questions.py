"""Questions of an MCP server to the user of a call (elicitation), which go to the caller of that call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import anyio

from rrext.errors import Unavailable
from rrext.tools.context import ToolContext

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
        """What the caller can do, as capabilities of a client of the protocol."""
        modes = self._ctx.question_modes
        return {"elicitation": {mode: {} for mode in modes}} if modes else {}

    @property
    def caller(self) -> object:
        """What is equal for the requests of one caller."""
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
