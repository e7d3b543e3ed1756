"""A failure has a stable code, says what is wrong, and is never taken for a success."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from answer_rows import ROWS
from face import Face, Line, Way
from houses import LocalHouse, open_house

from rrext.engine.calls.tool_calls import ToolList
from rrext.errors import (
    NUMBERS,
    InternalError,
    InvalidArguments,
    NodeNotFound,
    ResultTooLarge,
    ToolError,
    ToolNotFound,
    Unavailable,
    UnknownCommand,
)


@pytest.mark.promise("error:failure:stays-failure")
def test_the_table_of_answers_has_no_code_but_those_of_the_contract_and_of_its_authors() -> None:
    of_store = {row.code for row in ROWS if row.code and row.command == "rrext_store"} - set(NUMBERS)
    others = {row.code for row in ROWS if row.code and row.command != "rrext_store"} - set(NUMBERS)
    assert others == {"sold_out", "no_more", "unwelcome"}
    page = (Path(__file__).parents[2] / "protocol.md").read_text()
    assert of_store
    assert {code for code in of_store if f"`{code}`" not in page} == set()


@pytest.mark.promise("error:failure:stays-failure")
async def test_an_authors_failure_is_shown_as_it_is_whatever_lies_in_between(face: Face) -> None:
    for tool, input in [
        ("refuse", {}),
        *((outer, {"node": "", "tool": "refuse"}) for outer in ("ask", "ask_async", "ask_same")),
    ]:
        error = await face.tool_failure(tool, input)
        assert isinstance(error, ToolError)
        assert (error.code, error.message, error.hint, error.data) == (
            "sold_out",
            "sold out",
            "come back tomorrow",
            {"left": 0},
        )


@pytest.mark.promise("error:failure:stays-failure")
async def test_an_accident_is_told_whole_to_who_may_read_it_and_its_type_to_others(house: LocalHouse) -> None:
    async with house.connect() as trusted, house.connect(trusted=False) as stranger:
        for tool, kind in [("crash", "ValueError"), ("crash_async", "KeyError")]:
            told, masked = await trusted.tool_failure(tool), await stranger.tool_failure(tool)
            assert "swordfish" in told.message
            assert "swordfish" not in f"{masked.message} {masked.hint} {masked.data}"
            for error in (told, masked):
                assert error.data == {"nodeId": "fate_1", "tool": tool, "exception": kind}
                assert f'Tool "{tool}" on node "fate_1" failed: {kind}' in error.message
                assert "Traceback" not in error.message
        pipe_id = await stranger.open(mimeType="text/plain")
        error = await stranger.failure("rrext_process", {"subcommand": "write", "pipe_id": pipe_id, "data": "crash:"})
        assert "an accident" not in error.message
        assert "an accident" not in str(await stranger.close(pipe_id))
        assert (await stranger.tool_failure("refuse")).message == "sold out"


@pytest.mark.promise("error:failure:stays-failure")
async def test_a_bug_of_ours_is_internal_and_its_text_is_in_the_log_alone(
    house: LocalHouse, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def bug(*_: Any) -> None:
        raise RuntimeError("swordfish")

    async with house.connect() as face:
        monkeypatch.setattr(ToolList, "listing", bug)
        error = await face.failure("tools")
        assert isinstance(error, InternalError)
        assert "swordfish" not in f"{error.message} {error.hint} {error.data}"
        monkeypatch.undo()
        assert await face.names()
    assert "swordfish" in caplog.text


@pytest.mark.promise("error:failure:stays-failure")
async def test_what_does_not_fit_is_told_with_its_path_and_never_repeated(face: Face) -> None:
    error = await face.tool_failure("typed", {"name": "x", "count": "swordfish", "tags": ["a", 7], "box": {"k": "swordfish"}})
    assert isinstance(error, InvalidArguments)
    assert {problem["path"] for problem in error.data["errors"]} == {"/input/count", "/input/tags/1", "/input/box/k"}
    assert "swordfish" not in f"{error.message} {error.hint} {error.data}"


@pytest.mark.promise("error:failure:stays-failure")
async def test_a_result_over_the_limit_names_it_and_a_stream_of_as_much_passes(face: Face) -> None:
    error = await face.tool_failure("large", {"size": 17 * 2**20})
    assert isinstance(error, ResultTooLarge)
    assert error.data["limit"] == "max_result"
    assert len(await face.tool("large", {"size": 15 * 2**20})) == 15 * 2**20
    assert isinstance(await face.tool_failure("slabs", {"number": 40, "size": 2**20}), ResultTooLarge)
    sizes: list[int] = []
    await face.tool("slabs", {"number": 40, "size": 2**20}, on_chunk=lambda chunk: sizes.append(len(chunk)))
    assert sum(sizes) == 40 * 2**20


# names


@pytest.mark.promise("call:unknown-command:error")
@pytest.mark.parametrize(
    ("command", "near"),
    [("rrext_pin", "rrext_ping"), ("Tools", "tools"), ("rrext-process", "rrext_process"), ("frobnicate", None)],
)
async def test_a_command_that_does_not_exist_is_an_error_that_names_those_like_it(
    command: str, near: str | None, face: Face
) -> None:
    error = await face.failure(command)
    assert isinstance(error, UnknownCommand)
    assert error.message.startswith(f"Invalid command: {command}")
    assert (near in error.data["near"]) if near else error.data["near"] == []
    assert near is None or near in (error.hint or "")


@pytest.mark.promise("call:unknown-command:error")
async def test_tools_nodes_and_subcommands_that_do_not_exist_name_those_like_them(face: Face) -> None:
    for arguments, kind, near in [
        ({"subcommand": "tool", "tool": "ad"}, ToolNotFound, "add"),
        ({"subcommand": "tool", "tool": "ADD"}, ToolNotFound, "add"),
        ({"subcommand": "tool", "tool": "ad", "nodeId": "probe_1"}, ToolNotFound, "add"),
        ({"subcommand": "tool", "tool": "add", "nodeId": "fate_1"}, ToolNotFound, "probe_1"),
        ({"subcommand": "tool", "tool": "add", "nodeId": "probe-1"}, NodeNotFound, "probe_1"),
        ({"subcommand": "tols"}, UnknownCommand, "tools"),
    ]:
        error = await face.failure("rrext_process", arguments)
        assert isinstance(error, kind)
        assert near in error.data["near"]
        assert near in error.message


@pytest.mark.promise("call:unknown-command:error")
async def test_near_matches_show_nothing_that_the_caller_may_not_call(face: Face) -> None:
    mine = await face.tool_failure("for_adaa", context={"userId": "ada"})
    others = await face.tool_failure("for_adaa", context={"userId": "bob"})
    assert mine.data["near"][0] == "for_ada"
    assert "for_ada" not in others.data["near"]
    assert isinstance(await face.tool_failure("for_ada", context={"userId": "bob"}), Unavailable)


@pytest.mark.promise("call:unknown-command:error")
async def test_nothing_succeeds_by_default(face: Face, line: Line) -> None:
    for arguments in ({}, {"subcommand": ""}, {"subcommand": "tool"}, {"subcommand": "write"}, {"subcommand": "close"}):
        await face.failure("rrext_process", arguments)
        answer = await line.answer(await line.send("rrext_process", arguments))
        assert answer.error is not None
        assert not answer.body


@pytest.mark.parametrize("dialect", ["dap", "jsonrpc"])
async def test_a_frame_over_the_limit_of_a_command_line_is_refused_and_the_next_one_works(dialect: Any) -> None:
    async with open_house(Way("spawned", dialect), max_frame=4096) as house, house.line() as line:
        refused = (await line.answer(await line.call("echo", {"value": "x" * 5000}))).error
        assert refused is not None
        assert refused.code == "frame_too_large"
        assert await line.result("add", {"a": 1}) == {"sum": 2}
