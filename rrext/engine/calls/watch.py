"""One run of a tool as the log and the callbacks see it: begun, perhaps in chunks, and done or failed."""

from __future__ import annotations

import logging
from time import perf_counter
from types import TracebackType
from typing import Final

from rrext.errors import RrextError
from rrext.tools.callbacks import SILENT, CallInfo, ReportedCall, ToolCallbacks

__all__ = ["WatchedCall", "is_watched"]

audit: Final = logging.getLogger("rrext.calls")


def is_watched(callbacks: ToolCallbacks) -> bool:
    """Whether anybody would notice a call: callbacks, or a log that takes audit lines."""
    return callbacks is not SILENT or audit.isEnabledFor(logging.INFO)


class WatchedCall(ReportedCall):
    """A reported call that also leaves one audit line: request, pipe, node, tool, milliseconds, outcome."""

    __slots__ = ("_began", "_call")

    def __init__(self, callbacks: ToolCallbacks, info: CallInfo) -> None:
        super().__init__(callbacks, info)
        self._call = info
        self._began = 0.0

    def __enter__(self) -> WatchedCall:
        super().__enter__()
        self._began = perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if audit.isEnabledFor(logging.INFO):
            call = self._call
            outcome = "done" if error is None else error.code if isinstance(error, RrextError) else type(error).__name__
            audit.info(
                "request=%s pipe=%s node=%s tool=%s ms=%.3f outcome=%s",
                call.request_id, call.pipe_id, call.node_id, call.tool, (perf_counter() - self._began) * 1e3, outcome,
            )  # fmt: skip
        super().__exit__(kind, error, trace)
