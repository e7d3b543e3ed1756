"""The least that a client on asyncio does for a call: the floor of `await client.tool()`."""

from __future__ import annotations

import asyncio
import os
from itertools import count
from types import TracebackType
from typing import Any

import msgspec
from bench_client import Server

BUFFER = 1 << 16


class BareClient:
    """Encodes a request, writes it, waits on a future, and decodes the answer that the loop reads.

    It has no limits, deadlines, cancel or errors, and takes each read for one whole answer: one call at a time.
    """

    def __init__(self, server: Server) -> None:
        self._to, self._since = server.to, server.since
        self._buffer = bytearray(BUFFER)
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder().decode
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    def __enter__(self) -> BareClient:
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._since, self._read)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._loop.remove_reader(self._since)

    def _read(self) -> None:
        end = os.readv(self._since, [self._buffer])
        body = self._buffer.index(b"\r\n\r\n", 0, end) + 4
        answer = self._decode(memoryview(self._buffer)[body:end])
        self._waiting.pop(answer["request_seq"]).set_result(answer)

    async def tool(self, tool: str, given: dict[str, Any]) -> Any:
        number = next(self._numbers)
        arguments = {"subcommand": "tool", "tool": tool, "input": given}
        body = self._encode({"type": "request", "seq": number, "command": "rrext_process", "arguments": arguments})
        answered = self._waiting[number] = self._loop.create_future()
        os.write(self._to, b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        return (await answered)["body"]["result"]
