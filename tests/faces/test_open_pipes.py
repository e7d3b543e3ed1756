"""Pipes: whose they are, how long they live, in what order things happen on them, and how they end."""

from __future__ import annotations

import hashlib
from typing import Any

import anyio
import pytest
from face import Face, Line, Way, parked
from houses import LocalHouse, open_house
from more_pipelines import narrow

from rrext.errors import PipeExpired, PipeFailed, PipeNotOpen


async def used(face: Face, token: str = "face") -> int:
    """How many pipes are open or borrowed."""
    return (await face.request("rrext_get_task_status", {"token": token}))["threads"]["used"]


@pytest.mark.promise("pipe:owner-only")
async def test_other_peoples_pipes_do_not_exist(house: LocalHouse) -> None:
    async with house.connect() as ada, house.connect() as bob:
        hers = await ada.open(mimeType="text/plain")
        for subcommand, more in [("write", {"data": "x"}), ("close", {}), ("tool", {"tool": "measured"})]:
            error = await bob.failure("rrext_process", {"subcommand": subcommand, "pipe_id": hers, **more})
            never = await bob.failure("rrext_process", {"subcommand": subcommand, "pipe_id": 4711, **more})
            assert isinstance(error, PipeNotOpen)
            assert (error.message, error.data) == (f"Pipe {hers} is not open", {"pipe_id": hers})
            assert error.message.replace(str(hers), "N") == never.message.replace("4711", "N")
        await ada.write(hers, "still hers")
        assert (await ada.close(hers))["reply"] == ["STILL HERS\n\n"]


@pytest.mark.promise("pipe:owner-only")
async def test_no_pipe_id_is_ever_given_twice(face: Face) -> None:
    seen: list[int] = []
    for _ in range(5):
        seen.append(await face.open())
        seen.append(await face.open())
        await face.close(seen[-2])
        await face.failure("rrext_process", {"subcommand": "open", "object": {"name": "unwelcome"}})
    assert len(set(seen)) == len(seen)
    assert seen == sorted(seen)


@pytest.mark.promise("pipe:owner-only")
async def test_ids_go_on_counting_when_a_client_is_gone_and_its_pipes_with_it(house: LocalHouse, key: str) -> None:
    async with house.connect() as witness:
        async with house.connect() as face:
            first = await face.open(object={"name": key})
            await face.vanish()
        await witness.noted(f"{key} life", "open", "close")
        with anyio.fail_after(10):
            while await used(witness):
                await anyio.lowlevel.checkpoint()
        second = await witness.open()
        assert second > first
        assert isinstance(await witness.failure("rrext_process", {"subcommand": "close", "pipe_id": first}), PipeNotOpen)


@pytest.mark.promise("pipe:lease:not-reaped")
@pytest.mark.parametrize("tool", ["wait", "park"])
async def test_a_pipe_in_use_outlives_any_idle_time(tool: str, house: LocalHouse, key: str) -> None:
    idle = house.engine.limits.pipe_idle
    async with house.connect() as face:
        pipe_id = await face.open(mimeType="text/plain")
        async with parked(face, tool, key, pipe_id=pipe_id):
            for _ in range(10):
                house.clock.advance(idle)
        house.clock.advance(idle * 0.9)  # each use refreshes
        await face.write(pipe_id, "here")
        house.clock.advance(idle * 0.9)
        assert (await face.close(pipe_id))["reply"] == ["HERE\n\n"]


@pytest.mark.promise("pipe:lease:not-reaped")
async def test_a_long_write_is_a_use_too(house: LocalHouse, key: str) -> None:
    async with house.connect() as face, anyio.create_task_group() as tasks:
        pipe_id = await face.open(mimeType="text/plain")
        tasks.start_soon(face.write, pipe_id, f"park:{key}")
        await face.noted(key, "in")
        house.clock.advance(1000)
        assert await used(face) == 1
        await face.tool("open_gate", {"key": key})
    assert house.clock.now() == 1000


