"""`POST /webhook`: the body of a request goes through a pipeline, and its result comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Final

import msgspec
from starlette.background import BackgroundTask
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from rrext.engine.interface.call import Caller
from rrext.engine.interface.engine import Engine
from rrext.engine.interface.operations import Close, Open, Write
from rrext.engine.interface.task_identity import TaskIdentity
from rrext.errors import FrameTooLarge, InvalidArguments, NotAuthenticated, RrextError, ShuttingDown, TooManyRequests
from rrext.faces.http.budget import Budgets
from rrext.faces.http.door import address_of, found_by_key
from rrext.faces.http.exchange import NOBODY, Exchange, new_exchange
from rrext.faces.http.failures import failure
from rrext.faces.http.tokens import UserTokens
from rrext.faces.ws.bearer import key_of
from rrext.limits import Limits

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
            keys.on_change.append(self._look_at_keys)

    @property
    def is_busy(self) -> bool:
        """Whether a request is unanswered."""
        return bool(self._works)

    def give_up(self) -> None:
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
            return await asyncio.shield(work)
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

    def _look_at_keys(self) -> None:
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

        async def look() -> None:
            nonlocal is_gone
            while (await request.receive())["type"] != "http.disconnect":
                pass
            is_gone = True
            work.cancel()

        looking = asyncio.get_running_loop().create_task(look())
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
