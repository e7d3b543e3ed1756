"""A face: one connection to an engine, and the same requests whatever lies in between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias

import anyio
import msgspec

from rrext.errors import RrextError
from rrext.wire.messages import Event, RequestId, Response

__all__ = ["SHARED", "WAYS", "WIRES", "Body", "Face", "Line", "OnChunk", "OnProgress", "Way", "parked"]

Body: TypeAlias = dict[str, Any]
OnProgress: TypeAlias = Callable[[float, float | None, str | None], object]
OnChunk: TypeAlias = Callable[[Any], object]


class Way(msgspec.Struct, frozen=True):
    """What lies between caller and engine. The engine itself has no dialect."""

    kind: Literal["engine", "memory", "bytes", "spawned", "unix", "ws", "process", "hosts"]
    dialect: Literal["dap", "jsonrpc"] = "dap"

    def __str__(self) -> str:
        return self.kind if self.kind == "engine" else f"{self.kind}-{self.dialect}"


WIRES = [
    Way("memory", "dap"),
    Way("bytes", "jsonrpc"),
    Way("spawned", "dap"),
    Way("unix", "jsonrpc"),
    Way("ws", "dap"),
    Way("process", "dap"),
    Way("hosts", "dap"),
]
"""Each has one dialect: both are spoken by the same session."""
WAYS = [Way("engine"), *WIRES]
SHARED = [way for way in WAYS if way.kind not in ("spawned", "unix", "ws", "process", "hosts")]
"""Those whose engine several connections can reach, and whose clock a test can move."""


class Face:
    """One connection. Failures raise `RrextError`; who is cancelled while it waits cancels the request."""

    async def request(self, command: str, arguments: Mapping[str, Any] | None = None, tail: bytes | None = None) -> Body:
        """The body of the answer to any command. Arguments that are None are left out."""
        raise NotImplementedError

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
        """The result of a tool: a JSON value, or bytes."""
        raise NotImplementedError

    async def vanish(self) -> None:
        """Be gone from one moment to the next, without a word."""
        raise NotImplementedError

    # what is made of these

    async def process(self, subcommand: str, tail: bytes | None = None, **arguments: Any) -> Body:
        """One subcommand of `rrext_process`."""
        return await self.request("rrext_process", {"subcommand": subcommand, **arguments}, tail)

    async def open(self, **arguments: Any) -> int:
        """A new pipe."""
        return (await self.process("open", **arguments))["pipe_id"]

    async def write(self, pipe_id: int, data: bytes | str) -> None:
        """Text as `data`, bytes as a raw tail."""
        if isinstance(data, str):
            assert await self.process("write", pipe_id=pipe_id, data=data) == {}
        else:
            assert await self.process("write", data, pipe_id=pipe_id) == {}

    async def close(self, pipe_id: int) -> Body:
        """The result body."""
        return await self.process("close", pipe_id=pipe_id)

    async def send(self, *data: bytes | str, **arguments: Any) -> Body:
        """One object from open to close."""
        pipe_id = await self.open(**arguments)
        for piece in data:
            await self.write(pipe_id, piece)
        return await self.close(pipe_id)

    async def names(self, **arguments: Any) -> set[str]:
        """The names of the tools that may be called now."""
        return {tool["name"] for tool in (await self.request("tools", arguments))["tools"]}

    async def failure(self, command: str, arguments: Mapping[str, Any] | None = None, tail: bytes | None = None) -> RrextError:
        """The error of a request that fails."""
        try:
            body = await self.request(command, arguments, tail)
        except RrextError as error:
            return error
        raise AssertionError(f"{command} {arguments} did not fail: {body}")

    async def tool_failure(self, tool: str, input: Mapping[str, Any] | None = None, **more: Any) -> RrextError:
        """The error of a tool call that fails."""
        try:
            result = await self.tool(tool, input, **more)
        except RrextError as error:
            return error
        raise AssertionError(f"{tool} {input} did not fail: {result!r}")

    async def noted(self, key: str, *entries: Any, token: str = "face") -> None:
        """Return when the journal of that key has exactly these entries."""
        with anyio.fail_after(10):
            while await self.tool("journal", {"key": key}, token=token) != list(entries):
                await anyio.lowlevel.checkpoint()


class Line:
    """A connection whose requests have ids, and every message that came back, in order."""

    def __init__(self) -> None:
        self.messages: list[Response | Event] = []
        self._by_request: dict[RequestId | None, list[Response | Event]] = {}
        self._news = anyio.Event()

    async def send(self, command: str, arguments: Mapping[str, Any] | None = None, tail: bytes | None = None) -> RequestId:
        """Send a request and return its id."""
        raise NotImplementedError

    async def cancel(self, request_id: RequestId, inner: int | None = None) -> None:
        """Ask for the end of a request, or of a call within it."""
        raise NotImplementedError

    async def vanish(self) -> None:
        """Be gone from one moment to the next."""
        raise NotImplementedError

    async def call(self, tool: str, input: Mapping[str, Any] | None = None, **arguments: Any) -> RequestId:
        """Send a tool call and return its id."""
        return await self.send("rrext_process", {"subcommand": "tool", "tool": tool, "input": input or {}, **arguments})

    def of(self, request_id: RequestId | None) -> list[Response | Event]:
        """All messages about a request, in order. None: about none that the server could tell."""
        return self._by_request.setdefault(request_id, [])

    def answers(self, request_id: RequestId | None) -> list[Response]:
        """All answers to a request."""
        return [message for message in self.of(request_id) if isinstance(message, Response)]

    def events(self, request_id: RequestId) -> list[Body]:
        """The bodies of all events of a request."""
        return [message.body for message in self.of(request_id) if isinstance(message, Event)]

    async def until(self, arrived: Callable[[], Any]) -> Any:
        """What `arrived` returns, once it is true of the messages that came."""
        with anyio.fail_after(20):
            while not (found := arrived()):
                await self._news.wait()
        return found

    async def message(self, request_id: RequestId, index: int) -> Response | Event:
        """The message of that index about a request."""
        messages = self.of(request_id)
        await self.until(lambda: len(messages) > index)
        return messages[index]

    async def answer(self, request_id: RequestId | None) -> Response:
        """The answer to a request."""
        return (await self.until(lambda: self.answers(request_id)))[0]

    async def result(self, tool: str, input: Mapping[str, Any] | None = None, **arguments: Any) -> Any:
        """The result of a tool call that succeeds."""
        answer = await self.answer(await self.call(tool, input, **arguments))
        assert answer.error is None, answer.error
        return answer.body["result"] if "result" in answer.body else answer.body["data"]

    def arrive(self, message: Response | Event) -> None:
        """A message came back."""
        self.messages.append(message)
        self.of(message.id if isinstance(message, Response) else message.body.get("request")).append(message)
        self._news.set()
        self._news = anyio.Event()


@asynccontextmanager
async def parked(face: Face, tool: str, key: str, **more: Any) -> AsyncIterator[anyio.CancelScope]:
    """A call of a tool that reports and then waits for its gate. It runs inside the block, unless the scope is cancelled;
    the block's end opens the gate and waits for it."""
    waits = anyio.Event()
    scope = anyio.CancelScope()

    async def call() -> None:
        with scope:
            await face.tool(tool, {"key": key}, progress=lambda *_: waits.set(), **more)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        with anyio.fail_after(20):
            await waits.wait()
        try:
            yield scope
        finally:
            with anyio.CancelScope(shield=True):
                await face.tool("open_gate", {"key": key}, token="face")
