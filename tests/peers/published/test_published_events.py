"""What the published client hears of tasks, and when."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from published_server import KEY, PATIENCE, PublishedServer, component, pipeline

if TYPE_CHECKING:
    from rocketride import RocketRideClient

pytestmark = pytest.mark.promise("ws:rocketride")


class Ear:
    """Keeps the events of a client, `all` of them. `wanted` waits for one."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.all: list[dict[str, Any]] = []
        self._came = anyio.Event()

    async def __call__(self, message: dict[str, Any]) -> None:
        self.events.append(message)
        self.all.append(message)
        self._came.set()
        self._came = anyio.Event()

    async def wanted(self, name: str, **body: Any) -> dict[str, Any]:
        """The first event of that name with these fields, which is taken out together with those before it."""
        with anyio.fail_after(PATIENCE):
            while True:
                for index, event in enumerate(self.events):
                    if event["event"] == name and body.items() <= event["body"].items():
                        del self.events[: index + 1]
                        return event
                await self._came.wait()

    async def task(self, **body: Any) -> dict[str, Any]:
        """The first `apaevt_task`."""
        return await self.wanted("apaevt_task", **body)

    async def status(self, **body: Any) -> dict[str, Any]:
        """The body of the first `apaevt_status_update`."""
        return (await self.wanted("apaevt_status_update", **body))["body"]


@pytest.fixture
def ear() -> Ear:
    """What the client hears."""
    return Ear()


@pytest.fixture
async def listener(server: PublishedServer, ear: Ear) -> AsyncIterator[RocketRideClient]:
    """A connected client that keeps its events."""
    from rocketride import RocketRideClient

    connected = RocketRideClient(uri=server.url, auth=KEY, on_event=ear)
    await connected.connect()
    yield connected
    await connected.disconnect()


async def test_it_hears_tasks_begin_restart_and_end(listener: RocketRideClient, ear: Ear) -> None:
    await listener.add_monitor({"token": "*"}, ["task"])
    assert isinstance((await ear.task(action="running"))["body"]["tasks"], list)
    token = (await listener.use(pipeline=pipeline("heard"), token="HEARD", name="n"))["token"]
    begun = await ear.task(action="begin")
    assert begun["body"]["id"] == begun["body"]["__id"] == "HEARD.w"
    assert (begun["body"]["name"], begun["body"]["projectId"], begun["body"]["source"]) == ("n", "heard", "w")
    await listener.restart(token=token, project_id="heard", source="w", pipeline=pipeline("heard"))
    await ear.task(action="restart", projectId="heard")
    await listener.terminate(token)
    assert (await ear.task(action="end", projectId="heard"))["body"]["reason"] == "terminated"


async def test_a_monitor_shows_at_once_what_runs(listener: RocketRideClient, ear: Ear) -> None:
    token = (await listener.use(pipeline=pipeline("shown"), token="SHOWN", name="n"))["token"]
    await listener.add_monitor({"token": token}, ["TASK", "SUMMARY"])
    shown = await ear.task(action="running")
    assert shown["body"]["tasks"] == [{"id": "SHOWN.w", "name": "n", "projectId": "shown", "source": "w"}]
    status = await ear.status(project_id="shown")
    assert (status["state"], status["__id"], status["name"]) == (3, "SHOWN.w", "n.w")
    await listener.terminate(token)
    assert (await ear.status(project_id="shown", completed=True))["state"] == 6


async def test_each_status_has_all_that_the_client_reads(listener: RocketRideClient, ear: Ear) -> None:
    from rocketride.types import TASK_STATUS

    await listener.add_monitor({"project_id": "later", "source": "w"}, ["summary"])
    before = await ear.status(project_id="later")
    assert (before["state"], before["status"], before["__id"]) == (0, "Not running", "later.w")
    token = (await listener.use(pipeline=pipeline("later")))["token"]
    begun = await ear.status(project_id="later", state=3)
    await listener.send(token, "hello", {"name": "a.txt"}, "text/plain")
    after = await ear.status(project_id="later", completedCount=1)
    await listener.terminate(token)
    for each in (before, begun, after, await ear.status(project_id="later", completed=True)):
        read = TASK_STATUS.model_validate_json(json.dumps(each), strict=True)
        assert read.model_fields_set == set(TASK_STATUS.model_fields)


async def test_the_types_of_a_monitor_add_up_and_are_taken_away(listener: RocketRideClient, ear: Ear) -> None:
    key = {"project_id": "counted", "source": "w"}
    await listener.add_monitor(key, ["task"])
    await listener.add_monitor(key, ["task", "summary"])
    await listener.remove_monitor(key, ["task", "summary"])
    token = (await listener.use(pipeline=pipeline("counted")))["token"]
    await ear.task(action="begin", projectId="counted")
    await listener.clear_all_monitors()
    await listener.terminate(token)
    await listener.ping()
    assert not [event for event in ear.events if event["body"].get("action") == "end"]


