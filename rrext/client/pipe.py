"""A pipe: one object on its way through a pipeline, written piece by piece."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TypeAlias, Unpack

from rrext.client.client_session import ClientSession
from rrext.client.endpoint import Body
from rrext.client.event_loop import Slots
from rrext.client.tool_call import FeedOptions, MakeUpdates, deadline_of, result_of, tool_arguments, tool_call
from rrext.errors import ClientError, PipeNotOpen, RrextError, UsageError, error_from_wire
from rrext.limits import CLIENT_DEFAULTS

logger = logging.getLogger("rrext.client")

Data: TypeAlias = bytes | bytearray | memoryview | str


class Pipe:
    """One open pipe of a client: `async with client.pipe() as pipe: await pipe.write(data)`, then `pipe.result`.

    Leaving the block closes the pipe. If the block failed, its own error comes out; an rrext error then has what the
    pipeline had produced as `.result`.
    """

    __slots__ = ("_arguments", "_closed", "_connect", "_session", "_slot", "_updates", "pipe_id", "result")

    def __init__(self, connect: Callable[[], ClientSession], arguments: Body, updates: MakeUpdates | None = None) -> None:
        """Made by `Client.pipe`; `arguments` are those of `open`, `updates` makes those of each write and of the close."""
        self._connect = connect
        self._updates = updates
        self._arguments = arguments
        self._session: ClientSession | None = None
        self._slot = Slots(1)
        self._closed = False
        self.pipe_id: int | None = None
        """The server's number of this pipe, once it is open."""
        self.result: Body | None = None
        """The pipeline's result, once the pipe is closed."""

    async def open(self, *, timeout: float | None = None) -> Pipe:
        """Open the pipe; waits while all pipes of the pipeline are in use. When it is cancelled or late, it is undone."""
        if self._session is not None:
            raise UsageError("A pipe is opened once: make another with client.pipe().")
        session = self._session = self._connect()
        arguments = {**self._arguments, "subcommand": "open"}
        body = await self._process(session, arguments, timeout, opening=True)
        self.pipe_id = _pipe_id(body)
        return self

    async def write(self, data: Data, *, timeout: float | None = None) -> None:
        """Write bytes, or text as UTF-8, and return when every receiver in the pipeline has returned.

        Concurrent writes happen one after the other, in the order in which they were made. More than one frame holds
        (`max_frame`, 16 MiB) goes in several writes; `timeout` is for each of them.
        """
        session, pipe_id = self._opened()
        pieces = pieces_of_data(data, session.max_write)
        await self._take_slot(session)
        try:
            self._opened()
            for piece in pieces:
                await self._process(session, {"subcommand": "write", "pipe_id": pipe_id}, timeout, piece)
        finally:
            self._slot.give()

    async def tool(
        self,
        *,
        tool: str,
        node_id: str = "",
        unique: bool = False,
        input: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        meta: Any = None,
        **options: Unpack[FeedOptions],
    ) -> Any:
        """Call a tool on this pipe's own node objects, in the context of its `open`; else like `Client.tool`."""
        session, pipe_id = self._opened()
        arguments = tool_arguments(tool, node_id, input, self._arguments.get("token"), pipe_id, None, meta, unique=unique)
        call = tool_call(session, arguments, timeout, options)
        return result_of(await call, options)

    async def close(self, *, timeout: float | None = None) -> Body:
        """End the object and return the pipeline's result. Closing again, or unopened, sends nothing.

        Raises the object's failure, if it failed, with the partial result as `.result`.
        """
        session, pipe_id = self._session, self.pipe_id
        if session is None or pipe_id is None:
            return {}
        try:
            await self._take_slot(session)
            try:
                if self._closed:
                    return self.result or {}
                self._closed = True
                self.result = await self._process(session, {"subcommand": "close", "pipe_id": pipe_id}, timeout, final=True)
            finally:
                self._slot.give()
        except BaseException:
            if not self._closed:  # cancelled before it had the slot
                self._post_close(pipe_id)
            raise
        error = self.result.get("error")
        if error:
            raise _failure(error, self.result)
        return self.result

    async def __aenter__(self) -> Pipe:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        elif isinstance(error, Exception):
            await self._close_after(error)
        elif not self._closed and self.pipe_id is not None:  # cancelled: nobody waits for the result
            self._post_close(self.pipe_id)

    async def _close_after(self, error: Exception) -> None:
        try:
            await self.close()
        except RrextError as failure:
            logger.debug("closing %r after %r: %s", self, error, failure)
        if isinstance(error, RrextError) and error.result is None:
            error.result = self.result

    def _post_close(self, pipe_id: int) -> None:
        self._closed = True
        if self._session is not None:
            self._session.endpoint.post("rrext_process", self._about({"subcommand": "close", "pipe_id": pipe_id}, None))

    async def _process(
        self,
        session: ClientSession,
        arguments: Body,
        timeout: float | None,
        tail: memoryview | None = None,
        *,
        opening: bool = False,
        final: bool = False,
    ) -> Body:
        updates = None if opening or self._updates is None else self._updates(session, arguments)
        return await session.endpoint.call(
            "rrext_process",
            self._about(arguments, timeout),
            tail,
            updates=updates,
            slots=session.slots if opening else None,
            deadline=deadline_of(f'"{arguments["subcommand"]}"', timeout),
            on_late=(lambda body: self._post_close(_pipe_id(body))) if opening else None,
            final=final,
        )

    def _about(self, arguments: Body, timeout: float | None) -> Body:
        token = self._arguments.get("token")
        if token is not None:
            arguments["token"] = token
        if timeout is not None:
            arguments["timeout"] = timeout
        return arguments

    async def _take_slot(self, session: ClientSession) -> None:
        if not self._slot.take_now():
            await self._slot.take(session.endpoint.waiter())

    def _opened(self) -> tuple[ClientSession, int]:
        if self._session is None or self.pipe_id is None:
            raise PipeNotOpen("Pipe is not open")
        if self._closed:
            raise PipeNotOpen(f"Pipe {self.pipe_id} is not open")
        return self._session, self.pipe_id

    def __repr__(self) -> str:
        state = "closed" if self._closed else "new" if self.pipe_id is None else "open"
        return f"<Pipe {self.pipe_id} {state}>"


def _pipe_id(body: Body) -> int:
    number = body.get("pipe_id")
    if not isinstance(number, int):
        raise ClientError(f"The server opened a pipe without a pipe_id: {body!r}")
    return number


def pieces_of_data(data: Data, most: int) -> list[memoryview]:
    """The data whole if one frame holds it, else in pieces of 1 MiB; no data are one empty piece."""
    content = memoryview(data.encode() if isinstance(data, str) else data).cast("B")
    if len(content) <= most:
        return [content]
    step = min(most, CLIENT_DEFAULTS.write_chunk)
    return [content[start : start + step] for start in range(0, len(content), step)]


def _failure(error: Any, result: Body) -> RrextError:
    """The exception for the `error` of a `close` body."""
    known: dict[str, Any] = error if isinstance(error, dict) else {"message": str(error)}
    failure = error_from_wire(
        known.get("code") or "pipe_failed", known.get("message") or "The object failed.", known.get("hint"), known.get("data")
    )
    failure.result = result
    return failure
