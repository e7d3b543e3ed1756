"""The published client's own readers of events, which it has had since 1.5."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from published_server import pipeline
from test_published_events import Ear, ear, listener
from test_published_traces import flow

if TYPE_CHECKING:
    from rocketride import RocketRideClient

__all__ = ["ear", "listener"]

pytestmark = [pytest.mark.promise("ws:rocketride"), pytest.mark.promise("monitor:events")]


async def test_its_readers_of_logs_and_of_telemetry_understand_a_flow(listener: RocketRideClient, ear: Ear) -> None:
    from rocketride._log_codec import SegmentDecoder

    token = (await listener.use(pipeline=pipeline("read", "teller"), pipelineTraceLevel="full"))["token"]
    await listener.add_monitor({"project_id": "read", "source": "w"}, ["flow", "sse"])
    await listener.send(token, "hello", {"name": "a.txt"}, "text/plain")
    bodies = await flow(ear)
    decoder = SegmentDecoder()
    for body in bodies:
        message = {"event": "apaevt_flow", "body": body}
        assert decoder.decode(message) == message
    assert not decoder._open
    assert all(before["eventTime"] <= after["eventTime"] for before, after in pairwise(bodies))
    await listener.terminate(token)