async def test_monitors_outlive_a_connection(listener: RocketRideClient, ear: Ear) -> None:
    await listener.add_monitor({"project_id": "again", "source": "w"}, ["task"])
    await listener.disconnect()
    await listener.connect()
    token = (await listener.use(pipeline=pipeline("again")))["token"]
    await ear.task(action="begin", projectId="again")
    await listener.terminate(token)


async def test_a_monitor_of_what_is_not_there_is_refused(listener: RocketRideClient) -> None:
    with pytest.raises(RuntimeError, match="Your pipeline is not running"):
        await listener.add_monitor({"token": "NEVER"}, ["summary"])
    with pytest.raises(RuntimeError, match="no such type"):
        await listener.add_monitor({"token": "*"}, ["summery"])
    await listener.add_monitor({"token": "*"}, ["debugger", "dashboard", "billing", "deploy", "all", "none"])


async def test_types_are_named_as_the_documents_of_the_client_do(listener: RocketRideClient, ear: Ear) -> None:
    token = (await listener.use(pipeline=pipeline("named")))["token"]
    documented = [f"apaevt_status_{name}" for name in ("upload", "processing", "completion", "error", "pipeline")]
    for types in (documented[:2], documented[:4], documented[:1], documented):
        await listener.set_events(token, types)
    await listener.send_files([(__file__, {"name": "a.txt"}, "text/plain")], token)
    await ear.wanted("apaevt_status_counts", completedCount=1)
    heard = {event["event"] for event in ear.all}
    assert heard >= {"apaevt_status_object", "apaevt_status_upload"}  # those of uploads are made by the client itself
    assert "apaevt_status_update" not in heard
    await listener.set_events(token, [*documented, "apaevt_status_update", "of its own"])
    await ear.status(project_id="named", completedCount=1)
    await listener.terminate(token)


async def test_pipes_hear_the_messages_of_their_nodes(listener: RocketRideClient, ear: Ear) -> None:
    from rocketride.schema import Question

    token = (await listener.use(pipeline=pipeline("told", "teller")))["token"]
    heard: dict[int, list[tuple[str, Any]]] = {}

    def hear(number: int) -> Any:
        async def on_sse(kind: str, data: dict[str, Any]) -> None:
            heard.setdefault(number, []).append((kind, data))

        return on_sse

    pipes = [await (await listener.pipe(token, {}, "text/plain", on_sse=hear(n))).open() for n in range(4)]
    for number, pipe in enumerate(pipes):
        await pipe.write(f"text {number}".encode())
    for number, pipe in enumerate(pipes):
        await ear.wanted("apaevt_sse", pipe_id=pipe.pipe_id)
        await pipe.close()
        assert heard[number] == [("thinking", {"text": f"text {number}"})]
    await listener.send(token, "sent", {}, "text/plain", on_sse=hear(9))
    assert heard[9] == [("thinking", {"text": "sent"})]
    question = Question()
    question.addQuestion("What is it?")
    with pytest.raises(RuntimeError):  # nobody listens to questions there
        await listener.chat(token=token, question=question, on_sse=hear(10))
    assert 10 not in heard
    ear.events.clear()
    await listener.set_events(token, ["SSE"])
    await listener.send(token, "all", {}, "text/plain")
    assert (await ear.wanted("apaevt_sse", type="thinking"))["body"]["data"] == {"text": "all"}
    await listener.terminate(token)


async def test_a_chat_hears_what_its_agent_thinks_while_it_thinks(listener: RocketRideClient) -> None:
    from rocketride.schema import Question

    components = [
        component("c", "chat"),
        {**component("thinker", "thinker", ("questions", "c")), "control": [{"classType": "tool", "from": "c"}]},
        component("out", "response_answers", ("answers", "thinker"), laneName="answers"),
    ]
    token = (await listener.use(pipeline={"components": components, "source": "c", "project_id": "thinking"}))["token"]
    question = Question()
    question.addQuestion("What is it?")
    heard: list[Any] = []

    async def decide(kind: str, data: dict[str, Any]) -> None:
        heard.append((kind, data))
        await listener.tool(token=token, tool="decide")

    assert (await listener.chat(token=token, question=question, on_sse=decide))["answers"] == ["42"]
    assert heard == [("thinking", {"message": "I think"})]
    await listener.terminate(token)


async def test_nobody_else_hears_the_messages_of_a_pipe(listener: RocketRideClient, ear: Ear, client: RocketRideClient) -> None:
    token = (await client.use(pipeline=pipeline("whose", "teller")))["token"]
    mine = await (await listener.pipe(token, {}, "text/plain")).open()
    other = await (await client.pipe(token, {}, "text/plain")).open()
    await listener.set_events(token, ["SSE"], pipe_id=mine.pipe_id)
    await other.write(b"other")
    await mine.write(b"mine")
    assert (await ear.wanted("apaevt_sse"))["body"]["data"] == {"text": "mine"}
    for pipe in (mine, other):
        await pipe.close()
    await client.terminate(token)
