"""A statement that is stopped: the thread that cancels its call does nothing for that."""

from __future__ import annotations

import threading

from rrext.nodes.databases.database import RunningStatement, TimerThread
from rrext.tools.context import ToolContext


def test_the_thread_that_cancels_a_call_waits_for_no_database() -> None:
    watch, ctx, stopped = TimerThread(), ToolContext(), threading.Event()
    threads: list[threading.Thread] = []

    def cancel() -> None:
        threads.append(threading.current_thread())
        stopped.set()

    with RunningStatement(cancel, watch, 0, ctx) as running:
        ctx.token.cancel()
        assert stopped.wait(20)
    watch.close()
    assert running.reason == "cancelled"
    assert threading.current_thread() not in threads
