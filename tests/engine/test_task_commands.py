"""Commands that look at tasks and connections, and the restart of a task."""

from __future__ import annotations

from typing import Any

from engine_world import World, pipeline_of, world

from rrext.engine.interface.call import Caller
from rrext.engine.interface.clients import ConnectedClient
from rrext.engine.interface.operations import (
    Dashboard,
    Execute,
    GetPipeline,
    GetToken,
    ListConnections,
    ListTaskRows,
    Open,
    ResolveConfig,
    Restart,
    TaskStatus,
    Terminate,
)
from rrext.nodes.base.node import Node
from rrext.tools.decorator import tool_function

ADA, BOB = (Caller(connection_id=name, user_id=name, trusted=False) for name in ("ada", "bob"))


class Echo(Node):
    """Says what its settings are."""

    provider = "echo"
    lanes = {"text": ()}
    profiles = {"loud": {"voice": "HI", "times": 2}}
    default_profile = "loud"

    class Config:
        voice: str = "hi"
        times: int = 1

    @tool_function
    def say(self) -> str:
        return self.config.voice * self.config.times


def pipeline(project: str = "p", voice: str = "hi", source: str = "source") -> dict[str, Any]:
    return {**pipeline_of(Echo, echo={"voice": voice, "times": 1}), "project_id": project, "source": source}


async def execute(w: World, caller: Caller = ADA, **more: Any) -> dict[str, Any]:
    return await w.ask(Execute(**{"pipeline": pipeline(), **more}), caller=caller).answer()


async def test_a_token_is_found_by_project_and_source_for_its_user_only() -> None:
    async with world(Echo) as w:
        token = (await execute(w))["token"]
        found = GetToken(project_id="p", source="source")
        assert await w.ask(found, caller=ADA).answer() == {"token": token}
        for wrong, caller in ((found, BOB), (GetToken(project_id="q", source="source"), ADA)):
            error = await w.ask(wrong, caller=caller).error()
            assert error.code == "TASK_NOT_REGISTERED"
            assert error.message.startswith("Your pipeline is not running")
            assert token not in error.message


async def test_a_pipeline_comes_back_without_values_of_variables() -> None:
    async with world(Echo) as w:
        token = (await execute(w, pipeline=pipeline(voice="${ROCKETRIDE_VOICE}"), env={"ROCKETRIDE_VOICE": "secret words"}))[
            "token"
        ]
        body = await w.ask(GetPipeline(token=token), caller=ADA).answer()
        assert body["pipeline"]["components"][1]["config"]["voice"] == "${ROCKETRIDE_VOICE}"


async def test_a_restart_keeps_token_threads_ttl_and_variables() -> None:
    async with world(Echo) as w:
        first = await execute(
            w, threads=3, ttl=50, env={"ROCKETRIDE_VOICE": "one"}, pipeline=pipeline(voice="${ROCKETRIDE_VOICE}")
        )
        token = first["token"]
        pipe = (await w.ask(Open(token=token, mime_type="text/plain"), caller=ADA).answer())["pipe_id"]
        again = Restart(token=None, project_id="p", source="source", pipeline=pipeline(voice="${ROCKETRIDE_VOICE}2"))
        body = await w.ask(again, caller=ADA).answer()
        assert (body["token"], body["projectId"]) == (token, "p")
        task = w.engine.task(token)
        assert (task.places.limit, task.ttl, task.owner) == (3, 50, "ada")
        assert (await w.ask(TaskStatus(token=token), caller=ADA).answer())["state"] == 3
        assert (await w.close(pipe, caller=ADA).error()).code == "pipe_not_open"
        assert (await w.ask(GetPipeline(token=token), caller=ADA).answer())["pipeline"]["components"][1]["config"]["voice"][
            -1
        ] == "2"


async def test_a_restart_with_a_wrong_pipeline_leaves_the_task_as_it_is() -> None:
    async with world(Echo) as w:
        token = (await execute(w))["token"]
        error = await w.ask(Restart(token=token, pipeline={"components": []}), caller=ADA).error()
        assert error.code == "invalid_pipeline"
        assert (await w.ask(TaskStatus(token=token), caller=ADA).answer())["state"] == 3


