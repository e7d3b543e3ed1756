"""The tools of a pipeline, listed and called by the Model Context Protocol."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from math import nextafter
from typing import Any
from uuid import uuid4

import jsonschema_rs
import pytest
from mcp_host import Host

from rrext.faces.mcp.progress import CallSteps

pytestmark = pytest.mark.promise("mcp:both-eras")

PNG = b"\x89PNG\r\n\x1a\n and the rest"


def listed(host: Host) -> dict[str, dict[str, Any]]:
    return {tool["name"]: tool for tool in host.result("tools/list")["tools"]}


def test_the_list_has_the_tools_that_the_host_may_call_with_their_schemas(host: Host) -> None:
    tools = listed(host)
    assert tools["add"]["description"] == "Add."
    assert tools["add"]["inputSchema"]["properties"]["a"] == {"type": "integer"}
    assert "for_ada" not in tools
    assert set().union(*map(set, tools.values())) <= {
        "name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta"
    }  # fmt: skip


def test_a_list_may_be_kept_for_a_while_where_the_version_has_a_word_for_it(modern: Host, legacy: Host) -> None:
    assert modern.result("tools/list")["ttlMs"] == 60_000
    assert set(legacy.result("tools/list")) == {"tools"}


def test_a_cursor_that_no_page_gave_is_refused(host: Host) -> None:
    error = host.failure("tools/list", {"cursor": "far"})
    assert error["code"] == -32602
    assert error["data"]["errors"][0]["path"] == "/cursor"


def test_an_object_is_structured_content_and_its_json_is_text(host: Host) -> None:
    result = host.call("add", a=2)
    assert result["structuredContent"] == {"sum": 3}
    assert result["content"] == [{"type": "text", "text": '{"sum":3}'}]


@pytest.mark.parametrize("value", ["a text", "", "\u2028 \U0001f600 \\", 7, 1.5, True, None, [1, {"a": None}]])
def test_any_other_value_is_a_member_of_the_structured_content(value: Any, host: Host) -> None:
    result = host.call("echo", value=value)
    assert result["structuredContent"] == {"result": value}
    (block,) = result["content"]
    assert block["text"] == value if isinstance(value, str) else json.loads(block["text"]) == value


def test_structured_content_fits_the_schema_that_was_listed(host: Host) -> None:
    tools = listed(host)
    for name, value in (("either", {"a": 1}), ("either", [1]), ("boxed", {"a": 1}), ("numbers", [1, 2])):
        content = host.call(name, value=value)["structuredContent"]
        assert jsonschema_rs.is_valid(tools[name]["outputSchema"], content), (name, value)
        assert content == ({"a": 1} if name == "boxed" else {"result": value})


def test_bytes_that_are_an_image_are_an_image(host: Host) -> None:
    (block,) = host.call("blob", data=b64encode(PNG).decode())["content"]
    assert (block["type"], block["mimeType"], b64decode(block["data"])) == ("image", "image/png", PNG)


def test_other_bytes_are_a_resource(host: Host) -> None:
    (block,) = host.call("blob", data=b64encode(b"\x00\xff").decode())["content"]
    assert block["type"] == "resource"
    assert block["resource"]["mimeType"] == "application/octet-stream"
    assert b64decode(block["resource"]["blob"]) == b"\x00\xff"


def test_arguments_may_be_absent(host: Host) -> None:
    assert host.result("tools/call", {"name": "nothing"})["content"] == [{"type": "text", "text": "null"}]


def test_a_failed_tool_is_a_result_that_the_model_reads(host: Host) -> None:
    result = host.call("count_and_fail", to=1)
    assert result["isError"] is True
    assert result["content"] == [{"type": "text", "text": "out of numbers"}]
    assert result["_meta"]["rrext/error"]["code"] == "no_more"


def test_every_wrong_argument_is_named_to_the_model(host: Host) -> None:
    result = host.call("add", b="x", c=1)
    assert result["isError"] is True
    lines = result["content"][0]["text"].splitlines()
    assert len(lines) == 3
    assert all(any(line.startswith(f"/input/{name}: ") for line in lines) for name in "abc")


def test_a_tool_that_nobody_has_is_an_error_with_near_names(host: Host) -> None:
    error = host.failure("tools/call", {"name": "ad"})
    assert error["code"] == -32602
    assert "add" in error["data"]["near"]


@pytest.mark.parametrize("name", [None, 7, ["add"]])
def test_a_call_without_a_name_is_an_error_that_names_the_place(name: Any, host: Host) -> None:
    error = host.failure("tools/call", {"name": name})
    assert error["code"] == -32602
    assert error["data"]["errors"][0]["path"] == "/name"


@pytest.mark.parametrize("arguments", ["{}", [1], 7])
def test_arguments_that_are_no_object_are_refused(arguments: Any, host: Host) -> None:
    result = host.result("tools/call", {"name": "echo", "arguments": arguments})
    assert result["isError"] is True
    assert result["_meta"]["rrext/error"]["code"] == "invalid_arguments"


@pytest.mark.parametrize("method", ["rrext_process", "execute", "shutdown", "cancel", "tools", "resources/subscribe", ""])
def test_a_method_of_another_protocol_is_not_found(method: str, host: Host) -> None:
    assert host.failure(method, {"subcommand": "tool", "tool": "nothing"})["code"] == -32601


def test_a_call_may_have_a_deadline(host: Host) -> None:
    call = {"name": "wait", "arguments": {"key": uuid4().hex}, "_meta": {"rrext/timeout": 0.05}}
    result = host.result("tools/call", call)
    assert result["_meta"]["rrext/error"]["code"] == "tool_timeout"
    assert host.result("tools/call", {**call, "_meta": {"rrext/timeout": -1}})["isError"] is True


def test_the_host_has_the_user_and_the_space_of_the_command_line() -> None:
    with Host("--user", "ada", "--space", "attic") as host:
        assert "for_ada" in listed(host)
        who = host.value("who")
        assert (who["user"], who["space"]) == ("ada", "attic")


def test_progress_arrives_before_the_result_under_the_token_of_the_host(host: Host) -> None:
    key = uuid4().hex
    request = host.ask("tools/call", {"name": "wait", "arguments": {"key": key}, "_meta": {"progressToken": key}})
    note = host.message()
    assert note["method"] == "notifications/progress"
    assert note["params"] == {"progressToken": key, "progress": 1, "message": "parked"}
    host.call("open_gate", key=key)
    assert host.answer(request)["result"]["content"][0]["text"] == "passed"


def test_the_calls_within_a_call_are_progress_with_a_message(host: Host) -> None:
    key = uuid4().hex
    host.notes.clear()
    given = {"node": "", "tool": "add", "input": {"a": 1}}
    host.answer(host.ask("tools/call", {"name": "ask_async", "arguments": given, "_meta": {"progressToken": key}}))
    assert [note["params"] for note in host.notes] == [
        {"progressToken": key, "progress": 1, "message": "calls probe_1.add"},
        {"progressToken": key, "progress": 2, "message": "probe_1.add has ended"},
    ]


def test_steps_of_agents_stand_between_the_progress_of_the_tool_and_never_below_it() -> None:
    steps = CallSteps()
    agent = {"event": "agent_step", "call": 1, "agent": "helper"}
    assert steps.step({**agent, "step": "start"}) == {"progress": 1, "message": "helper begins"}
    assert steps.step({**agent, "step": "chunk", "data": "word"}) is None
    assert steps.reported(0.5, 2)
    told = steps.step({"event": "agent_turn", "call": 1, "agent": "helper", "step": "start", "turn": 2})
    assert told is not None
    assert (told["total"], told["message"]) == (2, "helper asks its model, turn 2")
    assert 1 < told["progress"] < 1.1
    assert not steps.reported(0.9, 2)
    assert steps.reported(2, 2)
    failed = {"event": "call_ended", "call": 2, "caller": 1, "nodeId": "n", "tool": "t", "code": "full", "message": "no room"}
    assert steps.step(failed) == {"progress": nextafter(2, 3), "total": 2, "message": "n.t failed: no room"}


def test_a_host_that_gives_no_token_gets_no_progress(host: Host) -> None:
    key = uuid4().hex
    host.notes.clear()
    request = host.ask("tools/call", {"name": "wait", "arguments": {"key": key}})
    host.call("open_gate", key=key)
    assert host.answer(request)["result"]["content"][0]["text"] == "passed"
    assert host.notes == []


def test_a_cancelled_call_is_unwound_and_gets_no_answer(host: Host) -> None:
    key = uuid4().hex
    request = host.ask("tools/call", {"name": "wait", "arguments": {"key": key}, "_meta": {"progressToken": key}})
    assert host.message()["method"] == "notifications/progress"
    host.notes.clear()
    host.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request, "reason": "enough"}})
    while host.call("journal", key=key)["content"][0]["text"] != '["unwound"]':
        pass
    assert host.call("add", a=1)["structuredContent"] == {"sum": 2}
    assert host.notes == []


def test_a_cancel_of_nothing_changes_nothing(host: Host) -> None:
    for request_id in (987_654, "never", None, [1]):
        host.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}})
    assert host.call("add", a=1)["structuredContent"] == {"sum": 2}
    assert host.notes == []


def test_calls_in_flight_do_not_wait_for_each_other(host: Host) -> None:
    key = uuid4().hex
    slow = [host.ask("tools/call", {"name": "wait", "arguments": {"key": key}}) for _ in range(20)]
    assert host.call("add", a=1)["structuredContent"] == {"sum": 2}
    host.call("open_gate", key=key)
    answered = {message["id"]: message["result"]["content"][0]["text"] for message in host.notes if "result" in message}
    for request in slow:
        if request not in answered:
            assert host.answer(request)["result"]["content"][0]["text"] == "passed"
    host.notes.clear()
