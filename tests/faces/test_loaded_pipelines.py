"""Pipelines that are loaded, joined, watched and ended while others run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
from face import Face, Line, Way
from houses import LocalHouse, open_house
from more_pipelines import WEBHOOK, narrow, with_tools

from rrext.errors import Cancelled, InvalidPipeline, PipeNotOpen, TaskAlreadyRunning, TaskAmbiguous, TaskNotRegistered


async def tokens(face: Face) -> set[str]:
    return {task["token"] for task in (await face.request("rrext_get_tasks"))["tasks"]}


async def test_without_a_token_the_only_pipeline_is_meant_and_of_several_none(face: Face) -> None:
    await face.tool("add", {"a": 1})
    await face.request("execute", {"pipeline": narrow(), "token": "narrow"})
    requests: list[tuple[str, dict[str, Any]]] = [
        ("tools", {}),
        ("rrext_get_task_status", {}),
        ("terminate", {}),
        ("rrext_process", {"subcommand": "tool", "tool": "add", "input": {"a": 1}}),
        ("rrext_process", {"subcommand": "tools"}),
        ("rrext_process", {"subcommand": "open"}),
    ]
    for command, arguments in requests:
        error = await face.failure(command, arguments)
        assert isinstance(error, TaskAmbiguous)
        assert error.data["tokens"] == ["face", "narrow"]
        assert "face, narrow" in (error.hint or "")
    pipe_id = await face.open(token="narrow")
    await face.write(pipe_id, b"a pipe needs no token")
    await face.close(pipe_id)
    await face.request("terminate", {"token": "narrow"})
    await face.tool("add", {"a": 1})


async def test_a_generated_token_is_long_and_no_error_shows_it(face: Face) -> None:
    body = await face.request("execute", {"pipeline": narrow()})
    assert len(body["token"]) >= 32
    assert body["token"] != body["publicToken"]
    ambiguous = await face.failure("tools")
    near = await face.failure("tools", {"token": body["token"][:-1]})
    for error in (ambiguous, near):
        assert body["token"] not in f"{error.message} {error.hint} {error.data}"


async def test_a_second_execute_joins_what_runs_or_is_refused(face: Face) -> None:
    first = await face.request("execute", {"pipeline": narrow()})
    assert isinstance(await face.failure("execute", {"pipeline": narrow()}), TaskAlreadyRunning)
    assert await face.request("execute", {"pipeline": narrow(), "useExisting": True}) == first
    second = await face.request("execute", {"pipeline": narrow(), "token": "mine"})
    assert second["token"] == "mine"
    assert isinstance(await face.failure("execute", {"pipeline": narrow(), "token": "mine"}), TaskAlreadyRunning)
    assert await face.request("execute", {"pipeline": narrow(), "token": "mine", "useExisting": True}) == second
    assert await tokens(face) == {"face", "mine", first["token"]}
    await face.request("terminate", {"token": first["token"]})
    third = await face.request("execute", {"pipeline": narrow(), "useExisting": True})
    assert third["token"] == "mine"  # the same project is still there


async def test_the_pipelines_of_two_users_are_two(house: LocalHouse) -> None:
    async with house.connect({"userId": "ada"}) as ada, house.connect({"userId": "bob"}) as bob:
        hers = await ada.request("execute", {"pipeline": narrow(), "useExisting": True})
        his = await bob.request("execute", {"pipeline": narrow(), "useExisting": True})
        assert hers["token"] != his["token"]
        assert await ada.request("execute", {"pipeline": narrow(), "useExisting": True}) == hers


async def test_what_cannot_be_loaded_is_told_with_all_its_problems_and_leaves_nothing(face: Face) -> None:
    pipeline = {
        "components": [
            WEBHOOK,
            {"id": "a", "provider": "metre", "config": {}},
            {"id": "a", "provider": "meter", "config": {}, "input": [{"lane": "text", "from": "webhok_1"}]},
        ]
    }
    error = await face.failure("execute", {"pipeline": pipeline, "token": "bad"})
    assert isinstance(error, InvalidPipeline)
    codes = {problem["code"] for problem in error.data["problems"]}
    assert {"unknown_provider", "duplicate_id", "from_not_found"} <= codes
    assert all(problem["path"].startswith("/components") for problem in error.data["problems"])
    assert await tokens(face) == {"face"}
    checked = await face.request("rrext_validate", {"pipeline": pipeline})
    assert {problem["code"] for problem in checked["problems"]} == codes
    assert await tokens(face) == {"face"}


async def test_an_end_cancels_the_calls_and_frees_the_pipes(line: Line, key: str) -> None:
    await line.answer(await line.send("execute", {"pipeline": narrow(), "token": "narrow"}))
    opened = await line.answer(
        await line.send("rrext_process", {"subcommand": "open", "token": "narrow", "object": {"name": key}})
    )
    waits = await line.call("wait", {"key": key}, token="narrow", progress=True)
    parks = await line.call("park", {"key": key}, token="narrow", progress=True)
    await line.message(waits, 0)
    await line.message(parks, 0)
    assert (await line.answer(await line.send("terminate", {"token": "narrow"}))).body == {}
    for number in (waits, parks):
        assert isinstance((await line.answer(number)).error, Cancelled)
    assert isinstance(
        (await line.answer(await line.send("rrext_process", {"subcommand": "close", **opened.body}))).error, PipeNotOpen
    )
    assert isinstance((await line.answer(await line.call("add", {"a": 1}, token="narrow"))).error, TaskNotRegistered)
    with anyio.fail_after(10):
        while sorted(await line.result("journal", {"key": key})) != ["cancelled", "unwound"]:
            await anyio.lowlevel.checkpoint()
        while await line.result("journal", {"key": f"{key} life"}) != ["open", "close"]:
            await anyio.lowlevel.checkpoint()


async def test_what_components_share_is_made_once_and_left_at_the_end(face: Face, key: str) -> None:
    pipeline = with_tools(shared_1="shared")
    pipeline["components"][1]["config"] = {"key": key}
    await face.request("execute", {"pipeline": pipeline, "token": "shared"})
    assert await face.tool("journal", {"key": key}, token="face") == []
    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(lambda: face.tool("connection", token="shared"))
    await face.noted(key, "setup")
    await face.request("terminate", {"token": "shared"})
    await face.noted(key, "setup", "left")


def on_a_shelf(folder: Path) -> dict[str, Any]:
    """A pipeline that reads files below a relative path, and a file for it."""
    (folder / "shelf").mkdir()
    (folder / "shelf" / "notes.txt").write_text("found")
    pipeline = with_tools(files_1="tool_filesystem")
    pipeline["components"][1]["config"] = {"root": "shelf"}
    return pipeline


async def test_relative_paths_begin_at_the_folder_that_an_execute_names(face: Face, tmp_path: Path) -> None:
    await face.request("execute", {"pipeline": on_a_shelf(tmp_path), "token": "shelf", "folder": str(tmp_path)})
    assert (await face.tool("read_file", {"path": "notes.txt"}, token="shelf"))["content"] == "found"


async def test_only_who_started_the_server_may_name_a_folder(house: LocalHouse, tmp_path: Path) -> None:
    async with house.connect(trusted=False) as stranger:
        arguments = {"pipeline": on_a_shelf(tmp_path), "token": "shelf", "folder": str(tmp_path)}
        error = await stranger.failure("execute", arguments)
        assert (error.code, error.data["errors"][0]["path"]) == ("invalid_arguments", "/folder")
        assert "shelf" not in await tokens(stranger)


async def test_a_setup_that_fails_fails_that_call_and_the_next_one_tries_again(face: Face, key: str) -> None:
    pipeline = with_tools(shared_1="shared")
    pipeline["components"][1]["config"] = {"key": key, "failures": 2}
    await face.request("execute", {"pipeline": pipeline, "token": "shared"})
    for _ in range(2):
        error = await face.tool_failure("connection", token="shared")
        assert error.code == "tool_failed"
        assert "could not be set up" in error.message
    assert await face.tool("connection", token="shared") == ["the connection"]
    await face.request("terminate", {"token": "shared"})
    await face.noted(key, "setup", "setup", "setup", "left")


async def test_what_a_setup_says_is_for_those_who_may_read_it(house: LocalHouse, key: str) -> None:
    async with house.connect() as trusted, house.connect(trusted=False) as stranger:
        pipeline = with_tools(shared_1="shared")
        pipeline["components"][1]["config"] = {"key": key, "failures": 4}
        await trusted.request("execute", {"pipeline": pipeline, "token": "shared"})
        for face, texts in [(trusted, 1), (stranger, 0)] * 2:
            error = await face.tool_failure("connection", token="shared")
            assert error.message.count("nobody there") == texts
            assert "ConnectionError" in error.message
        assert await stranger.tool("connection", token="shared") == ["the connection"]


async def test_a_pipeline_nobody_uses_ends_when_its_time_is_up(house: LocalHouse) -> None:
    async with house.connect() as face:
        await face.request("execute", {"pipeline": narrow(), "token": "short", "ttl": 100})
        house.clock.advance(90)
        await face.tool("add", {"a": 1}, token="short")
        house.clock.advance(90)
        assert "short" in await tokens(face)
        house.clock.advance(200)
        with anyio.fail_after(10):
            while "short" in await tokens(face):
                await anyio.lowlevel.checkpoint()
        house.clock.advance(10**6)
        assert await tokens(face) == {"face"}


async def test_the_status_counts_objects_by_their_end(way: Way) -> None:
    async with open_house(way, fresh=True) as house, house.connect() as face:
        for text in ("one", "two", "spoil:"):
            await face.send(text, mimeType="text/plain")
        pipe_id = await face.open(mimeType="text/plain")
        await face.failure("rrext_process", {"subcommand": "write", "pipe_id": pipe_id, "data": "fail:"})
        await face.close(pipe_id)
        await face.failure("rrext_process", {"subcommand": "open", "object": {"name": "unwelcome"}})
        await face.open(object={"name": "d.txt", "size": 7})
        status = await face.request("rrext_get_task_status")
        assert [status[f"{what}Count"] for what in ("completed", "failed", "total")] == [2, 3, 6]
        assert [error for error in status["errors"] if "I do not like this text" in error or "not this one" in error]
        assert len(status["errors"]) == 3
        assert (status["currentObject"], status["currentSize"], status["pipeflow"]["totalPipes"]) == ("d.txt", 7, 1)
        assert (status["state"], status["name"]) == (3, "face.webhook_1")


async def test_the_values_of_variables_are_used_and_never_told(way: Way, key: str) -> None:
    secret = f"swordfish-{key}"
    pipeline = with_tools(shared_1="shared")
    pipeline["components"][1]["config"] = {"key": "${ROCKETRIDE_FACE}", "failures": 1}
    pipeline.update(name="${ROCKETRIDE_FACE}", description="the ${ROCKETRIDE_FACE}")
    async with open_house(way, env={"ROCKETRIDE_FACE": secret}) as house, house.connect() as face:
        await face.request("execute", {"pipeline": pipeline, "token": "env"})
        told = [
            await face.request("rrext_get_tasks"),
            await face.request("rrext_get_task_status", {"token": "env"}),
            await face.request("rrext_validate", {"pipeline": pipeline}),
        ]
        error = await face.tool_failure("connection", token="env")
        await face.noted(secret, "setup")
        told.append(await face.request("tools", {"token": "env"}))
        assert secret not in str(told)
        assert secret not in f"{error.message} {error.hint} {error.data}"
        given = with_tools(shared_1="shared")
        given["components"][1]["config"] = {"key": "${ROCKETRIDE_OTHER}"}
        unresolved = await face.failure("execute", {"pipeline": given, "token": "other"})
        assert unresolved.data["problems"][0]["code"] == "unresolved_variable"
        await face.request("execute", {"pipeline": given, "token": "other", "env": {"ROCKETRIDE_OTHER": secret}})
        assert secret not in str(await face.request("rrext_get_tasks"))


async def test_what_components_see_of_the_catalog_is_the_same_for_all(face: Face) -> None:
    services = (await face.request("rrext_services"))["services"]
    assert {"probe", "fate", "nest", "meter", "webhook", "response_text"} <= set(services)
    assert await face.request("rrext_services", {"service": "meter"}) == services["meter"]
    assert services["meter"]["lanes"]["tags"] == ["text"]
