"""The events of monitors, for a reader who is slow."""

from __future__ import annotations

import re

import pytest
from session_world import SessionWorld, session_world, until

from rrext.limits import MAX_LATE_EVENT_BYTES
from rrext.nodes.base.node import Node
from rrext.server.call_feed import MonitorFeed
from rrext.tools.decorator import tool_function


class Large(Node):
    """Says much."""

    provider = "large"

    @tool_function
    def text(self, size: int) -> str:
        return "x" * size


def told(w: SessionWorld) -> list[tuple[int, int]]:
    found = re.findall(rb'"event":"told","body":\{"n":(\d+)(?:,"body":"y+")?(?:,"dropped":(\d+))?\}', bytes(w.sink.taken))
    return [(int(n), int(dropped or 0)) for n, dropped in found]


@pytest.mark.promise("monitor:events")
async def test_a_slow_reader_gets_some_events_later_in_order_and_is_told_how_many_it_missed() -> None:
    async with session_world(Large, outbox_bytes=1000) as w:
        feed = MonitorFeed(w.session)
        await w.ask("rrext_ping")
        feed.send_event("told", {"n": 0})
        w.sink.room = 0
        await w.feed(w.tool("text", {"size": 5000}))
        await until(lambda: w.session.outbox.is_full)
        body, count = "y" * 1000, MAX_LATE_EVENT_BYTES // 1000 + 10
        for n in range(1, count):
            feed.send_event("told", {"n": n, "body": body})
        w.sink.drain()
        await until(lambda: not w.session.outbox.is_full and not feed._late)
        feed.send_event("told", {"n": count})
        await until(lambda: told(w)[-1][0] == count)
        found = told(w)
        assert [n for n, _ in found] == [*range(len(found) - 1), count]
        assert found[-1][1] == count - len(found) + 1 > 0
        assert not any(dropped for _, dropped in found[:-1])
