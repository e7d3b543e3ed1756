"""The chunks of a generator tool: streamed while it runs, or collected for the result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from typing import TYPE_CHECKING, Any, Final, Protocol

from rrext.content import Content
from rrext.engine.interface.call import Call, Feed
from rrext.engine.interface.operations import Tool
from rrext.errors import ResultTooLarge
from rrext.limits import CHUNKS_PER_ITERATION, Limits

if TYPE_CHECKING:
    from rrext.tools.context import CancelToken
    from rrext.tools.spec import ToolSpec


_WITH_VALUE: Final = b'{"chunks":%b,"value":%b}'


class ChunkFeed(Protocol):
    """Takes encoded chunks, from the thread of the tool, and says when there is room for more."""

    def chunk(self, index: int, chunk: bytes, tail: bytes | None) -> None: ...

    def wait_for_room(self) -> None: ...

    async def room(self) -> None: ...


class Chunks:
    """Encodes the chunks of a generator. `max_result` limits their sum; the generator is stopped when it is exceeded.

    With a feed each chunk is sent at once, and the generator waits while the peer's outbox is full. Without a feed the
    result is the list of chunks, or `{chunks, value}` if the generator returned a value. `told` is called with
    the index and the value of each chunk, and with its JSON unless the value is bytes.
    """

    __slots__ = ("_count", "_feed", "_limits", "_listed", "_node", "_spec", "told")

    def __init__(
        self,
        spec: ToolSpec,
        node: Any,
        limits: Limits,
        *,
        feed: ChunkFeed | None,
    ) -> None:
        self._spec = spec
        self._node = node
        self._limits = limits
        self._feed = feed
        self.told: Callable[[int, Any, bytes | None], object] | None = None
        self._listed = bytearray(b"[")  # encoded JSON: millions of small chunks as objects cost twenty times as much
        self._count = 0

    @classmethod
    def wanted_by(cls, call: Call) -> Feed | None:
        """The feed of a call that asked for `stream: true`."""
        operation = call.operation
        return call.feed if isinstance(operation, Tool) and operation.stream else None

    def drain(self, chunks: Generator[Any, Any, Any], token: CancelToken) -> bytes:
        """Run a sync generator to its end on this thread and return the encoded result. A cancel closes it and raises."""
        try:
            while True:
                token.check()
                try:
                    chunk = next(chunks)
                except StopIteration as end:
                    return self._result(end.value)
                self._take(chunk)
                if self._feed is not None:
                    self._feed.wait_for_room()
        finally:
            chunks.close()

    async def drain_on_loop(self, chunks: Generator[Any, Any, Any]) -> bytes:
        """Run a sync generator to its end on the loop's thread, with an iteration of the loop between any two chunks."""
        try:
            while True:
                try:
                    chunk = next(chunks)
                except StopIteration as end:
                    return self._result(end.value)
                self._take(chunk)
                await asyncio.sleep(0)
                await self._room()
        finally:
            chunks.close()

    async def drain_async(self, chunks: AsyncGenerator[Any, Any]) -> bytes:
        """Run an async generator to its end and return the encoded result."""
        try:
            async for chunk in chunks:
                self._take(chunk)
                if not self._count % CHUNKS_PER_ITERATION:
                    await asyncio.sleep(0)
                await self._room()
        finally:
            await chunks.aclose()
        return self._result(None)

    async def _room(self) -> None:
        if self._feed is not None:
            await self._feed.room()

    def _take(self, chunk: Any) -> None:
        limits = self._limits
        feed = self._feed
        encoded: bytes | None = None
        if feed is not None and type(chunk) is bytes and self._spec.options.output_schema is None:
            if len(chunk) > limits.max_result:
                raise ResultTooLarge.of(len(chunk), limits.max_result)
            feed.chunk(self._count, b"", chunk)
        else:
            encoded = self._spec.encode_chunk(self._node, chunk, limits, checked=self._spec.chunks_described)
            if feed is not None:
                feed.chunk(self._count, encoded, None)
            else:
                self._keep(encoded)
        if self.told is not None:
            self.told(self._count, chunk, encoded)
        self._count += 1

    def _keep(self, encoded: bytes) -> None:
        self._check(len(encoded) + 1)
        self._listed += encoded
        self._listed += b","

    def _check(self, more: int) -> None:
        """Raise `ResultTooLarge` if `more` bytes would make the result too large."""
        if len(self._listed) + more > self._limits.max_result:
            raise ResultTooLarge(
                f'The chunks of tool "{self._spec.name}" are over max_result, {self._limits.max_result} bytes',
                hint="ask for `stream: true`, which has no such limit on the whole",
                data={"limit": "max_result", "maximum": self._limits.max_result},
            )

    def _result(self, value: Any) -> bytes:
        value = self._spec.value_of(value) if type(value) is Content else value
        encoded = b"null" if value is None else self._spec.encode(self._node, value, self._limits)
        if self._feed is not None:
            return encoded
        listed = self._listed
        if self._count:
            listed[-1:] = b"]"
        else:
            listed += b"]"
        if value is None:
            return bytes(listed)
        self._check(len(_WITH_VALUE % (b"", encoded)))
        return _WITH_VALUE % (listed, encoded)