async def test_a_task_that_ended_begins_again_and_one_that_never_was_does_not() -> None:
    async with world(Echo) as w:
        token = (await execute(w))["token"]
        await w.ask(Terminate(token=token), caller=ADA).answer()
        assert (await w.ask(Restart(token=token, pipeline=pipeline()), caller=ADA).answer())["token"] == token
        assert (await w.ask(TaskStatus(token=token), caller=ADA).answer())["state"] == 3
        for caller, again in ((BOB, Restart(token=token)), (ADA, Restart(project_id="q", source="source"))):
            assert (await w.ask(again, caller=caller).error()).code == "TASK_NOT_REGISTERED"


async def test_more_threads_than_the_limit_are_the_limit() -> None:
    async with world(Echo, threads=None) as w:
        token = (await execute(w, threads=1000))["token"]
        assert w.engine.task(token).places.limit == w.engine.limits.threads


async def test_settings_are_resolved_as_a_node_gets_them() -> None:
    async with world(Echo) as w:

        async def resolved(config: dict[str, Any] | None, provider: str = "echo") -> Any:
            return await w.ask(ResolveConfig(provider=provider, config=config)).answer()

        assert await resolved(None) == {
            "provider": "echo", "profile": "loud", "resolved": {"voice": "HI", "times": 2}, "dropped": []
        }  # fmt: skip
        chosen = await resolved({"profile": "loud", "loud": {"times": 5}, "voice": "unused"})
        assert chosen["resolved"] == {"voice": "HI", "times": 5}
        assert chosen["dropped"] == ["voice"]
        assert (await resolved({"voise": "x"}))["dropped"] == ["voise"]
        assert (await w.ask(ResolveConfig(provider="ecko")).error()).code == "provider_not_found"
        assert (await w.ask(ResolveConfig(provider="echo", config={"profile": "quiet"})).error()).code == "invalid_arguments"


async def test_lists_are_paged_searched_filtered_and_sorted_and_show_only_what_is_the_callers() -> None:
    async with world(Echo) as w:
        for n in range(5):
            await execute(w, pipeline=pipeline(f"p{n}"), token=f"t{n}", name=f"Task {n}", ttl=n + 1)
        await w.ask(Terminate(token="t0"), caller=ADA).answer()
        await execute(w, caller=BOB, token="his")

        async def names(**request: Any) -> list[str]:
            body = await w.ask(ListTaskRows(**request), caller=ADA).answer()
            return [row["name"].removesuffix(".source").removeprefix("Task ") for row in body["rows"] if row["name"][0] == "T"]

        assert await names() == ["0", "1", "2", "3", "4"]
        body = await w.ask(
            ListTaskRows(page=2, page_size=2, filters={"completed": "false", "name": "Task"}), caller=ADA
        ).answer()
        assert (body["total"], body["page"], body["pageSize"], len(body["rows"])) == (4, 2, 2, 2)
        assert await names(search="tASK 3") == ["3"]
        assert await names(filters={"projectId": ["p1", "p2"]}, sort=[{"field": "projectId", "dir": "desc"}]) == ["2", "1"]
        assert await names(filters={"ttl__gte": "4", "ttl__lte": 4}) == ["3"]
        for wrong in ({"filters": {"ttl__gte": "x"}}, {"sort": [{"field": "ttl", "dir": "up"}]}):
            assert (await w.ask(ListTaskRows(**wrong), caller=ADA).error()).code == "invalid_arguments"
        row = (await w.ask(ListTaskRows(filters={"completed": True}), caller=ADA).answer())["rows"][0]
        assert (row["state"], row["exitCode"], row["status"], row["ttl"]) == (6, 0, None, 1)


async def test_the_dashboard_shows_a_user_its_own_connections_and_tasks() -> None:
    async with world(Echo) as w:
        for caller in (ADA, BOB):
            w.engine.clients[caller.connection_id] = ConnectedClient(caller)
            await execute(w, caller=caller, token=f"of {caller.user_id}")
        body = await w.ask(Dashboard(), caller=ADA).answer()
        assert [client["userId"] for client in body["connections"]] == ["ada"]
        assert "of bob" not in str(body)
        assert (body["overview"]["totalConnections"], body["overview"]["activeTasks"]) == (1, 2)  # that of the server, and hers
        listed = await w.ask(ListConnections(), caller=BOB).answer()
        assert [client["userId"] for client in listed["rows"]] == ["bob"]
