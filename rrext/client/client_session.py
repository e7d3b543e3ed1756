"""The life of a client's connection: start, `initialize`, loss, and an end that leaves no process behind."""

from __future__ import annotations

import logging
import weakref
from functools import partial
from typing import Any, Literal, TypeAlias

import anyio
import msgspec
from anyio.abc import TaskGroup

from rrext.client.channels import Channel
from rrext.client.endpoint import Body, Deadline, Endpoint, ErrorMaker
from rrext.client.event_loop import Slots
from rrext.client.updates import EventStream
from rrext.errors import RrextError, UnknownCommand
from rrext.limits import CLIENT_DEFAULTS, DEFAULTS, OPEN_PIPE_RESERVE
from rrext.transports.process import ChildProcess
from rrext.wire.connection import ClientConnection, client_closed, connection_lost, server_exited
from rrext.wire.framing import ContentLength

logger = logging.getLogger("rrext.client")

Dialect: TypeAlias = Literal["dap", "jsonrpc"]

RECEIVED = msgspec.structs.replace(DEFAULTS, max_frame=CLIENT_DEFAULTS.max_frame)
"""The limits of received messages."""


class ClientSession:
    """One connection to one server, from its first byte to its last. A child process is the session's own.

    `server` is the body of the answer to `initialize`; it is empty if the server does not know the command.
    """

    def __init__(self, channel: Channel, dialect: Dialect = "dap", key: str | None = None) -> None:
        self._channel = channel
        self._key = key
        self._process = channel if isinstance(channel, ChildProcess) else None
        self._stderr_ended = anyio.Event()
        self.closing = False
        """Whether `close` or `abort` was called."""
        self._streams: weakref.WeakSet[EventStream] = weakref.WeakSet()
        connection = ClientConnection(ContentLength(RECEIVED), dialect, RECEIVED)
        self.endpoint = Endpoint(channel, connection, explain=self._explain, on_event=self._on_event)
        self.server: Body = {}
        self._is_known = False
        self._drain = DEFAULTS.drain
        self._set_limits({})

    async def start(self, tasks: TaskGroup, introduction: Body) -> None:
        """Start the session's tasks and send `initialize`. Raises why there is no session, without an answer in time too."""
        tasks.start_soon(self._live, name="rrext client endpoint")
        if self._process is not None:
            tasks.start_soon(self._drain_stderr, self._process, name="rrext client stderr")
            tasks.start_soon(self._watch, self._process, name="rrext client watch")
        try:
            if self._key is not None:
                shown = {"auth": self._key, **{name: introduction[name] for name in ("clientName", "clientVersion")}}
                await self.endpoint.call("auth", shown, deadline=Deadline('"auth"', CLIENT_DEFAULTS.start))
            patience = Deadline('"initialize"', CLIENT_DEFAULTS.start)
            self.server = await self.endpoint.call("initialize", introduction, deadline=patience)
        except UnknownCommand:
            logger.debug("the server does not know initialize")
        self._is_known = True
        limits = self.server.get("limits")
        self._set_limits(limits if isinstance(limits, dict) else {})

    def _set_limits(self, limits: dict[Any, Any]) -> None:
        def number(name: str, default: float) -> float:
            value = limits.get(name)
            return value if isinstance(value, int | float) and value > 0 else default

        inflight = int(number("maxInflight", DEFAULTS.max_inflight))
        kept = inflight // OPEN_PIPE_RESERVE
        self.slots = Slots(max(1, inflight - kept))
        """Slots of `open` and of tool calls that borrow a pipe."""
        self.pipe_slots = Slots(max(1, kept))
        """Slots of tool calls on open pipes."""
        self.max_write = max(1, int(number("maxFrame", DEFAULTS.max_frame)) - CLIENT_DEFAULTS.envelope)
        """How many bytes one `write` may carry."""
        self._drain = number("drain", DEFAULTS.drain)

    def events(self, size: int) -> EventStream:
        """A stream of the events from now on."""
        stream = EventStream(size)
        self._streams.add(stream)
        return stream

    def _on_event(self, name: str, body: Body) -> None:
        for stream in self._streams:
            stream.put(name, body)

    async def _live(self) -> None:
        await self.endpoint.run()
        for stream in self._streams:
            stream.end(self.endpoint.loss())

    async def _drain_stderr(self, process: ChildProcess) -> None:
        await process.drain_stderr()
        self._stderr_ended.set()

    async def _watch(self, process: ChildProcess) -> None:
        await process.wait()
        self.endpoint.lose()

    async def _explain(self, defect: RrextError | None) -> ErrorMaker:
        if self.closing:
            return client_closed
        process = self._process
        if process is None:
            return partial(connection_lost, defect, is_new=not self._is_known)
        with anyio.move_on_after(CLIENT_DEFAULTS.loss):
            await process.wait()
            await self._stderr_ended.wait()
        return partial(server_exited, process.returncode, process.stderr_tail, defect)

    async def close(self) -> None:
        """End the server, after its running calls have finished or its drain limit has passed. Bounded, also when it is
        cancelled.
        """
        if self.closing:
            return
        self.closing = True
        try:
            patience = Deadline('"disconnect"', self._drain, margin=CLIENT_DEFAULTS.timeout_margin)
            await self.endpoint.call("disconnect", {}, deadline=patience)
        except RrextError as error:
            logger.debug("disconnect: %s", error)
        finally:
            await self.abort()

    async def abort(self) -> None:
        """End the connection, and the process, without asking. Bounded, and not interrupted by cancellation."""
        self.closing = True
        self.endpoint.shut()
        with anyio.CancelScope(shield=True):
            if self._process is not None:
                await self._process.stop()
                return
            with anyio.move_on_after(CLIENT_DEFAULTS.stop):
                await self._channel.aclose()

    def release(self) -> None:
        """Close the descriptors, once the session's tasks have ended."""
        if self._process is not None:
            self._process.close()

    def __repr__(self) -> str:
        return f"<ClientSession {self._channel!r} {self.endpoint!r}>"
