"""The traffic that a page shows: it is the user's own, exact, and bounded, and costs nothing while no page is open."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.engine.events.records import (
    CallEnded,
    CallStarted,
    EngineEvent,
    LaneIn,
    LaneOut,
    ObjectEnded,
    PipeOpened,
    TaskBegun,
    TaskEnded,
)
from rrext.engine.interface.call import ANONYMOUS, Caller
from rrext.engine.interface.operations import ListTasks, Operation, TaskStatus
from rrext.engine.local_engine import LocalEngine
from rrext.errors import ToolTimeout
from rrext.faces.page.status_page import Watch, ended_row
from rrext.faces.page.traffic import (
    KEPT_FAILURES,
    KEPT_LATENCIES,
    KEPT_LINES,
    KEPT_RESTARTS,
    MAX_COUNTED,
    MAX_PAGE_TEXT,
    MAX_TOOLS,
    STEP,
    STEPS,
    Traffic,
    percentiles,
)

pytestmark = pytest.mark.promise("ws:page")

ADA = Caller("page", "ada", trusted=False, is_keyed=True)
OPERATOR = Caller("page", trusted=True)
USERS = ("ada", "bob", None)


def started(number: int, node: str | None, user: str | None, token: str = "t", **more: Any) -> CallStarted:
    return CallStarted(time=0.0, token=token, call=number, command="tool", tool="x", node_id=node, user_id=user, **more)


def ended(number: int, node: str | None, user: str | None, token: str = "t", **more: Any) -> CallEnded:
    head = {"time": 0.0, "token": token, "call": number, "tool": "x", "node_id": node, "user_id": user, "seconds": 1.0}
    return CallEnded(**{"command": "tool", **head, **more})


def begun(token: str, user: str | None = "ada", **more: Any) -> TaskBegun:
    return TaskBegun(**{"time": 0.0, "token": token, "name": "n", "project_id": "p", "source": "s", "user_id": user, **more})


def gone(token: str, reason: str, user: str | None = "ada") -> TaskEnded:
    head: dict[str, Any] = {"time": 0.0, "token": token, "name": "n", "project_id": "p", "source": "s", "user_id": user}
    return TaskEnded(**head, reason=reason, seconds=1.0)  # type: ignore[arg-type]  # one of its literals


@st.composite
def histories(draw: st.DrawFn) -> list[EngineEvent]:
    """Events of three users, in the order in which an engine tells those of a call and of a pipe."""
    lives: list[list[EngineEvent]] = []
    for number in range(draw(st.integers(0, 12))):
        user, token = draw(st.sampled_from(USERS)), draw(st.sampled_from("tu"))
        node = f"{user} node {draw(st.integers(0, 2))}"
        code = draw(st.sampled_from((None, "tool_failed")))
        if draw(st.booleans()):
            more = {"callers": ("a.x",)} if draw(st.booleans()) else {}
            lives.append([started(number, node, user, token, **more), ended(number, node, user, token, code=code, **more)])
            continue
        head: dict[str, Any] = {"time": 0.0, "token": token, "pipe_id": number, "user_id": user}
        life: list[EngineEvent] = [PipeOpened(**head)]
        for _ in range(draw(st.integers(0, 3))):
            life.append(LaneIn(**head, node_id=node, lane="text"))
            life.append(LaneOut(**head, node_id=node, lane="text", seconds=1.0, code=code))
        life.append(ObjectEnded(**head, object_id="o", name=f"{user} file", seconds=1.0, code=code, message=f"{user} error"))
        lives.append(life)
    told: list[EngineEvent] = []
    while lives := [life for life in lives if life]:
        told.append(draw(st.sampled_from(lives)).pop(0))
    return told[draw(st.integers(0, 5)) :]  # a page may be opened in the middle


def shown(traffic: Traffic) -> dict[str, Any]:
    return {token: traffic.measures(token) for token in "tu"}


@given(histories())
def test_traffic_is_the_users_own_and_at_the_end_nothing_is_at_work(told: list[EngineEvent]) -> None:
    adas, own = Traffic(ADA), Traffic(OPERATOR)
    for event in told:
        adas.take(event)
        if getattr(event, "user_id", None) == "ada":
            own.take(event)
    assert shown(adas) == shown(own)
    assert adas.failures.after(0) == own.failures.after(0)
    assert "bob" not in json.dumps(shown(adas))
    for measures in shown(adas).values():
        assert all(count[0] >= count[2] >= 0 == count[1] for count in measures["nodes"].values())


def test_a_user_without_a_name_is_no_user() -> None:
    traffic = Traffic(Caller("page", trusted=False))
    traffic.take(ended(1, "n", None))
    assert shown(traffic)["t"]["nodes"] == {}


def test_memory_is_bounded_whatever_callers_send() -> None:
    traffic = Traffic(ADA)
    for number in range(MAX_COUNTED + 5000):
        traffic.take(started(number, f"n{number}", "ada", callers=(f"c{number}.x",)))
        traffic.take(ended(number, f"n{number}", "ada", code="x", message="m" * 5000))
        traffic.take(begun(f"r{number}", is_restart=True))
    assert (len(traffic._seconds), len(traffic._restarts)) == (KEPT_LATENCIES, KEPT_RESTARTS)
    assert sum(len(each.tools) for each in traffic._tasks.values()) == MAX_TOOLS
    assert len(traffic.failures.after(0)) == KEPT_FAILURES
    assert len(traffic.lines.after(0)) == KEPT_LINES
    measures = traffic.measures("t")
    assert (len(measures["nodes"]), len(measures["edges"])) == (MAX_COUNTED, MAX_COUNTED)
    assert max(len(failure.message) for _, failure in traffic.failures.after(0)) == MAX_PAGE_TEXT
    assert traffic._running == {}
    traffic.forget_all_but(frozenset())
    assert traffic.measures("t")["nodes"] == {}


def test_a_missing_node_is_not_counted_and_other_commands_have_no_latency() -> None:
    traffic = Traffic(ADA)
    traffic.take(started(1, "typo", "ada"))
    assert traffic.measures("t")["nodes"] == {"typo": [1, 1, 0]}
    traffic.take(ended(1, "typo", "ada", code="node_not_found"))
    traffic.take(ended(3, "typo", "ada", code="tool_not_found"))
    assert traffic.measures("t")["edges"] == []
    traffic.take(ended(2, None, "ada", command="task_status"))
    assert (traffic.measures("t")["nodes"], traffic.sums()["calls"], len(traffic.lines.after(0))) == ({}, 2, 2)
    assert (traffic.sums()["failedCalls"], traffic.measures("t")["failedCalls"], traffic.tools("t", 0.0)) == (2, 2, [])


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300))
def test_percentiles_are_values_at_their_ranks(seconds: list[float]) -> None:
    found = percentiles(seconds)
    for name, share in (("p50", 50), ("p99", 99)):
        value = found[name]
        assert value in seconds
        assert sum(each <= value for each in seconds) * 100 >= share * len(seconds)
        assert sum(each < value for each in seconds) * 100 < share * len(seconds)


async def test_an_engine_publishes_nothing_before_the_first_page_and_after_the_last() -> None:
    engine = LocalEngine()
    ends: list[None] = []
    watch = Watch(engine, ADA, asyncio.get_running_loop(), lambda: ends.append(None))
    events = engine.host.events
    assert (events.watches_calls, events.flow) == (False, None)
    watch.enter()
    watch.enter()
    await watch.after(0)
    assert events.watches_calls
    assert events.wants(LaneIn)
    assert not events.with_data
    watch.leave()
    assert events.watches_calls
    watch.leave()
    assert (events.watches_calls, events.flow, ends) == (False, None, [None])
    await watch.after(watch.number)  # waits for nothing any more
    await engine.aclose()


class Sulking(LocalEngine):
    """An engine that does not answer some operations."""

    refused: tuple[type[Operation], ...] = ()

    async def ask(self, operation: Operation, caller: Caller = ANONYMOUS, **more: Any) -> tuple[bytes, bytes | None]:
        if isinstance(operation, self.refused):
            raise ToolTimeout("it thinks")
        return await super().ask(operation, caller, **more)


async def test_what_does_not_come_in_time_leaves_the_page_as_it_was_until_it_comes() -> None:
    engine = Sulking()
    engine.refused = (ListTasks,)
    engine.load({"components": [{"id": "t", "provider": "tools", "config": {}}]}, token="kept")
    watch = Watch(engine, OPERATOR, asyncio.get_running_loop(), lambda: None)
    watch.enter()
    await watch.after(0)
    assert watch.rows == {}
    engine.refused = ()
    await watch.after(1)
    before = watch.rows
    assert set(before) == {"kept"}
    engine.refused = (TaskStatus,)
    await watch.after(2)
    assert watch.rows == before
    watch.leave()
    await engine.aclose()


def test_a_pipeline_whose_process_died_has_failed() -> None:
    row = {
        "name": "n.s",
        "source": "s",
        "projectId": "p",
        "startTime": 1.0,
        "endTime": 2.0,
        "totalCount": 3,
        "completedCount": 1,
    }
    told = [ended_row({**row, "state": state, "exitCode": code}) for state, code in ((5, 0), (6, None), (5, -9), (5, None))]
    assert [(each["name"], each["state"], each["failed"]) for each in told] == [
        ("n", "Completed", 2),
        ("n", "Cancelled", 2),
        ("n", "Failed", 2),
        ("n", "Failed", 2),
    ]


def test_a_task_of_another_user_makes_no_list() -> None:
    traffic = Traffic(ADA)
    traffic.is_list_old = False
    traffic.take(TaskBegun(time=0.0, name="n", project_id="p", source="s", user_id="bob"))
    assert not traffic.is_list_old
    traffic.take(TaskBegun(time=0.0, name="n", project_id="p", source="s", user_id="ada"))
    assert traffic.is_list_old


def test_equal_errors_are_one_with_their_number_and_come_anew_when_it_grows() -> None:
    traffic = Traffic(ADA)
    for number, message in enumerate(("a", "b", "a", "a")):
        traffic.take(ended(number, "n", "ada", time=float(number), code="x", message=message))
    told = traffic.failures.after(0)
    assert [(each.message, each.count, each.first, each.time) for _, each in told] == [("b", 1, 1.0, 1.0), ("a", 3, 0.0, 3.0)]
    last, first_id = told[-1][0], told[-1][1].id
    assert traffic.failures.after(last) == []
    traffic.take(ended(9, "n", "ada", time=9.0, code="x", message="a"))
    ((_, again),) = traffic.failures.after(last)
    assert (again.id, again.count, again.first, again.time) == (first_id, 4, 0.0, 9.0)
    traffic.take(ended(10, "n", "ada", code="y", message="a"))
    traffic.take(ended(11, "n", "ada", "u", code="x", message="a"))
    assert len(traffic.failures.after(0)) == 4


@given(histories())
def test_the_headline_is_the_sum_of_the_rows_and_of_the_errors(told: list[EngineEvent]) -> None:
    traffic = Traffic(OPERATOR)
    for event in told:
        traffic.take(event)
    sums, rows = traffic.sums(), shown(traffic).values()
    for name in ("calls", "failedCalls", "completed", "failed"):
        assert sums[name] == sum(row[name] for row in rows)
    assert sums["failedCalls"] + sums["failed"] == sum(each.count for _, each in traffic.failures.after(0))


def test_restarts_are_counted_with_their_reason_and_the_counts_go_on() -> None:
    traffic = Traffic(ADA)
    traffic.take(begun("t"))
    assert traffic.measures("t")["restarts"] is None
    traffic.take(ended(1, "n", "ada"))
    traffic.take(gone("t", "restarted"))
    traffic.forget_all_but(frozenset())  # a page may look in between
    traffic.take(begun("t", is_restart=True, time=5.0))
    assert traffic.measures("t")["restarts"] == {"count": 1, "time": 5.0, "reason": "restarted"}
    assert traffic.measures("t")["calls"] == 1
    traffic.take(gone("t", "terminated"))
    traffic.take(begun("t"))  # another pipeline under the same token
    assert traffic.measures("t")["restarts"] is None
    traffic.take(gone("served", "lost", None))
    traffic.take(begun("served", None, time=7.0))
    assert traffic.measures("served")["restarts"] == {"count": 1, "time": 7.0, "reason": "lost"}
    traffic.take(gone("own", "lost"))  # nobody loads it again by itself
    traffic.take(begun("own"))
    assert traffic.measures("own")["restarts"] is None
    traffic.take(begun("bobs", "bob", is_restart=True))
    assert traffic.sums()["restarts"] == 2


def test_the_times_of_a_tool_are_its_last_steps_with_nested_calls_and_failures() -> None:
    traffic = Traffic(ADA)
    now = 1000 * STEP
    for age, seconds, code in ((STEPS, 9.0, None), (STEPS - 1, 1.0, None), (1, 1.0, "x"), (1, 3.0, None), (0, 2.0, None)):
        traffic.take(ended(1, "n", "ada", time=now - age * STEP, seconds=seconds, code=code))
    traffic.take(ended(2, "n", "ada", time=now, seconds=4.0, callers=("a.x",)))
    traffic.take(ended(3, None, "ada", time=now, command="open"))
    traffic.take(ended(4, "n", "bob", time=now))
    (tool,) = traffic.tools("t", now)
    assert (tool["node"], tool["tool"], tool["calls"], tool["failed"]) == ("n", "x", 6, 1)
    assert tool["steps"] == [[STEPS - 1, 1, 0, 1.0, 1.0], [1, 2, 1, 2.0, 3.0], [0, 2, 0, 3.0, 4.0]]
    assert (tool["p50"], tool["p99"]) == (2.0, 9.0)
    assert traffic.tools("other", now) == []
    traffic.forget_all_but(frozenset())
    assert (traffic.tools("t", now), traffic._tools) == ([], 0)
