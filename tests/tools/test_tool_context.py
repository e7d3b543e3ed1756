"""The context of one call: cancel, deadline, progress, nested calls; each call its own."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext import Cancelled, Node, ShuttingDown, ToolContext, ToolTimeout, Unavailable, tool_function
from rrext.limits import DEFAULTS
from rrext.tools.context import CancelToken

REASONS = {"cancelled": Cancelled, "timeout": ToolTimeout, "disconnected": Cancelled, "shutting_down": ShuttingDown}


@pytest.mark.parametrize("reason", REASONS)
def test_a_cancelled_call_learns_it_from_check(reason: Any) -> None:
    token = CancelToken()
    ctx = ToolContext(token=token)
    ctx.check()
    assert not ctx.cancelled
    assert token.cancel(reason)
    assert ctx.cancelled
    with pytest.raises(REASONS[reason]):
        ctx.check()


def test_the_first_reason_stays() -> None:
    token = CancelToken()
    assert token.cancel("timeout")
    assert not token.cancel("cancelled")
    assert token.reason == "timeout"


def test_of_many_threads_that_cancel_one_is_first_and_each_listener_runs_once() -> None:
    for _ in range(20):
        token, gate, won, heard = CancelToken(), threading.Barrier(6), [], []

        def cancel(token: CancelToken = token, gate: threading.Barrier = gate, won: list[bool] = won) -> None:
            gate.wait()
            won.append(token.cancel("cancelled"))

        def listen(token: CancelToken = token, gate: threading.Barrier = gate, heard: list[int] = heard) -> None:
            gate.wait()
            token.on_cancel(lambda: heard.append(1))

        threads = [threading.Thread(target=target) for target in (cancel, cancel, cancel, listen, listen, listen)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(won) == [False, False, True]
        assert heard == [1, 1, 1]


def test_listeners_run_when_it_is_cancelled_or_at_once_if_it_is_already() -> None:
    token, heard = CancelToken(), []
    ctx = ToolContext(token=token)
    ctx.on_cancel(lambda: heard.append("first"))
    ctx.on_cancel(lambda: heard.append("second"))
    assert heard == []
    token.cancel("cancelled")
    assert heard == ["first", "second"]
    ctx.on_cancel(lambda: heard.append("late"))
    assert heard == ["first", "second", "late"]


@pytest.mark.parametrize("reason", REASONS)
def test_on_disconnect_is_for_callers_that_are_gone(reason: Any) -> None:
    token, heard = CancelToken(), []
    ToolContext(token=token).on_disconnect(lambda: heard.append(1))
    token.cancel(reason)
    assert heard == ([1] if reason == "disconnected" else [])


def test_a_listener_that_fails_keeps_no_other_from_running(caplog: pytest.LogCaptureFixture) -> None:
    token, heard = CancelToken(), []
    token.on_cancel(lambda: 1 / 0)
    token.on_cancel(lambda: heard.append(1))
    with caplog.at_level(logging.ERROR):
        assert token.cancel("cancelled")
    assert heard == [1]
    assert "on_cancel" in caplog.text


def test_the_deadline_is_told_in_seconds_of_the_clock() -> None:
    now = [100.0]
    ctx = ToolContext(deadline=110.0, clock=lambda: now[0])
    assert ctx.remaining() == 10.0
    ctx.check()
    now[0] = 110.0
    assert ctx.remaining() == 0.0
    with pytest.raises(ToolTimeout):
        ctx.check()
    assert ToolContext().remaining() is None


# progress


@given(st.lists(st.floats(min_value=0, allow_nan=False, allow_infinity=False)))
def test_progress_only_rises(values: list[float]) -> None:
    seen: list[float] = []
    ctx = ToolContext(report=lambda value, total, message: seen.append(value))
    for value in values:
        ctx.progress(value)
    assert seen == sorted(seen)
    assert seen[-1:] == ([max(values)] if values else [])
    assert set(seen) <= set(values)


def test_a_context_for_another_space_is_that_of_the_same_call() -> None:
    seen: list[Any] = []
    ctx = ToolContext(user_id="ada", space_id="home", request_id=7, meta={"m": 1}, report=lambda *report: seen.append(report))
    there = ctx.in_space("legal")
    assert (there.user_id, there.space_id, there.request_id, there.meta) == ("ada", "legal", 7, {"m": 1})
    assert (ctx.space_id, there.token) == ("home", ctx.token)
    there.progress(5)
    ctx.progress(3)
    ctx.progress(6)
    assert [value for value, _, _ in seen] == [5, 6], "values rise over both"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1, -0.1])
@pytest.mark.parametrize("reported", [False, True])
def test_progress_that_is_no_amount_is_refused_whether_or_not_anybody_listens(bad: float, reported: bool) -> None:
    ctx = ToolContext(report=(lambda *_: None) if reported else None)
    with pytest.raises(ValueError, match="progress: value"):
        ctx.progress(bad)
    with pytest.raises(ValueError, match="progress: total"):
        ctx.progress(1, bad)
    for wrong in (True, "1", None):
        with pytest.raises(TypeError, match="progress: value"):
            ctx.progress(wrong)  # type: ignore[arg-type]


def test_progress_messages_are_cut() -> None:
    seen: list[Any] = []
    ctx = ToolContext(report=lambda *report: seen.append(report))
    ctx.progress(1, 2, "x" * (DEFAULTS.progress_text + 1))
    ctx.progress(2)
    assert seen == [(1, 2, "x" * DEFAULTS.progress_text), (2, None, None)]


def test_progress_from_many_threads_leaves_in_order() -> None:
    seen: list[float] = []
    ctx = ToolContext(report=lambda value, total, message: seen.append(value))
    gate = threading.Barrier(4)

    def work() -> None:
        gate.wait()
        for value in range(300):
            ctx.progress(value)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == sorted(seen)
    assert seen[-1] == 299


# nested calls


class Recorded:
    async def call(self, node: str, tool: str, input: Any) -> Any:
        return ("async", node, tool, input)

    def call_blocking(self, node: str, tool: str, input: Any) -> Any:
        return ("blocking", node, tool, input)


def test_a_tool_reaches_other_tools_through_its_context() -> None:
    ctx = ToolContext(nested=Recorded())
    assert asyncio.run(ctx.call("n", "t", {"a": 1})) == ("async", "n", "t", {"a": 1})
    assert ctx.call_blocking("n", "t") == ("blocking", "n", "t", None)


def test_outside_of_a_pipeline_there_are_no_other_tools() -> None:
    with pytest.raises(Unavailable):
        ToolContext().call_blocking("n", "t")
    with pytest.raises(Unavailable):
        asyncio.run(ToolContext().call("n", "t"))


# one context per call


class Shared(Node):
    @tool_function
    def who(self, number: int, ctx: ToolContext) -> tuple[int, Any]:
        GATE.wait()
        return number, ctx.request_id


GATE = threading.Barrier(50)


@pytest.mark.promise("tool:context:per-call")
def test_fifty_concurrent_calls_of_one_tool_object_see_their_own_context() -> None:
    node, spec, seen = Shared(), Shared.tools["who"], []

    def call(number: int) -> None:
        kwargs = spec.structure(node, {"number": number}, DEFAULTS)
        seen.append(spec.call(node, kwargs, ToolContext(request_id=number)))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [(number, number) for number in range(50)]
    assert not any(isinstance(value, ToolContext) for value in vars(node).values())


def test_meta_is_the_callers_own() -> None:
    meta = {"traceparent": "00-1-2-03"}
    assert ToolContext(meta=meta).meta is meta
