"""`rrext.Client` and the real server, spawned or at a WebSocket, each test on asyncio and trio, each of which speaks another
dialect."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from real_servers import ENV, NODES, PIPELINE, joined, spawned

from rrext.client import blocking
from rrext.client.client import Client
from rrext.errors import (
    InvalidArguments,
    InvalidPipeline,
    PipeNotOpen,
    ResultTooLarge,
    ServerExited,
    TaskNotRegistered,
    ToolError,
    ToolNotFound,
    ToolTimeout,
    Unavailable,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("forked_servers")]


@pytest.fixture
def dialect(anyio_backend: str) -> str:
    return "dap" if anyio_backend == "asyncio" else "jsonrpc"


@pytest.fixture
async def client(anyio_backend: str, dialect: Any) -> AsyncIterator[Client]:
    """A client of a server that it spawned, on asyncio; on trio, of one that it joined at a WebSocket."""
    async with (spawned if anyio_backend == "asyncio" else joined)(dialect=dialect) as connected:
        yield connected


@pytest.fixture
async def parent(dialect: Any) -> AsyncIterator[Client]:
    """A client of a server that it spawned."""
    async with spawned(dialect=dialect) as connected:
        yield connected


async def test_a_tool_is_called(client: Client) -> None:
    assert await client.tool(tool="add", input={"a": 1, "b": 2}) == {"sum": 3}
    assert await client.tool(tool="add", node_id="probe_1", input={"a": 1}, token="real") == {"sum": 2}


async def test_the_server_says_what_it_is(client: Client) -> None:
    assert client.server["server"]["name"] == "rrext"
    assert client.server["limits"]["maxInflight"] == 4096
    assert (await client.ping())["pong"] is True
    names = {tool["name"] for tool in await client.tools()}
    assert {"add", "wait", "measured"} <= names
    assert {tool["name"] for tool in await client.tools(node_id="meter_1")} == {"measured"}


async def test_failures_are_the_classes_of_their_codes(client: Client) -> None:
    with pytest.raises(ToolNotFound, match="ad"):
        await client.tool(tool="ad")
    with pytest.raises(InvalidArguments) as wrong:
        await client.tool(tool="add", input={"a": "one"})
    assert wrong.value.data["errors"][0]["path"] == "/input/a"
    with pytest.raises(ToolError) as refused:
        await client.tool(tool="refuse")
    assert (refused.value.code, refused.value.hint, refused.value.data["left"]) == ("sold_out", "come back tomorrow", 0)
    with pytest.raises(TaskNotRegistered):
        await client.tool(tool="add", token="nobody")
    with pytest.raises(ToolTimeout, match=r"0\.05"):
        await client.tool(tool="wait", timeout=0.05)


async def test_who_hands_requests_on_sees_their_events_as_they_are(client: Client) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []
    counting = {"subcommand": "tool", "tool": "count", "input": {"to": 2}, "stream": True}
    body = await client.request("rrext_process", counting, on_event=lambda *event: seen.append(event))
    assert body == {"result": None}
    assert [(name, event["index"], event["chunk"]) for name, event in seen] == [("rrext_chunk", 0, 0), ("rrext_chunk", 1, 1)]
    reporting = {"subcommand": "tool", "tool": "report", "input": {"to": 1}, "progress": True}
    assert await client.request("rrext_process", reporting, on_event=lambda *event: seen.append(event)) == {"result": "done"}
    assert (seen[2][0], seen[2][1]["total"]) == ("rrext_progress", 1)
    assert await client.request("rrext_process", reporting) == {"result": "done"}


async def test_context_and_meta_reach_the_tool(client: Client) -> None:
    context = {"userId": "u", "spaceId": "s"}
    told = await client.tool(tool="who", context=context, meta={"traceparent": "00-1"})
    assert told == {"user": "u", "space": "s", "meta": {"traceparent": "00-1"}, "pipe": None}


async def test_the_clients_context_is_that_of_its_calls() -> None:
    async with spawned(context={"userId": "u", "spaceId": "s"}) as client:
        told = await client.tool(tool="who")
        assert (told["user"], told["space"]) == ("u", "s")
        told = await client.tool(tool="who", context={"userId": "v"})
        assert (told["user"], told["space"]) == ("v", None)


@pytest.mark.parametrize("tool", ["wait", "park"])
@pytest.mark.promise("cancel:reaches:both-kinds")
async def test_a_cancelled_call_ends_in_the_server(tool: str, client: Client) -> None:
    with anyio.CancelScope() as scope:
        await client.tool(tool=tool, progress=lambda *_: scope.cancel())
    assert scope.cancelled_caught
    with anyio.fail_after(10):
        while await client.tool(tool="how_they_ended") != [tool]:
            await anyio.lowlevel.checkpoint()


@pytest.mark.promise("cancel:next-call-unharmed")
async def test_two_hundred_cancelled_calls_harm_no_next_one(client: Client) -> None:
    for number in range(200):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel_after, scope, number % 50)
                await client.tool(tool="wait" if number % 2 else "add", input={} if number % 2 else {"a": 1})
                tasks.cancel_scope.cancel()
        assert await client.tool(tool="add", input={"a": number}) == {"sum": number + 1}


async def cancel_after(scope: anyio.CancelScope, turns: int) -> None:
    for _ in range(turns):
        await anyio.lowlevel.checkpoint()
    scope.cancel()


async def test_chunks_and_progress_come_before_the_result(client: Client) -> None:
    seen: list[Any] = []
    await client.tool(tool="count", input={"to": 100}, on_chunk=seen.append)
    assert seen == list(range(100))
    assert await client.tool(tool="count", input={"to": 3}) == [0, 1, 2]
    reports: list[Any] = []
    assert await client.tool(tool="report", input={"to": 50}, progress=lambda *report: reports.append(report)) == "done"
    assert reports[-1] == (50, 50, None)
    assert reports == sorted(reports)


async def test_a_hundred_mebibytes_of_chunks_pass_a_slow_consumer(client: Client) -> None:
    sizes: list[int] = []

    async def slow(chunk: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        sizes.append(len(chunk))

    await client.tool(tool="slabs", input={"number": 100, "size": 1024 * 1024}, on_chunk=slow)
    assert sizes == [1024 * 1024] * 100


@pytest.mark.promise("wire:bytes:one-rule")
async def test_bytes_come_back_as_they_were(client: Client) -> None:
    import base64

    data = os.urandom(200_000)
    assert await client.tool(tool="blob", input={"data": base64.b64encode(data).decode()}) == data


async def test_large_results_arrive_and_too_large_ones_are_refused(client: Client) -> None:
    assert len(await client.tool(tool="large", input={"mebibytes": 15})) == 15 * 1024 * 1024
    with pytest.raises(ResultTooLarge):
        await client.tool(tool="large", input={"mebibytes": 17})
    assert await client.tool(tool="add", input={"a": 1})


async def test_a_pipe_carries_an_object(client: Client) -> None:
    async with client.pipe(objinfo={"name": "a.bin"}) as pipe:
        await pipe.write(os.urandom(5_000_000))
        assert await pipe.tool(tool="measured") == 5_000_000
        assert (await pipe.tool(tool="who"))["pipe"] == pipe.pipe_id
    assert pipe.result is not None
    assert pipe.result["reply"] == ["5000000 bytes\n\n"]
    assert pipe.result["name"] == "a.bin"
    with pytest.raises(PipeNotOpen):
        await client.tool(tool="measured", pipe_id=pipe.pipe_id)


async def test_text_is_sent_and_answered(client: Client) -> None:
    assert (await client.send("hello"))["reply"] == ["HELLO\n\n"]


async def test_a_failed_object_raises_and_keeps_what_there_is(client: Client) -> None:
    pipe = client.pipe(mimetype="text/plain")
    await pipe.open()
    await pipe.write("good")
    with pytest.raises(ToolError, match="do not like"):
        await pipe.write("fail")
    with pytest.raises(ToolError, match="do not like") as caught:
        await pipe.close()
    assert caught.value.hint == "send another word"
    assert caught.value.result is not None
    assert caught.value.result["reply"] == ["GOOD\n\n"]


async def test_an_opening_that_is_cancelled_gives_its_place_back() -> None:
    async with spawned(threads=1) as client:
        async with client.pipe() as first:
            with anyio.move_on_after(0.02) as scope:
                await client.pipe().open()
            assert scope.cancelled_caught
            await first.write(b"x")
        with anyio.fail_after(10):
            async with client.pipe() as second:
                assert second.pipe_id != first.pipe_id


async def test_a_folder_of_files_is_sent(client: Client, tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number:02}.txt").write_text("fail" if number == 7 else f"text {number}")
    results = await client.send_files([tmp_path], jobs=4)
    assert [Path(result.path).name for result in results if not result.ok] == ["07.txt"]
    assert results[3].result is not None
    assert results[3].result["reply"] == ["TEXT 3\n\n"]


async def test_pipelines_are_used_and_ended(client: Client) -> None:
    body = await client.use(filepath=PIPELINE, token="second")
    assert body["token"] == "second"
    assert {task["token"] for task in await client.tasks()} == {"real", "second"}
    assert await client.tool(tool="add", input={"a": 1}, token="second")
    assert "state" in await client.status("second")
    await client.terminate("second")
    assert {task["token"] for task in await client.tasks()} == {"real"}
    with pytest.raises(InvalidPipeline) as caught:
        await client.use(pipeline={"components": [{"id": "x", "provider": "no_such", "config": {}}]})
    assert caught.value.data["problems"]
    assert (await client.validate(filepath=PIPELINE))["errors"] == []
    assert "probe" in (await client.services())["services"]


async def test_sixty_four_calls_at_a_time_are_all_answered(client: Client) -> None:
    sums: list[int] = []

    async def call(number: int) -> None:
        sums.append((await client.tool(tool="add", input={"a": number}))["sum"])

    async with anyio.create_task_group() as tasks:
        for number in range(64):
            tasks.start_soon(call, number)
    assert sorted(sums) == list(range(1, 65))


async def test_a_server_that_dies_says_how(parent: Client) -> None:
    with pytest.raises(ServerExited, match="out of order") as caught:
        await parent.tool(tool="die")
    assert caught.value.data["exit_code"] == 7


async def test_a_pipeline_with_problems_stops_the_start(tmp_path: Path) -> None:
    bad = tmp_path / "bad.pipe"
    bad.write_text('{"components": [{"id": "x", "provider": "webhok", "config": {}}], "source": "x"}')
    with pytest.raises(InvalidPipeline, match="webhok"):
        async with spawned(bad):
            raise AssertionError("it did not start")


@pytest.mark.promise("life:sigterm:bounded")
async def test_shutdown_answers_what_runs_and_ends_with_zero() -> None:
    async with spawned(drain=1) as client, anyio.create_task_group() as tasks:

        async def call() -> None:
            with pytest.raises(Exception, match="ended|exited"):
                await client.tool(tool="wait", progress=lambda *_: parked.set())

        parked = anyio.Event()
        tasks.start_soon(call)
        await parked.wait()
        with anyio.fail_after(5):
            await client.shutdown()
            with pytest.raises(ServerExited) as caught:
                await client.ping()
        assert caught.value.data["exit_code"] == 0


async def test_a_killed_server_is_noticed(parent: Client) -> None:
    async with anyio.create_task_group() as tasks:

        async def call() -> None:
            with pytest.raises(ServerExited) as caught:
                await parent.tool(tool="wait", progress=lambda *_: os.kill(pid, signal.SIGKILL))
            assert caught.value.data["exit_code"] == -9

        pid = parent._session._process.pid  # type: ignore[union-attr]
        tasks.start_soon(call)


async def test_a_caller_gets_the_events_of_its_call_in_order_before_the_result(client: Client) -> None:
    seen: list[dict[str, Any]] = []
    await client.tool(tool="count", input={"to": 2}, on_event=seen.append)
    assert [event["event"] for event in seen] == ["call_started", "call_ended"]
    assert seen[0]["arguments"] == {"to": 2}
    assert seen[1]["result"] == [0, 1]


@pytest.mark.parametrize("allow", [True, False])
async def test_a_caller_is_asked_for_a_permit(client: Client, allow: bool) -> None:
    reference = {"type": "node", "node": "probe_1", "tool": "count", "name": "counting", "permission": "ask"}
    tools = {"id": "tools_1", "provider": "tools", "config": {"tools": [reference]}}
    probe = {"id": "probe_1", "provider": "probe", "config": {}, "control": [{"classType": "tool", "from": "tools_1"}]}
    await client.use(pipeline={"components": [tools, probe], "source": "tools_1"}, token="asking")
    questions: list[dict[str, Any]] = []

    async def answer(question: dict[str, Any]) -> bool:
        questions.append(question)
        return allow

    def answer_at_once(question: dict[str, Any]) -> bool:
        questions.append(question)
        return allow

    for on_permission in (answer, answer_at_once):
        if allow:
            assert await client.tool(tool="counting", input={"to": 2}, token="asking", on_permission=on_permission) == [0, 1]
        else:
            with pytest.raises(Unavailable, match="it was denied"):
                await client.tool(tool="counting", input={"to": 2}, token="asking", on_permission=on_permission)
    assert [question["arguments"] for question in questions] == [{"to": 2}] * 2


@pytest.mark.promise("questions:caller-answers")
@pytest.mark.parametrize(
    ("given", "answer"), [({"n": 1}, {"action": "accept", "content": {"n": 1}}), (None, {"action": "decline"})]
)
async def test_a_caller_is_asked_what_a_tool_wants_to_know(client: Client, given: Any, answer: dict[str, Any]) -> None:
    questions: list[dict[str, Any]] = []
    params = {"message": "How many?", "requestedSchema": {"type": "object"}}

    def answer_at_once(question: dict[str, Any]) -> Any:
        questions.append(question)
        return given

    async def answer_later(question: dict[str, Any]) -> Any:
        return answer_at_once(question)

    for on_question in (answer_at_once, answer_later):
        assert await client.tool(tool="wonder", input={"params": params}, on_question=on_question) == answer
    assert [question["params"] for question in questions] == [params] * 2
    with pytest.raises(Unavailable, match="did not offer"):
        await client.tool(tool="wonder", input={"params": params}, on_permission=lambda body: True)


@pytest.mark.promise("questions:caller-answers")
def test_a_blocking_caller_is_asked_in_its_own_thread() -> None:
    params = {"message": "How many?", "requestedSchema": {"type": "object"}}
    threads: list[int] = []

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        threads.append(threading.get_ident())
        return {"n": question["params"]["message"]}

    def permit(question: dict[str, Any]) -> bool:
        return question["arguments"] == {"to": 2}

    reference = {"type": "node", "node": "probe_1", "tool": "count", "name": "counting", "permission": "ask"}
    tools = {"id": "tools_1", "provider": "tools", "config": {"tools": [reference]}}
    probe = {"id": "probe_1", "provider": "probe", "config": {}, "control": [{"classType": "tool", "from": "tools_1"}]}
    with blocking.Client.spawn(PIPELINE, nodes=NODES, env=ENV) as client:
        found = client.tool(tool="wonder", input={"params": params}, token="real", on_question=answer)
        assert found == {"action": "accept", "content": {"n": "How many?"}}
        client.use(pipeline={"components": [tools, probe], "source": "tools_1"}, token="asking")
        assert client.tool(tool="counting", input={"to": 2}, token="asking", on_permission=permit) == [0, 1]
    assert threads == [threading.get_ident()]


@pytest.mark.parametrize("alone", ["count", {"type": "node", "node": "probe_1", "tool": "count"}])
async def test_one_reference_alone_is_no_list_of_them(client: Client, alone: Any) -> None:
    with pytest.raises(InvalidArguments, match="/tools: Expected a list"):
        await client.tools_resolve(alone)
    assert (await client.tools_resolve(()))["custom"] == []


@pytest.mark.promise("monitor:events")
async def test_a_monitor_reads_the_flow_of_a_traced_pipeline(client: Client) -> None:
    token = (await client.use(filepath=PIPELINE, token="traced", trace="summary"))["token"]
    with pytest.raises(InvalidArguments, match="level"):
        await client.use(filepath=PIPELINE, token="other", trace="loud")  # type: ignore[arg-type]
    events = await client.monitor("flow", "task", token=token)
    await client.send("hello", token=token)
    steps = []
    with anyio.fail_after(30):
        async for event in events:
            if event.name == "apaevt_flow":
                steps.append(event.body["op"])
                if steps[-1] == "end":
                    break
    assert (steps[0], steps.count("enter")) == ("begin", steps.count("leave"))
    with pytest.warns(UserWarning, match='the type "tsk". Did you mean "TASK"?'):
        await client.monitor("flow", "tsk", token=token)
    await client.monitor(token=token)
    await client.send("again", token=token)
    await client.ping()
    await client.terminate(token)
    later = await client.monitor()
    assert (await client.status("real"))["completed"] is False
    assert not later._queue
