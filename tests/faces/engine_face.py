"""The engine itself as a face: operations of plain data go in, and nothing but bytes of JSON comes out."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

import anyio
import msgspec
from face import Body, Face, Line, OnChunk, OnProgress

from rrext.engine.interface.call import AnswerSink, Call, Caller
from rrext.engine.interface.call import Feed as FeedProtocol
from rrext.engine.interface.operations import Operation
from rrext.engine.local_engine import LocalEngine
from rrext.errors import Cancelled, RrextError
from rrext.server.commands import caller_of, decode, operation_for
from rrext.wire.messages import Event, RequestId, Response

__all__ = ["EngineFace", "EngineLine"]


class Feed(FeedProtocol):
    """Progress and chunks of one call, as messages of the line."""

    def __init__(self, line: EngineLine, request_id: RequestId) -> None:
        self._line = line
        self._id = request_id
        self._ended = False

    def progress(self, value: float, total: float | None, message: str | None) -> None:
        body = {"request": self._id, "progress": value, "total": total, "message": message}
        self._tell("rrext_progress", {key: value for key, value in body.items() if value is not None})

    def chunk(self, index: int, chunk: bytes, tail: bytes | None) -> None:
        given = {"chunk": msgspec.json.decode(chunk)} if tail is None else {"data": tail}
        self._tell("rrext_chunk", {"request": self._id, "index": index, **given})

    def call_event(self, body: Body) -> None:
        self._tell("rrext_call", {"request": self._id, **body})

    async def ask(self, event: str, body: Body) -> bool:
        return False

    def _tell(self, name: str, body: Body) -> None:
        if not self._ended:
            self._line.bring(Event(name, body))

    def wait_for_room(self) -> None:
        """There always is."""

    async def room(self) -> None:
        """There always is."""

    def end(self) -> None:
        self._ended = True


class EngineLine(Line, AnswerSink):
    """Starts operations, as a session does, and brings what the engine answers to the loop."""

    def __init__(self, engine: LocalEngine, caller: Caller) -> None:
        super().__init__()
        self._engine = engine
        self._caller = caller
        self._loop = engine.host.loop
        self._numbers = count(1)
        self._calls: dict[RequestId, Call] = {}

    async def send(self, command: str, arguments: Mapping[str, Any] | None = None, tail: bytes | None = None) -> RequestId:
        number = next(self._numbers)
        given = dict(arguments or {})
        limits = self._engine.limits
        try:
            operation = plain(decode(given, operation_for(command, given), limits))
            caller = caller_of(self._caller, given.get("context"), limits)
        except RrextError as error:
            self.arrive(Response(number, command, None, error))
            return number
        call = Call(operation, self, caller, number, command, tail, received=self._engine.host.clock.now())
        call.feed = Feed(self, number)
        self._calls[number] = call
        self._engine.start(call)
        await anyio.lowlevel.checkpoint()
        return number

    async def cancel(self, request_id: RequestId, inner: int | None = None) -> None:
        call = self._calls.get(request_id)
        if inner is not None:
            assert call is not None
            assert call.work is not None
            call.work.stop_inner(inner)
        elif call is not None:
            call.cancel("cancelled", Cancelled())

    async def vanish(self) -> None:
        for call in list(self._calls.values()):
            call.cancel("disconnected", Cancelled("cancelled: the connection is gone"))
        self._engine.disconnect(self._caller.connection_id)

    # Answer

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None:
        decoded = msgspec.json.decode(body)
        if tail is not None:
            decoded["data"] = tail
        self._end(call, Response(call.request_id, call.command, decoded, None, tail))

    def fail(self, call: Call, error: RrextError) -> None:
        self._end(call, Response(call.request_id, call.command, None, error))

    def _end(self, call: Call, response: Response) -> None:
        assert response.id is not None
        assert call.feed is not None
        call.feed.end()
        self._calls.pop(response.id, None)
        self.bring(response)

    def bring(self, message: Response | Event) -> None:
        """From any thread."""
        self._loop.call_soon_threadsafe(self.arrive, message)


def plain(operation: Operation) -> Operation:
    """The operation after a journey as JSON: an engine may be in another process."""
    return msgspec.json.decode(msgspec.json.encode(operation), type=type(operation))


class EngineFace(Face):
    """Requests on a line of the engine's."""

    def __init__(self, line: EngineLine) -> None:
        self._line = line

    async def request(self, command: str, arguments: Mapping[str, Any] | None = None, tail: bytes | None = None) -> Body:
        given = {key: value for key, value in (arguments or {}).items() if value is not None}
        return await self._finish(await self._line.send(command, given, tail), None, None)

    async def tool(
        self,
        tool: str,
        input: Mapping[str, Any] | None = None,
        *,
        node_id: str = "",
        token: str | None = None,
        pipe_id: int | None = None,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        on_chunk: OnChunk | None = None,
        context: Mapping[str, Any] | None = None,
        meta: Any = None,
    ) -> Any:
        arguments: Body = {"subcommand": "tool", "tool": tool, "nodeId": node_id, "input": {} if input is None else input}
        optional = {"token": token, "pipe_id": pipe_id, "timeout": timeout, "context": context, "_meta": meta}
        arguments.update((key, value) for key, value in optional.items() if value is not None)
        arguments.update(progress=progress is not None, stream=on_chunk is not None)
        body = await self._finish(await self._line.send("rrext_process", arguments), progress, on_chunk)
        return body["result"] if "result" in body else body["data"]

    async def _finish(self, number: RequestId, progress: OnProgress | None, on_chunk: OnChunk | None) -> Body:
        """Deliver what a request tells until it is answered."""
        try:
            for index in count():
                message = await self._line.message(number, index)
                if isinstance(message, Response):
                    break
                self._deliver(message.body, progress, on_chunk)
        except BaseException:
            await self._line.cancel(number)
            raise
        if message.error is not None:
            raise message.error
        return message.body

    def _deliver(self, body: Body, progress: OnProgress | None, on_chunk: OnChunk | None) -> None:
        if progress is not None and "progress" in body:
            progress(body["progress"], body.get("total"), body.get("message"))
        if on_chunk is not None and "index" in body:
            on_chunk(body["chunk"] if "chunk" in body else body["data"])

    async def vanish(self) -> None:
        await self._line.vanish()
