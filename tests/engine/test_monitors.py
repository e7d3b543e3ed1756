"""Monitors: what clients are told of tasks, when, and whose."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from engine_world import World, pipeline_of, until, world

from rrext.engine.interface.call import Caller
from rrext.engine.interface.clients import ConnectedClient
from rrext.engine.interface.operations import Dashboard, Execute, Monitor, Open, Restart, TaskStatus, Terminate, Write
from rrext.engine.views.monitors import EVENT_TYPES, MAX_IGNORED
from rrext.nodes.base.node import Node

pytestmark = pytest.mark.promise("monitor:events")

SENT = {f"apaevt_status_{name}" for name in ("object", "error", "counts", "state", "update")} | {
    f"apaevt_{name}" for name in ("flow", "task", "sse")
}
"""The events of monitors, beside `output`."""

ADA, BOB = (Caller(connection_id=name, user_id=name, trusted=False) for name in ("ada", "bob"))


class Teller(Node):
    """Publishes what it reads."""

    provider = "teller"
    lanes = {"text": ()}

    def write_text(self, text: str) -> None:
        print("got", text)
        self.publish("read", {"text": text})
        if text == "bad":
            raise ValueError("as asked")


def pipeline(project: str = "p") -> dict[str, Any]:
    return {**pipeline_of(Teller), "project_id": project}


class Listener:
    """A connected client that notes its events."""

    def __init__(self, w: World, caller: Caller) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.reads = True
        self._world, self._caller = w, caller
        w.engine.clients[caller.connection_id] = ConnectedClient(caller, self._hear)

    def _hear(self, name: str, body: dict[str, Any]) -> bool:
        if self.reads:
            self.events.append((name, body))
        return self.reads

    async def monitor(self, **given: Any) -> None:
        assert await self._world.ask(Monitor(**given), caller=self._caller).answer() == {}
        await asyncio.sleep(0)

    async def ask(self, operation: Any) -> Any:
        return await self._world.ask(operation, caller=self._caller).answer()

    async def send(self, token: str, text: str, name: str = "a.txt") -> int:
        """Send an object, and return its pipe."""
        asked: dict[str, Any] = {"name": name, "size": len(text)}
        pipe: int = (await self.ask(Open(token=token, mime_type="text/plain", object=asked)))["pipe_id"]
        await self._world.ask(Write(pipe_id=pipe, data=text), caller=self._caller)._news.wait()
        await self._world.close(pipe, caller=self._caller).answer()
        return pipe

    def take(self, *names: str) -> list[Any]:
        events, self.events = self.events, []
        return [tuple(body.get(name) for name in names) for _, body in events]


async def test_a_status_is_told_at_once_and_then_once_a_second_if_it_changed() -> None:
    async with world(Teller) as w:
        ada = Listener(w, ADA)
        await ada.ask(Execute(pipeline=pipeline(), token="hers"))
        await ada.monitor(token="hers", types=["summary"])
        assert ada.take("__id", "state", "completedCount") == [("hers.source", 3, 0)]
        w.clock.advance(1)
        assert ada.take() == []
        for _ in range(2):
            pipe = (await ada.ask(Open(token="hers", mime_type="text/plain")))["pipe_id"]
            await w.close(pipe, caller=ADA).answer()
        w.clock.advance(1)
        assert ada.take("completedCount") == [(2,)]
        await ada.ask(Terminate(token="hers"))
        assert ada.take("state", "completed") == [(6, True)]
        await ada.monitor(token="hers", types=4)
        assert ada.take("state") == [(6,)]
        await ada.monitor(token="hers", types=[])
        w.clock.advance(5)
        assert ada.take() == []


async def test_a_project_without_a_task_is_not_running_and_is_told_when_it_does() -> None:
    async with world(Teller) as w:
        ada = Listener(w, ADA)
        await ada.monitor(project_id="q", source="source", types=["SUMMARY"])
        assert ada.take("__id", "state", "status") == [("q.source", 0, "Not running")]
        await ada.ask(Execute(pipeline=pipeline("q")))
        assert ada.take("project_id", "state") == [("q", 3)]


async def test_tasks_are_told_when_they_begin_restart_and_end() -> None:
    async with world(Teller) as w:
        ada = Listener(w, ADA)
        await ada.monitor(token="*", types=["Task"])
        assert [row["id"] for row in ada.events[0][1]["tasks"]] == ["t.source"]  # the server's own
        ada.take()
        await ada.ask(Execute(pipeline=pipeline(), token="hers", name="Hers", ttl=5))
        await ada.ask(Restart(token="hers", pipeline=pipeline()))
        w.clock.advance(5)
        await until(lambda: len(ada.events) == 3)
        assert ada.take("action", "name", "projectId", "source", "id", "reason") == [
            ("begin", "Hers", "p", "source", "hers.source", None),
            ("restart", "Hers", "p", "source", "hers.source", None),
            ("end", "Hers", "p", "source", "hers.source", "ttl"),
        ]


async def test_messages_of_nodes_are_told_with_their_pipe() -> None:
    async with world(Teller) as w:
        ada = Listener(w, ADA)
        await ada.ask(Execute(pipeline=pipeline(), token="hers"))
        pipes = [(await ada.ask(Open(token="hers", mime_type="text/plain")))["pipe_id"] for _ in range(2)]
        await ada.monitor(token="hers", types=["SSE"], pipe_id=pipes[1])
        for pipe in pipes:
            await ada.ask(Write(pipe_id=pipe, data=f"to {pipe}"))
        assert ada.take("pipe_id", "type", "data") == [(pipes[1], "read", {"text": f"to {pipes[1]}"})]
        w.engine.disconnect("ada")
        assert not w.engine.host.events.messages


@pytest.mark.promise("monitor:users:apart")
async def test_nobody_is_told_of_another_user() -> None:
    async with world(Teller) as w:
        ada, bob = Listener(w, ADA), Listener(w, BOB)
        await bob.monitor(token="*", types=["ALL"])
        await bob.monitor(project_id="p", source="source", types=["ALL"])
        assert {event["action"] for _, event in bob.events if "action" in event} == {"running"}
        bob.take()
        await ada.ask(Execute(pipeline=pipeline(), token="hers"))
        shared = (await ada.ask(Open(token="t", mime_type="text/plain", object={"name": "secret"})))["pipe_id"]
        own = (await ada.ask(Open(token="hers", mime_type="text/plain")))["pipe_id"]
        for pipe in (shared, own):
            await ada.ask(Write(pipe_id=pipe, data="x"))
        w.clock.advance(1)
        await ada.ask(Terminate(token="hers"))
        assert "hers" not in str(bob.events)
        assert "secret" not in str(bob.events)
        assert {name for name, _ in bob.events} == {"apaevt_status_update"}  # of the server's own pipeline
        error = await w.ask(Monitor(token="hers", types=["ALL"]), caller=BOB).error()
        assert error.code == "TASK_NOT_REGISTERED"


@pytest.mark.parametrize(
    "given",
    [
        {"source": "s", "types": ["TASK"]},
        {"project_id": "p", "types": 4},
        {"token": "*", "types": ["TASKS"]},
        {"token": "*", "types": -1},
        {"token": "*", "types": 1024},
        {"token": "*", "types": "1024"},
        {"token": "*", "types": "-1"},
        {"token": "*", "types": "9" * 5000},
        {"token": "*", "types": ["apaevt_flows", "TASKS"]},
        {"token": "*", "types": ["TASK", *(f"TASK{n}" for n in range(MAX_IGNORED + 1))]},
    ],
)
async def test_a_monitor_of_nothing_is_refused(given: dict[str, Any]) -> None:
    async with world(Teller) as w:
        assert (await w.ask(Monitor(**given)).error()).code == "invalid_arguments"


async def test_a_type_that_nobody_knows_is_named_in_the_answer_and_once_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with world(Teller) as w:
        ada = Listener(w, ADA)
        types = ["TASK", "apaevt_stats_update", "SUMARY", "nothing\nlike it" + "x" * 100]
        for _ in range(3):
            answer = await ada.ask(Monitor(token="*", types=types))
            assert [each["near"][:1] for each in answer["ignored"]] == [["apaevt_status_update"], ["SUMMARY"], []]
            assert [each["name"] for each in answer["ignored"]] == [*types[1:3], types[3][:80]]
        assert len(caplog.messages) == 3
        assert not [each for each in caplog.messages if "\n" in each]
        await ada.ask(Execute(pipeline=pipeline(), token="hers"))
        assert ada.take("action") == [("running",), ("running",), ("running",), ("begin",)]


@pytest.mark.parametrize("types", ["6", "apaevt_status_update", ["apaevt_status_Update"], ["apaevt_status_upload", "SUMMARY"]])
async def test_a_type_is_named_by_its_events_too_or_by_its_bits_as_text(types: Any) -> None:
    async with world(Teller) as w:
        ada = Listener(w, ADA)
        await ada.ask(Execute(pipeline=pipeline(), token="hers"))
        await ada.monitor(token="hers", types=types)
        assert ada.take("__id", "state") == [("hers.source", 3)]


async def test_each_event_that_is_sent_is_a_name_of_the_type_that_sends_it() -> None:
    async with world(Teller) as w:
        for event, bit in EVENT_TYPES.items():
            ada = Listener(w, Caller(event, "ada", trusted=False))
            await ada.monitor(token="*", types=[event])
            await ada.ask(Execute(pipeline={**pipeline(), "project_id": event}, token=event, pipeline_trace_level="full"))
            await ada.send(event, "bad")
            w.clock.advance(1)
            await ada.ask(Terminate(token=event))
            sent = {name for name, _ in ada.events}
            assert {EVENT_TYPES[name] for name in sent} <= {bit}
            assert event in sent or event not in SENT
            await ada.monitor(token="*", types=[])


async def test_a_monitor_without_a_target_is_of_all_tasks() -> None:
    async with world(Teller) as w:
        ada = Listener(w, ADA)
        await ada.monitor(types=["TASK"])
        await ada.ask(Execute(pipeline=pipeline(), token="t"))
        assert ada.take("action") == [("running",), ("begin",)]
        await ada.monitor(types=[])
        await ada.ask(Terminate(token="t"))
        assert ada.take() == []


async def test_the_flow_of_a_traced_pipeline_is_told_step_by_step() -> None:
    async with world(Teller) as w:
        ada = Listener(w, ADA)
        await ada.ask(Execute(pipeline=pipeline(), token="hers", pipeline_trace_level="summary"))
        await ada.monitor(token="hers", types=["flow"])
        pipe = await ada.send("hers", "one")
        named = {"project_id": "p", "source": "source", "__id": "hers.source", "id": pipe}
        assert [{name: body[name] for name in named} for _, body in ada.events] == [named] * 4
        assert {name for name, _ in ada.events} == {"apaevt_flow"}
        assert all(body["eventTime"] > 1e9 for _, body in ada.events)
        result = ada.events[-1][1]["result"]
        assert result["name"] == "a.txt"
        assert ada.take("op", "component", "pipes", "trace") == [
            ("begin", "a.txt", ("a.txt",), {"lane": "text", "data": {"mimeType": "text/plain", "size": 3}}),
            ("enter", "teller", ("a.txt", "teller"), {"lane": "text", "data": {"length": 3}}),
            ("leave", "teller", ("a.txt",), {"lane": "text", "result": "continue"}),
            ("end", "a.txt", (), result),
        ]


async def test_a_target_with_more_than_a_token_is_that_of_the_token() -> None:
    async with world(Teller) as w:
        ada = Listener(w, ADA)
        await ada.monitor(token="*", project_id="other", source="source", types=["TASK"])
        ada.take()
        await ada.ask(Execute(pipeline=pipeline(), token="hers"))
        assert ada.take("action") == [("begin",)]
        await ada.monitor(token="*", types=[])
        await ada.monitor(project_id="p", source="*", types=["TASK"])
        ada.take()
        await ada.ask(Terminate(token="hers"))
        assert ada.take("action") == [("end",)]


async def test_a_flow_is_of_one_pipe_of_traced_pipelines_only_and_ends_with_its_monitor() -> None:
    async with world(Teller) as w:
        ada = Listener(w, ADA)
        await ada.ask(Execute(pipeline=pipeline(), token="hers", pipeline_trace_level="metadata"))
        await ada.ask(Execute(pipeline=pipeline("q"), token="other"))
        await ada.monitor(token="*", types=["flow"])
        await ada.send("other", "one")
        assert ada.take() == []
        await ada.monitor(token="*", types=[])
        pipes = [(await ada.ask(Open(token="hers", mime_type="text/plain")))["pipe_id"] for _ in range(2)]
        await ada.monitor(project_id="p", source="source", pipe_id=pipes[1], types=["flow"])
        for pipe in pipes:
            await ada.ask(Write(pipe_id=pipe, data="x"))
        assert ada.take("id", "op") == [(pipes[1], "enter"), (pipes[1], "leave")]
        await ada.monitor(project_id="p", source="source", pipe_id=pipes[1], types=[])  # in the middle of the object
        for pipe in pipes:
            await w.close(pipe, caller=ADA).answer()
        assert ada.take() == []


async def test_the_flow_of_pipes_is_told_when_their_task_is_terminated() -> None:
    async with world(Teller) as w:
        ada = Listener(w, ADA)
        await ada.ask(Execute(pipeline=pipeline(), token="hers", pipeline_trace_level="full"))
        await ada.ask(Open(token="hers", mime_type="text/plain", object={"name": "a.txt"}))
        await ada.monitor(token="hers", types=["flow", "TASK"])
        ada.take()
        await ada.ask(Terminate(token="hers"))
        assert ada.take("op", "action", "component") == [("end", None, "a.txt"), (None, "end", None)]


async def test_details_are_told_of_objects_and_of_tasks() -> None:
    async with world(Teller) as w:
        ada = Listener(w, ADA)
        await ada.monitor(token="*", types=["detail"])
        await ada.ask(Execute(pipeline=pipeline(), token="hers"))
        await ada.send("hers", "good")
        await ada.send("hers", "bad", "b.txt")
        await ada.ask(Terminate(token="hers"))
        assert {body["__id"] for _, body in ada.events} == {"hers.source"}
        told = [(name, {key: body[key] for key in body.keys() - NAMES}) for name, body in ada.events]
        assert [name.removeprefix("apaevt_status_") for name, _ in told] == [
            "state", "object", "counts", "object", "error", "counts", "state"
        ]  # fmt: skip
        bodies = [body for _, body in told]
        assert (bodies[0], bodies[-1]) == ({"service": True}, {"service": False})
        assert bodies[3] == {"object": "b.txt", "size": 3}
        assert bodies[4]["message"].startswith('Node "teller" failed in write_text: ValueError')
        assert bodies[4]["code"] == "tool_failed"
        counts = {"completedCount": 1, "completedSize": 4, "failedCount": 1, "failedSize": 3, "totalCount": 2, "totalSize": 7}
        assert bodies[5] == {**counts, "wordsCount": 2, "wordsSize": 7, "rateCount": 0, "rateSize": 0}


NAMES = {"project_id", "source", "pipe_id", "eventTime", "__id"}


@pytest.mark.promise("monitor:users:apart")
async def test_output_of_nodes_is_told_to_the_user_of_the_pipe() -> None:
    async with world(Teller) as w:
        ada, bob = Listener(w, ADA), Listener(w, BOB)
        for listener in (ada, bob):
            await listener.monitor(token="*", types=["OUTPUT"])
            await listener.ask(Execute(pipeline=pipeline(), token="own"))
        await ada.send("own", "one")
        await bob.send("own", "two")
        await ada.send("t", "of the server's pipeline")
        assert ada.take("category", "output", "__id") == [("console", "got one\n", "own.source")]
        assert bob.take("category", "output") == [("console", "got two\n")]


@pytest.mark.promise("monitor:users:apart")
async def test_nobody_looks_into_the_server_s_own_pipelines() -> None:
    async with world(Teller) as w:
        ada, operator = Listener(w, ADA), Listener(w, Caller("op"))
        await operator.ask(Execute(pipeline=pipeline(), token="served", pipeline_trace_level="full"))
        for listener in (ada, operator):
            await listener.monitor(token="served", types=["FLOW", "OUTPUT"])
        await ada.send("served", "hers")
        assert ada.take() == []
        assert (await ada.ask(TaskStatus(token="served")))["componentStats"] == {}
        assert operator.take("op")[0] == ("begin",)


async def test_a_reader_who_missed_the_last_status_is_told_it_again() -> None:
    async with world(Teller) as w:
        ada = Listener(w, ADA)
        await ada.ask(Execute(pipeline=pipeline(), token="hers"))
        await ada.monitor(token="hers", types=["summary"])
        ada.take()
        ada.reads = False
        await ada.send("hers", "one")
        w.clock.advance(1)
        ada.reads = True
        w.clock.advance(1)
        assert ada.take("completedCount") == [(1,)]


async def test_an_end_that_nobody_remembers_stops_no_monitor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rrext.engine.tasks.registry.MAX_FINISHED_TASKS", 0)
    async with world(Teller) as w:
        ada = Listener(w, ADA)
        await ada.monitor(token="*", types=["TASK", "SUMMARY"])
        ada.take()
        for _ in range(2):
            await ada.ask(Execute(pipeline=pipeline(), token="hers"))
            await ada.ask(Terminate(token="hers"))
        assert [action for (action,) in ada.take("action") if action] == ["begin", "end"] * 2


async def test_a_monitor_of_a_task_that_nobody_remembers_ends_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rrext.engine.tasks.registry.MAX_FINISHED_TASKS", 0)
    async with world(Teller) as w:
        ada = Listener(w, ADA)
        await ada.ask(Execute(pipeline=pipeline(), token="hers"))
        await ada.monitor(token="hers", types=["SSE"])
        await ada.ask(Terminate(token="hers"))
        await ada.monitor(token="hers", types=[])
        assert not w.engine.host.events.messages


@pytest.mark.promise("monitor:users:apart")
async def test_names_of_objects_of_others_are_in_no_status() -> None:
    async with world(Teller) as w:
        ada, bob = Listener(w, ADA), Listener(w, BOB)
        await ada.send("t", "one", "her secret")
        await bob.monitor(token="*", types=["ALL"])
        assert bob.events
        assert "her secret" not in str(bob.events)
        assert "her secret" not in str(await bob.ask(TaskStatus(token="t")))


async def test_the_dashboard_tells_the_monitors_of_each_connection() -> None:
    async with world(Teller) as w:
        ada, again, bob = Listener(w, ADA), Listener(w, Caller("ada-2", "ada", trusted=False)), Listener(w, BOB)
        await ada.ask(Execute(pipeline=pipeline("p"), token="one"))
        await ada.ask(Execute(pipeline=pipeline("q"), token="two"))
        await bob.ask(Execute(pipeline=pipeline("p"), token="his"))
        for number in range(1000):
            await ada.monitor(project_id="p", source="*", pipe_id=number, types=["SSE"])
        await again.monitor(token="*", types=["task", "SUMMARY"])
        await again.monitor(project_id="r", source="s", types=["FLOW"])
        await again.monitor(token="two", types=["task"])
        await bob.monitor(token="*", types=["all"])
        board = await ada.ask(Dashboard())
        first, second = board["connections"]
        assert (len(first["monitors"]), first["monitors"][7]) == (1000, {"key": "p.* pipe 7", "flags": ["sse"]})
        assert first["attachedTasks"] == ["one.source"]
        assert second["monitors"] == [
            {"key": "*", "flags": ["summary", "task"]},
            {"key": "r.s", "flags": ["flow"]},
            {"key": "two.source", "flags": ["task"]},
        ]
        assert second["attachedTasks"] == ["t.source", "one.source", "two.source"]  # the first is the server's own
        connections = {task["name"]: task["connections"] for task in board["tasks"]}
        assert connections == {"t.source": 1, "one.source": 2, "two.source": 1}
