"""What happens inside a call, for whoever watches: start, chunks, end, and the same of a tool's sub-agents."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any

import msgspec

__all__ = ["SILENT", "CallInfo", "ReportedCall", "ToolCallbacks"]


class CallInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Which call an event belongs to."""

    tool: str
    node_id: str = ""
    request_id: int | str | None = None
    connection_id: int | str | None = None
    pipe_id: int | None = None
    user_id: str | None = None
    space_id: str | None = None


class ToolCallbacks:
    """Watches calls; override what you care for. Methods run in the thread of the tool and must not block."""

    __slots__ = ()

    def tool_start(self, info: CallInfo) -> None:
        """The tool is about to run; its input was accepted."""

    def tool_chunk(self, info: CallInfo, chunk: Any) -> None:
        """A generator tool gave a chunk."""

    def tool_complete(self, info: CallInfo, result: Any, error: BaseException | None) -> None:
        """The tool is done: with a result, or with an error that its caller gets too. Exactly once per start."""

    def agent_start(self, info: CallInfo, agent: str) -> None:
        """The tool started a sub-agent."""

    def agent_chunk(self, info: CallInfo, agent: str, text: str) -> None:
        """A sub-agent gave a piece of its answer."""

    def agent_tool_call(self, info: CallInfo, agent: str, tool: str, input: Any) -> None:
        """A sub-agent calls a tool."""

    def agent_tool_result(self, info: CallInfo, agent: str, tool: str, result: Any, error: BaseException | None) -> None:
        """A tool that a sub-agent called is done."""

    def agent_end(self, info: CallInfo, agent: str, error: BaseException | None) -> None:
        """A sub-agent is done."""


SILENT = ToolCallbacks()
"""Watches nothing."""


class ReportedCall:
    """A context manager around one run of a tool: start on entry, complete on exit, failures re-raised.

    `result` is what `tool_complete` is told; set it inside the block. A callback that raises is logged and changes
    nothing: watching a call never makes it fail.
    """

    __slots__ = ("_callbacks", "_info", "result")

    def __init__(self, callbacks: ToolCallbacks, info: CallInfo) -> None:
        self._callbacks = callbacks
        self._info = info
        self.result: Any = None

    def __enter__(self) -> ReportedCall:
        try:
            self._callbacks.tool_start(self._info)
        except Exception:
            self._log("tool_start")
        return self

    def chunk(self, chunk: Any) -> None:
        """Report a chunk of a generator tool."""
        try:
            self._callbacks.tool_chunk(self._info, chunk)
        except Exception:
            self._log("tool_chunk")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._callbacks.tool_complete(self._info, None if error is not None else self.result, error)
        except Exception:
            self._log("tool_complete")

    def _log(self, event: str) -> None:
        logging.getLogger(__name__).exception("%s callback of tool %s failed", event, self._info.tool)

    def __repr__(self) -> str:
        return f"<ReportedCall {self._info.tool}>"