async def test_an_idle_pipe_is_reclaimed_and_its_owner_alone_is_told(house: LocalHouse, key: str) -> None:
    async with house.connect() as face, house.connect() as other:
        pipe_id = await face.open(object={"name": key})
        house.clock.advance(200)
        for subcommand, more in [("write", {"data": "x"}), ("close", {}), ("tool", {"tool": "measured"})]:
            error = await face.failure("rrext_process", {"subcommand": subcommand, "pipe_id": pipe_id, **more})
            assert isinstance(error, PipeExpired)
            assert "idle seconds" in error.message
            assert error.data["idle"] >= house.engine.limits.pipe_idle
        assert isinstance(await other.failure("rrext_process", {"subcommand": "close", "pipe_id": pipe_id}), PipeNotOpen)
        await face.noted(f"{key} life", "open", "close")
        assert await used(face) == 0


@pytest.mark.parametrize("dialect", ["dap", "jsonrpc"])
async def test_a_server_of_its_own_reclaims_idle_pipes_too(dialect: Any) -> None:
    async with open_house(Way("spawned", dialect), pipe_idle=0.05) as house, house.connect() as face:
        pipe_id = await face.open()
        with anyio.fail_after(10):
            while await used(face):
                await anyio.lowlevel.checkpoint()
        assert isinstance(await face.failure("rrext_process", {"subcommand": "close", "pipe_id": pipe_id}), PipeExpired)


async def test_requests_on_one_pipe_take_effect_in_the_order_of_their_arrival(line: Line) -> None:
    opened = await line.answer(await line.send("rrext_process", {"subcommand": "open", "mimeType": "application/octet-stream"}))
    pipe = opened.body
    numbers: list[Any] = []
    for value in range(50):
        numbers.append(await line.send("rrext_process", {"subcommand": "write", **pipe}, bytes([value])))
        numbers.append(await line.call("measured", **pipe))
    numbers.append(await line.send("rrext_process", {"subcommand": "close", **pipe}))
    late = await line.send("rrext_process", {"subcommand": "write", "data": "late", **pipe})
    answers = [await line.answer(number) for number in numbers]
    assert [answer.error for answer in answers] == [None] * 101
    assert [answer.body["result"]["total"] for answer in answers[1:-1:2]] == list(range(1, 51))
    assert answers[-1].body["reply"] == [f"50 {hashlib.sha256(bytes(range(50))).hexdigest()}\n\n"]
    assert isinstance((await line.answer(late)).error, PipeNotOpen)


async def test_tool_calls_on_one_pipe_overlap(face: Face, key: str) -> None:
    pipe_id = await face.open()
    peaks: list[int] = []

    async def call(tool: str) -> None:
        peaks.append(await face.tool(tool, {"key": key, "size": 50}, pipe_id=pipe_id))

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(call, "crowd" if number % 2 else "crowd_in_threads")
    assert max(peaks) == 50
    await face.close(pipe_id)


async def test_each_pipe_has_node_objects_of_its_own(face: Face) -> None:
    first, second = await face.open(), await face.open()
    await face.write(first, b"12345")
    assert (await face.tool("measured", pipe_id=first))["total"] == 5
    assert (await face.tool("measured", pipe_id=second))["total"] == 0
    await face.close(first)
    assert "result_types" not in await face.close(second)


async def test_open_never_runs_on_the_objects_of_calls_without_a_pipe(face: Face) -> None:
    error = await face.tool_failure("measured")
    assert error.code == "tool_failed"
    assert "total" in error.message


async def test_the_calls_of_a_pipe_are_made_in_the_context_of_its_open(face: Face) -> None:
    pipe_id = await face.open(context={"userId": "ada", "spaceId": "s"}, mimeType="text/plain")
    seen = await face.tool("who", pipe_id=pipe_id, context={"userId": "bob"})
    assert (seen["user"], seen["space"], seen["pipe"], seen["node"]) == ("ada", "s", pipe_id, "probe_1")
    await face.write(pipe_id, "who:")
    assert (await face.close(pipe_id))["reply"] == ["ada\n\n"]


