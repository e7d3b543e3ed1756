"""Run logs: what happened in the traced runs of a user, in order and of bounded size, and nothing of others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from engine_world import world
from hypothesis import given
from hypothesis import strategies as st
from test_monitors import ADA, BOB, Listener, Teller, pipeline

from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Execute, Restart, Terminate
from rrext.engine.interface.rare_operations import DeleteRunLog, ListRunLogs, ReadChapters, ReadRunLog, ReadSegment
from rrext.engine.views import run_logs
from rrext.engine.views.run_logs import RunLog

pytestmark = pytest.mark.promise("log:own-runs")

WHERE: dict[str, Any] = {"project_id": "p", "source": "source"}


STEPS = ["begin", "enter", "output", "apaevt_sse", "leave", "apaevt_status_update", "end"]


def names(events: list[dict[str, Any]]) -> list[str]:
    return [event["body"].get("op") or event["body"].get("action") or event["event"] for event in events]


async def test_a_traced_run_is_recorded_with_the_numbers_that_monitors_tell() -> None:
    async with world(Teller) as w:
        ada = Listener(w, ADA)
        await ada.monitor(token="*", types=["all"])
        ada.take()
        await ada.ask(Execute(pipeline=pipeline(), token="hers", pipeline_trace_level="full"))
        running = await ada.ask(ReadChapters(**WHERE))
        assert (running["completed"], running["chapters"][0]["traceLevel"], running["chapters"][0]["outcome"]) == (
            False,
            "full",
            None,
        )
        await ada.send("hers", "one")
        await ada.ask(Terminate(token="hers"))
        events = (await ada.ask(ReadRunLog(**WHERE)))["events"]
        assert names(events) == ["begin", *STEPS, "end", "apaevt_status_update"]
        assert [event["body"]["logSeq"] for event in events] == list(range(1, len(events) + 1))
        told = [(name, body) for name, body in ada.events if "logSeq" in body]
        assert [msgspec.json.decode(msgspec.json.encode(body)) for _, body in told] == [
            event["body"] for event in events if event["event"] != "apaevt_status_update"
        ]
        chapters = (await ada.ask(ReadChapters(**WHERE)))["chapters"]
        assert [(each["beginSeq"], each["outcome"]) for each in chapters] == [(1, "cancelled")]
        [stream] = (await ada.ask(ListRunLogs(**WHERE)))["streams"]
        assert (stream["runKind"], stream["ownerKind"], stream["completed"]) == ("dev", "user", True)


async def test_runs_of_a_source_are_chapters_of_one_log() -> None:
    async with world(Teller) as w:
        ada = Listener(w, ADA)
        await ada.ask(Execute(pipeline=pipeline(), token="hers", pipeline_trace_level="metadata"))
        await ada.ask(Restart(token="hers"))
        await ada.ask(Terminate(token="hers"))
        await ada.ask(Execute(pipeline=pipeline(), token="hers"))  # untraced
        timeline = await ada.ask(ReadChapters(**WHERE))
        assert [each["outcome"] for each in timeline["chapters"]] == ["cancelled", "cancelled"]
        assert timeline["completed"]
        assert [each["chapterStart"] for each in timeline["segments"]] == [True]
        assert not w.engine.host.events.messages  # nobody records, nobody listens


async def test_nobody_reads_or_deletes_the_log_of_another() -> None:
    async with world(Teller) as w:
        ada, bob, stranger = Listener(w, ADA), Listener(w, BOB), Listener(w, Caller("x", trusted=False))
        for listener in (ada, bob):
            await listener.ask(Execute(pipeline=pipeline(), token="own", pipeline_trace_level="full"))
        await ada.send("own", "of ada", "ada.txt")
        assert "of ada" in str(await ada.ask(ReadRunLog(**WHERE)))
        for other in (bob, stranger):
            for operation in (
                ReadRunLog(**WHERE),
                ReadChapters(**WHERE),
                ListRunLogs(**WHERE),
                ReadSegment(**WHERE, segment=1),
            ):
                assert "ada" not in str(await other.ask(operation))
        assert (await bob.ask(DeleteRunLog(**WHERE, all=True)))["deletedSegments"] == 1
        assert (await stranger.ask(DeleteRunLog(**WHERE, all=True)))["deletedSegments"] == 0
        assert "of ada" in str(await ada.ask(ReadRunLog(**WHERE)))
        assert (await ada.ask(ReadRunLog(**WHERE, team_id="t")))["events"] == []
        assert (await ada.ask(ReadRunLog(**WHERE, run_kind="deploy")))["events"] == []


async def test_mistakes_are_refused_and_unknown_logs_are_empty() -> None:
    async with world(Teller) as w:
        for wrong in (ReadRunLog(project_id="p"), ReadChapters(source="s"), DeleteRunLog(**WHERE)):
            assert (await w.ask(wrong, caller=ADA).error()).code == "invalid_arguments"
        assert await w.ask(ReadSegment(**WHERE, segment=9, offset=-5), caller=ADA).answer() == {
            "segment": 9, "offset": 0, "data": "", "size": 0, "nextOffset": None, "final": True
        }  # fmt: skip
        assert (await w.ask(ReadChapters(**WHERE), caller=ADA).answer())["completed"]


async def test_the_logs_of_a_user_have_their_size_and_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_logs, "SEGMENT_BYTES", 2_000)
    monkeypatch.setattr(run_logs, "MAX_USER_LOG_BYTES", 20_000)
    monkeypatch.setattr(run_logs, "MAX_USER_LOGS", 3)
    async with world(Teller) as w:
        ada = Listener(w, ADA)
        for n in range(5):
            await ada.ask(Execute(pipeline=pipeline(f"p{n}"), token=f"t{n}", pipeline_trace_level="full"))
            await ada.send(f"t{n}", "one")
            await ada.ask(Terminate(token=f"t{n}"))
        await ada.ask(Execute(pipeline=pipeline(), token="hers", pipeline_trace_level="full"))
        for _ in range(30):
            await ada.send("hers", "x" * 500)
        logs = w.engine._views._monitors.logs._users["ada"]  # type: ignore[union-attr]
        assert len(logs) <= 3
        assert sum(log.size for log in logs.values()) < 20_000 + 4_000
        timeline = await ada.ask(ReadChapters(**WHERE))
        assert timeline["horizonSeq"] > 1
        page = await ada.ask(ReadRunLog(**WHERE))
        assert page["truncatedAtSeq"] == timeline["horizonSeq"] == page["events"][0]["body"]["logSeq"]


@given(st.lists(st.integers(0, 400), max_size=40), st.integers(1, 9), st.integers(1, 900))
def test_pages_and_pieces_of_segments_have_each_event_once(sizes: list[int], events: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_logs, "SEGMENT_BYTES", 1_000)
        log = RunLog()
        log.begin_run("t", 1.0, "full")
        for n, length in enumerate(sizes):
            log.add("output", {"output": "é" * length, "eventTime": float(n)})
        read: list[int] = []
        cursor: int | None = None
        while True:
            page = log.page(ReadRunLog(**WHERE, cursor=cursor, max_events=events, max_bytes=size))
            found = [msgspec.json.decode(event) for event in page["events"]]
            assert len(found) <= events
            read += [event["body"]["logSeq"] for event in found]
            cursor = page.get("nextSeq")
            if cursor is None:
                break
        assert read == list(range(1, len(sizes) + 1))
        pieces: list[dict[str, Any]] = []
        for segment in log.timeline["segments"]:
            offset: int | None = 0
            while offset is not None:
                piece = log.raw(segment["id"], offset, size)
                pieces += [msgspec.json.decode(line) for line in piece["data"].splitlines()]
                offset = piece["nextOffset"]
        assert [piece["body"]["logSeq"] for piece in pieces if piece["type"] == "event"] == read
        assert [piece["type"] for piece in pieces].count("keyframe") == len(log.timeline["segments"])
