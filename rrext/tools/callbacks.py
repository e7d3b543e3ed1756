"""Callbacks during a call: start, chunks, end, and the same events of a tool's sub-agents."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any

import msgspec


class CallInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The call that an event belongs to."""

    tool: str
    node_id: str = ""
    request_id: int | str | None = None
    connection_id: int | str | None = None
    pipe_id: int | None = None
    user_id: str | None = None
    space_id: str | None = None


class ToolCallbacks:
    """An observer of calls with empty methods to override. They run in the tool's thread and must not block."""

    __slots__ = ()

    def tool_start(self, info: CallInfo) -> None:
        """The tool accepted its input and starts."""

    def tool_chunk(self, info: CallInfo, chunk: Any) -> None:
        """A generator tool yielded a chunk."""

    def tool_complete(self, info: CallInfo, result: Any, error: BaseException | None) -> None:
        """The tool ended with a result or an error, the same that the caller gets. Once per start."""

    def agent_start(self, info: CallInfo, agent: str) -> None:
        """The tool started a sub-agent."""

    def agent_chunk(self, info: CallInfo, agent: str, text: str) -> None:
        """A sub-agent produced a piece of its answer."""

    def agent_tool_call(self, info: CallInfo, agent: str, tool: str, input: Any) -> None:
        """A sub-agent calls a tool."""

    def agent_tool_result(self, info: CallInfo, agent: str, tool: str, result: Any, error: BaseException | None) -> None:
        """A tool that a sub-agent called ended."""

    def agent_end(self, info: CallInfo, agent: str, error: BaseException | None) -> None:
        """A sub-agent ended."""


SILENT = ToolCallbacks()
"""Callbacks that do nothing."""


class ReportedCall:
    """A context manager around one run of a tool: start on entry, complete on exit, failures re-raised.

    Set `result` inside the block; `tool_complete` receives it. An exception of a callback is logged and does not affect the
    call.
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
