"""The chunks of a generator tool: streamed while it runs, or collected for the result."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING, Any

from rrext.engine.interface import Call, Feed, Tool
from rrext.errors import ResultTooLarge
from rrext.limits import Limits

if TYPE_CHECKING:
    from rrext.tools.callbacks import ReportedCall
    from rrext.tools.spec import ToolSpec

__all__ = ["Chunks"]


class Chunks:
    """Takes what a generator yields. `max_result` counts all chunks together; a passed limit stops the generator.

    With a feed each chunk leaves at once, and the generator waits while the peer's outbox is full. Without one the
    result is the list of chunks, or `{chunks, value}` if the generator returned a value.
    """

    __slots__ = ("_count", "_encoded", "_feed", "_limits", "_node", "_size", "_spec", "_watched")

    def __init__(
        self,
        spec: ToolSpec,
        node: Any,
        limits: Limits,
        *,
        feed: Feed | None,
        watched: ReportedCall,
    ) -> None:
        self._spec = spec
        self._node = node
        self._limits = limits
        self._feed = feed
        self._watched = watched
        self._encoded: list[bytes] = []
        self._count = 0
        self._size = 0

    @classmethod
    def wanted_by(cls, call: Call) -> Feed | None:
        """The feed of a call that asked for `stream: true`."""
        operation = call.operation
        return call.feed if isinstance(operation, Tool) and operation.stream else None

    def drain(self, chunks: Generator[Any, Any, Any], call: Call) -> bytes:
        """Run a sync generator to its end on this thread; the encoded result. A settled call closes it."""
        try:
            while not call.settled:
                try:
                    chunk = next(chunks)
                except StopIteration as end:
                    return self._result(end.value)
                self._take(chunk)
                if self._feed is not None:
                    self._feed.wait_for_room()
        finally:
            chunks.close()
        return b"null"

    async def drain_async(self, chunks: AsyncGenerator[Any, Any]) -> bytes:
        """Run an async generator to its end; the encoded result."""
        try:
            async for chunk in chunks:
                self._take(chunk)
                if self._feed is not None:
                    await self._feed.room()
        finally:
            await chunks.aclose()
        return self._result(None)

    def _take(self, chunk: Any) -> None:
        spec = self._spec
        raw = chunk if type(chunk) is bytes and self._feed is not None else None
        checked = spec.chunks_described
        encoded = b"" if raw is not None else spec.encode_chunk(self._node, chunk, self._limits, checked=checked)
        self._size += len(encoded) + (0 if raw is None else len(raw))
        if self._size > self._limits.max_result and self._feed is None:
            raise ResultTooLarge(
                f'The chunks of tool "{self._spec.name}" are over max_result, {self._limits.max_result} bytes',
                hint="ask for `stream: true`, which has no such limit on the whole",
                data={"limit": "max_result", "maximum": self._limits.max_result},
            )
        if self._feed is not None:
            self._feed.chunk(self._count, encoded, raw)
        else:
            self._encoded.append(encoded)
        self._watched.chunk(chunk)
        self._count += 1

    def _result(self, value: Any) -> bytes:
        if self._feed is not None:
            return b"null" if value is None else self._spec.encode(self._node, value, self._limits)
        listed = b"[" + b",".join(self._encoded) + b"]"
        if value is None:
            return listed
        return b'{"chunks":' + listed + b',"value":' + self._spec.encode(self._node, value, self._limits) + b"}"
