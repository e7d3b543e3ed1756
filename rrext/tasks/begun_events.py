"""Calls and pipes of a worker whose begin was told to subscribers: each gets an end, also from a worker that died."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING, Any

from rrext.engine.events.records import CallEnded, CallStarted, PipeClosed, PipeOpened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rrext.errors import RrextError


class BegunEvents:
    """The begins without an end."""

    def __init__(self) -> None:
        self._calls: dict[int, CallStarted] = {}
        self._pipes: dict[int | None, PipeOpened] = {}

    def note(self, event: Any) -> None:
        """Note an event of the worker."""
        match event:
            case CallStarted():
                self._calls[event.call] = event
            case CallEnded():
                self._calls.pop(event.call, None)
            case PipeOpened():
                self._pipes[event.pipe_id] = event
            case PipeClosed():
                self._pipes.pop(event.pipe_id, None)
            case _:
                pass

    def ends(self, error: RrextError) -> Iterator[CallEnded | PipeClosed]:
        """The missing ends, which come from `error`."""
        now = time()
        for begun in self._calls.values():
            more = {"seconds": now - begun.time, "code": error.code, "message": error.message}
            yield CallEnded(**_fields(begun, CallEnded), **more)
        for opened in self._pipes.values():
            yield PipeClosed(**_fields(opened, PipeClosed), reason="terminated", seconds=now - opened.time)
        self._calls.clear()
        self._pipes.clear()


def _fields(begun: CallStarted | PipeOpened, ended: type[CallEnded | PipeClosed]) -> dict[str, Any]:
    """The fields that both events have."""
    both = set(begun.__struct_fields__) & set(ended.__struct_fields__)
    return {name: getattr(begun, name) for name in both} | {"time": time()}
