"""What the published client hears of the flow of objects, of the output of nodes, and of details."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from published_server import PublishedServer, pipeline
from test_published_events import Ear, ear, listener

if TYPE_CHECKING:
    from rocketride import RocketRideClient

__all__ = ["ear", "listener"]

pytestmark = [pytest.mark.promise("ws:rocketride"), pytest.mark.promise("monitor:events")]


async def flow(heard: Ear) -> list[dict[str, Any]]:
    """The bodies of the flow of one object, up to its end."""
    bodies: list[dict[str, Any]] = []
    while not bodies or bodies[-1]["op"] != "end":
        bodies.append((await heard.wanted("apaevt_flow"))["body"])
    return bodies


@pytest.mark.parametrize("level", ["metadata", "summary", "full"])
async def test_it_hears_the_flow_of_traced_pipelines(listener: RocketRideClient, ear: Ear, level: str) -> None:
    token = (await listener.use(pipeline=pipeline(level, "teller", "refuser"), pipelineTraceLevel=level))["token"]
    await listener.add_monitor({"token": token}, ["flow"])
    await listener.send(token, "hello", {"name": "a.txt"}, "text/plain")
    bodies = await flow(ear)
    assert [(body["op"], body["component"]) for body in bodies if body["trace"].get("lane") == "text"] == [
        ("begin", "a.txt"),
        ("enter", "teller"),
        ("enter", "refuser"),
        ("enter", "out"),
        ("leave", "out"),
        ("leave", "refuser"),
        ("leave", "teller"),
    ]
    entered = next(body for body in bodies if body["op"] == "enter" and body["trace"]["lane"] == "text")
    assert entered["trace"]["data"] == {"length": 5} | ({"text": "hello"} if level == "full" else {})
    assert ("result" in bodies[-1]) == (level != "metadata")
    if level != "metadata":
        assert bodies[-1]["result"]["text"] == ["hello\n\n"]
    stack: list[str] = []
    for body in bodies:  # as the client's own readers of flows keep it
        assert isinstance(body["id"], int)
        assert (body["project_id"], body["source"]) == (level, "w")
        if body["op"] in ("begin", "enter"):
            stack.append(body["component"])
        elif body["op"] == "leave":
            assert stack.pop() == body["component"]
        assert body["pipes"] == ([] if body["op"] == "end" else stack)
    with pytest.raises(RuntimeError, match="refused"):
        await listener.send(token, "fail", {"name": "b.txt"}, "text/plain")
    failed = await flow(ear)
    assert {body["component"] for body in failed if body["trace"].get("result") == "error"} == {"teller", "refuser"}
    assert "this text is refused" in failed[-1]["trace"]["error"]
    status = await listener.get_task_status(token)
    assert status["componentStats"]["teller"]["calls"] >= 2
    assert status["pipeflow"]["byPipe"] == {}
    await listener.terminate(token)


async def test_a_pipeline_without_a_level_has_no_flow(listener: RocketRideClient, ear: Ear) -> None:
    await listener.add_monitor({"token": "*"}, ["flow", "task"])
    for level in (None, "none"):
        token = (await listener.use(pipeline=pipeline("untraced"), pipelineTraceLevel=level))["token"]
        await listener.send(token, "hello", {"name": "a.txt"}, "text/plain")
        await listener.terminate(token)
        await ear.task(action="end", projectId="untraced")
    assert not [event for event in ear.events if event["event"] == "apaevt_flow"]
    with pytest.raises(RuntimeError, match="no such level"):
        await listener.use(pipeline=pipeline("untraced"), pipelineTraceLevel="loud")


async def test_it_hears_what_nodes_print_and_details_of_objects(listener: RocketRideClient, ear: Ear) -> None:
    token = (await listener.use(pipeline=pipeline("printed", "teller", "refuser")))["token"]
    await listener.set_events(token, ["output", "detail"])
    with pytest.raises(RuntimeError, match="refused"):
        await listener.send(token, "fail", {"name": "a.txt"}, "text/plain")
    begun = (await ear.wanted("apaevt_status_object"))["body"]
    assert (begun["object"], begun["size"]) == ("a.txt", 4)
    printed = (await ear.wanted("output"))["body"]
    assert (printed["category"], printed["output"]) == ("console", "heard fail\n")
    assert "this text is refused" in (await ear.wanted("apaevt_status_error"))["body"]["message"]
    counts = (await ear.wanted("apaevt_status_counts"))["body"]
    assert (counts["totalCount"], counts["failedCount"], counts["failedSize"]) == (1, 1, 4)
    await listener.terminate(token)
    assert (await ear.wanted("apaevt_status_state"))["body"]["service"] is False


async def test_thousands_of_steps_come_in_order(listener: RocketRideClient, ear: Ear) -> None:
    token = (await listener.use(pipeline=pipeline("many", "teller"), pipelineTraceLevel="full", threads=8))["token"]
    await listener.add_monitor({"token": token}, ["flow"])
    pipes = [await (await listener.pipe(token, {"name": f"{n}"}, "text/plain")).open() for n in range(8)]
    for _ in range(100):
        for pipe in pipes:
            await pipe.write(b"x" * 100)
    for pipe in pipes:
        await pipe.close()
    heard: dict[int, list[dict[str, Any]]] = {pipe.pipe_id: [] for pipe in pipes if pipe.pipe_id is not None}
    while any(not bodies or bodies[-1]["op"] != "end" for bodies in heard.values()):
        body = (await ear.wanted("apaevt_flow"))["body"]
        heard[body["id"]].append(body)
        assert "dropped" not in body, json.dumps(body)
    for bodies in heard.values():
        assert sum(body["op"] == "enter" and body["trace"]["lane"] == "text" for body in bodies) >= 200
        assert len(bodies[0]["pipes"]) == 1
    await listener.terminate(token)


async def test_two_users_hear_nothing_of_each_other(tmp_path_factory: pytest.TempPathFactory) -> None:
    from published_server import served
    from rocketride import RocketRideClient

    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text('the-key-of-user-ada = "ada"\nthe-key-of-user-bob = "bob"\n')
    keys.chmod(0o600)
    with served("--keys", str(keys), key=None) as server:
        assert isinstance(server, PublishedServer)
        heard = {name: Ear() for name in ("ada", "bob")}
        clients = {
            name: RocketRideClient(uri=server.url, auth=f"the-key-of-user-{name}", on_event=heard[name]) for name in heard
        }
        tokens: dict[str, str] = {}
        for name, each in clients.items():
            await each.connect()
            await each.add_monitor({"token": "*"}, ["all"])
            used = await each.use(pipeline=pipeline("same", "teller"), pipelineTraceLevel="full")
            tokens[name] = used["token"]
        for name, each in clients.items():
            await each.send(tokens[name], f"secret of {name}", {"name": f"{name}.txt"}, "text/plain")
        for name, each in clients.items():
            other = "bob" if name == "ada" else "ada"
            await heard[name].wanted("apaevt_flow", op="end")
            with pytest.raises(RuntimeError, match="not running"):
                await each.add_monitor({"token": tokens[other]}, ["flow"])
            await each.terminate(tokens[name])
            await heard[name].task(action="end")
        for name, each in clients.items():
            await each.disconnect()
            other = "bob" if name == "ada" else "ada"
            assert f"secret of {other}" not in str(heard[name].all)
            assert f"{other}.txt" not in str(heard[name].all)


async def test_it_hears_of_tasks_in_processes_of_their_own_as_of_others() -> None:
    from published_server import KEY, served
    from rocketride import RocketRideClient

    with served("--trust-clients", "--isolation", "process") as server:
        heard = Ear()
        client = RocketRideClient(uri=server.url, auth=KEY, on_event=heard)
        await client.connect()
        await client.add_monitor({"token": "*"}, ["all"])
        used = await client.use(pipeline=pipeline("apart", "teller", "refuser"), pipelineTraceLevel="full")
        await client.send(used["token"], "hello", {"name": "a.txt"}, "text/plain")
        bodies = await flow(heard)
        assert [body["component"] for body in bodies if body["trace"].get("lane") == "text" and body["op"] == "enter"] == [
            "teller",
            "refuser",
            "out",
        ]
        assert "heard hello\n" in [event["body"]["output"] for event in heard.all if event["event"] == "output"]
        [counts] = [event["body"] for event in heard.all if event["event"] == "apaevt_status_counts"]
        assert (counts["totalCount"], counts["completedCount"]) == (1, 1)
        status = await heard.status(completedCount=1)
        assert status["componentStats"]["refuser"]["calls"] >= 1
        await client.terminate(used["token"])
        assert (await heard.task(action="end"))["body"]["reason"] == "terminated"
        await client.disconnect()
