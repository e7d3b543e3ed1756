"""Whoever watches calls sees each begin and end once; watching never changes a call."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from rrext import ToolContext, ToolError
from rrext.tools.context import SILENT, CallInfo, ReportedCall, ToolCallbacks

INFO = CallInfo(tool="search", node_id="n_1", request_id=7)


class Recording(ToolCallbacks):
    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def tool_start(self, info: CallInfo) -> None:
        self.events.append(("start", info.tool))

    def tool_chunk(self, info: CallInfo, chunk: Any) -> None:
        self.events.append(("chunk", chunk))

    def tool_complete(self, info: CallInfo, result: Any, error: BaseException | None) -> None:
        self.events.append(("complete", result, error))

    def agent_chunk(self, info: CallInfo, agent: str, text: str) -> None:
        self.events.append(("agent", agent, text))


class Failing(ToolCallbacks):
    def tool_start(self, info: CallInfo) -> None:
        raise RuntimeError("start")

    def tool_chunk(self, info: CallInfo, chunk: Any) -> None:
        raise RuntimeError("chunk")

    def tool_complete(self, info: CallInfo, result: Any, error: BaseException | None) -> None:
        raise RuntimeError("complete")


def test_a_call_is_seen_from_start_to_end() -> None:
    watch = Recording()
    with ReportedCall(watch, INFO) as call:
        call.chunk(1)
        call.chunk(2)
        call.result = "done"
    assert watch.events == [("start", "search"), ("chunk", 1), ("chunk", 2), ("complete", "done", None)]


@pytest.mark.parametrize("error", [ToolError("no"), ValueError("bug"), KeyboardInterrupt()])
def test_a_failure_is_reported_and_raised_again(error: BaseException) -> None:
    watch = Recording()

    def run() -> None:
        with ReportedCall(watch, INFO) as call:
            call.result = "half"
            raise error

    with pytest.raises(type(error)) as caught:
        run()
    assert caught.value is error
    assert watch.events == [("start", "search"), ("complete", None, error)]


def test_a_callback_that_fails_changes_nothing_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), ReportedCall(Failing(), INFO) as call:
        call.chunk(1)
        call.result = 1
    assert [record.getMessage().split()[0] for record in caplog.records] == ["tool_start", "tool_chunk", "tool_complete"]


def test_a_callback_that_fails_hides_no_failure_of_the_tool() -> None:
    with pytest.raises(ToolError, match="the tool's own"), ReportedCall(Failing(), INFO):
        raise ToolError("the tool's own")


def test_a_tool_reports_its_sub_agents_through_its_context() -> None:
    watch = Recording()
    ctx = ToolContext(callbacks=watch)
    ctx.callbacks.agent_chunk(INFO, "reader", "text")
    ctx.callbacks.agent_start(INFO, "reader")
    assert watch.events == [("agent", "reader", "text")]
    assert ToolContext().callbacks is SILENT


def test_every_event_may_be_left_out() -> None:
    SILENT.agent_start(INFO, "a")
    SILENT.agent_tool_call(INFO, "a", "t", {})
    SILENT.agent_tool_result(INFO, "a", "t", 1, None)
    SILENT.agent_end(INFO, "a", None)
    with ReportedCall(SILENT, INFO) as call:
        call.chunk(1)