@pytest.mark.parametrize(("data", "code"), [("fail:", "tool_failed"), ("crash:", "tool_failed"), ("spoil:", "tool_failed")])
async def test_the_end_of_an_object_that_failed_has_what_was_collected_and_the_error(data: str, code: str, face: Face) -> None:
    pipe_id = await face.open(mimeType="text/plain", object={"name": "a"})
    await face.write(pipe_id, "good")
    if data != "spoil:":
        await face.failure("rrext_process", {"subcommand": "write", "pipe_id": pipe_id, "data": data})
        assert isinstance(
            await face.failure("rrext_process", {"subcommand": "write", "pipe_id": pipe_id, "data": "x"}), PipeFailed
        )
    else:
        await face.write(pipe_id, data)
    body = await face.close(pipe_id)
    assert body["error"]["code"] == code
    assert body["error"]["message"]
    assert body["name"] == "a"
    assert body.get("reply", ["GOOD\n\n"]) == ["GOOD\n\n"]
    assert isinstance(await face.failure("rrext_process", {"subcommand": "close", "pipe_id": pipe_id}), PipeNotOpen)
    assert await used(face) == 0


async def test_the_result_of_an_object_that_failed_ends_with_its_pipeline(face: Face) -> None:
    await face.request("execute", {"pipeline": narrow(), "token": "narrow"})
    pipe_id = await face.open(token="narrow", mimeType="text/plain")
    await face.failure("rrext_process", {"subcommand": "write", "pipe_id": pipe_id, "data": "fail:"})
    await face.request("terminate", {"token": "narrow"})
    for more in ({"subcommand": "write", "data": "x"}, {"subcommand": "close"}):
        assert isinstance(await face.failure("rrext_process", {"pipe_id": pipe_id, **more}), PipeNotOpen)


async def test_a_leftover_thread_keeps_its_pipe_from_being_used_and_its_place_until_it_returns(face: Face, key: str) -> None:
    await face.request("execute", {"pipeline": narrow(), "token": "narrow", "threads": 1})
    pipe_id = await face.open(token="narrow", mimeType="text/plain")
    await face.tool_failure("deaf", {"key": key}, pipe_id=pipe_id, token="narrow", timeout=1.0)
    assert isinstance(await face.failure("rrext_process", {"subcommand": "write", "pipe_id": pipe_id, "data": "x"}), PipeFailed)
    body = await face.close(pipe_id)
    assert body["error"]["code"] == "pipe_failed"
    assert await used(face, "narrow") == 1
    async with anyio.create_task_group() as tasks:
        opened: list[int] = []

        async def open_another() -> None:
            opened.append(await face.open(token="narrow"))

        tasks.start_soon(open_another)
        while not (await face.request("rrext_get_task_status", {"token": "narrow"}))["threads"]["waiting"]:
            await anyio.lowlevel.checkpoint()
        assert opened == []
        await face.tool("open_gate", {"key": key}, token="face")
    assert opened == [pipe_id + 1]


async def test_a_pipe_waits_its_turn_first_come_first_served(line: Line) -> None:
    await line.answer(await line.send("execute", {"pipeline": narrow(), "token": "narrow", "threads": 1}))
    opening = {"subcommand": "open", "token": "narrow"}
    numbers = [await line.send("rrext_process", opening) for _ in range(5)]
    call = await line.call("nothing", token="narrow")
    for number in numbers:
        opened = await line.answer(number)
        assert [len(line.answers(other)) for other in numbers[numbers.index(number) + 1 :]] == [0] * (4 - numbers.index(number))
        assert line.answers(call) == []
        await line.answer(await line.send("rrext_process", {"subcommand": "close", **opened.body}))
    assert (await line.answer(call)).error is None
