"""Monitors: what clients are told of tasks, when, and whose."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from engine_world import World, pipeline_of, until, world

from rrext.engine.interface.call import Caller
from rrext.engine.interface.clients import ConnectedClient
from rrext.engine.interface.operations import Execute, Monitor, Open, Restart, Terminate, Write
from rrext.nodes.base.node import Node

ADA, BOB = (Caller(connection_id=name, user_id=name, trusted=False) for name in ("ada", "bob"))


class Teller(Node):
    """Publishes what it reads."""

    provider = "teller"
    lanes = {"text": ()}

    def write_text(self, text: str) -> None:
        self.publish("read", {"text": text})


def pipeline(project: str = "p") -> dict[str, Any]:
    return {**pipeline_of(Teller), "project_id": project}


class Listener:
    """A connected client that notes its events."""

    def __init__(self, w: World, caller: Caller) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self._world, self._caller = w, caller
        w.engine.clients[caller.connection_id] = ConnectedClient(caller, lambda name, body: self.events.append((name, body)))

    async def monitor(self, **given: Any) -> None:
        assert await self._world.ask(Monitor(**given), caller=self._caller).answer() == {}
        await asyncio.sleep(0)

    async def ask(self, operation: Any) -> Any:
        return await self._world.ask(operation, caller=self._caller).answer()

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
        assert not w.engine._host.events.messages


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
    "given", [{"source": "s", "types": ["TASK"]}, {"project_id": "p", "types": 4}, {"token": "*", "types": ["TASKS"]}]
)
async def test_a_monitor_of_nothing_is_refused(given: dict[str, Any]) -> None:
    async with world(Teller) as w:
        assert (await w.ask(Monitor(**given)).error()).code == "invalid_arguments"


async def test_a_monitor_without_a_target_is_of_all_tasks() -> None:
    async with world(Teller) as w:
        ada = Listener(w, ADA)
        await ada.monitor(types=["TASK"])
        await ada.ask(Execute(pipeline=pipeline(), token="t"))
        assert ada.take("action") == [("running",), ("begin",)]
        await ada.monitor(types=[])
        await ada.ask(Terminate(token="t"))
        assert ada.take() == []
