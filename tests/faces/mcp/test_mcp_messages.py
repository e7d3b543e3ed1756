"""Lines that are no good messages are answered, and the connection goes on; its end is the end of the server."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from mcp_host import HELLO, PATIENCE, Host

pytestmark = pytest.mark.promise("mcp:one-answer")

MISTAKES: list[tuple[bytes, int, Any]] = [
    (b"nonsense", -32700, None),
    (b'{"jsonrpc":"2.0","id":71,"method":"ping"', -32700, 71),
    (b'{"jsonrpc":"2.0","id":71,"method":"\xff"}', -32700, 71),
    (b"Content-Length: 40\r", -32700, None),
    (b"[" * 5000, -32700, None),
    (b"[]", -32600, None),
    (b'[{"jsonrpc":"2.0","id":71,"method":"ping"}]', -32600, None),
    (b'"ping"', -32600, None),
    (b'{"id":71,"method":"ping"}', -32600, 71),
    (b'{"jsonrpc":"1.0","id":71,"method":"ping"}', -32600, 71),
    (b'{"jsonrpc":"2.0","id":71}', -32600, 71),
    (b'{"jsonrpc":"2.0","id":71,"method":7}', -32600, 71),
    (b'{"jsonrpc":"2.0","id":71,"method":"ping","params":[]}', -32600, 71),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":"' + b"x" * 2000 + b'","method":"ping"}', -32600, None),
]

LATE = {"name": "wait", "arguments": {"key": "never"}, "_meta": {"rrext/timeout": 0.3}}
"""The parameters of a call that is answered some time after it was read."""


@pytest.mark.parametrize(("line", "number", "request_id"), MISTAKES, ids=[str(line[:45]) for line, _, _ in MISTAKES])
def test_a_line_that_is_no_request_is_answered_and_the_next_one_is_read(
    line: bytes, number: int, request_id: Any, host: Host
) -> None:
    host.write(line + b"\n")
    answer = host.message()
    assert answer["error"]["code"] == number
    assert answer.get("id") == request_id
    assert host.result("ping") is not None


def test_a_frame_with_a_header_is_told_that_messages_are_lines(host: Host) -> None:
    host.write(b"Content-Length: 40\r\n\r\n")
    assert "one JSON text a line on stdio, without Content-Length" in host.message()["error"]["message"]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"  \t ",
        b"\r",
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}',
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}',
        b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"deaf","arguments":{"key":"x"}}}',
    ],
)
def test_a_line_that_asks_for_nothing_is_not_answered(line: bytes, host: Host) -> None:
    host.notes.clear()
    host.write(line + b"\n")
    assert host.result("ping") is not None
    assert host.notes == []


def test_lines_may_end_as_on_windows_and_come_in_pieces(host: Host) -> None:
    for piece in (b'{"jsonrpc":"2.0","id":"a b",', b'"method":"ping"}\r', b"\n"):
        host.write(piece)
    assert host.message()["id"] == "a b"


def test_a_second_request_with_the_id_of_one_in_flight_is_refused_and_does_not_touch_it(host: Host) -> None:
    call = {"jsonrpc": "2.0", "id": "twice", "method": "tools/call"}
    host.send({**call, "params": {"name": "wait", "arguments": {"key": "twice"}}})
    host.send({**call, "params": {"name": "add", "arguments": {"a": 1}}})
    refused = host.message()
    assert refused["error"]["code"] == -32600
    assert "id" not in refused
    host.notes.clear()
    host.call("open_gate", key="twice")
    answer = host.notes.pop() if host.notes else host.message()
    assert (answer["id"], answer["result"]["content"][0]["text"]) == ("twice", "passed")


def test_an_id_that_is_used_again_within_one_read_gets_both_answers(host: Host) -> None:
    lines = [
        b'{"jsonrpc":"2.0","id":"again","method":"%b","params":{}}\n' % method for method in (b"ping", b"tools/list", b"ping")
    ]
    host.write(b"".join(lines))
    answers = [host.message() for _ in lines]
    assert all("result" in answer or answer["error"]["code"] == -32600 for answer in answers), answers
    assert any("tools" in answer.get("result", {}) for answer in answers)


def test_a_line_over_the_limit_is_refused_with_its_id_and_the_next_one_is_read() -> None:
    with Host("--max-frame", "100000") as host:
        error = host.failure("tools/call", {"name": "echo", "arguments": {"value": "x" * 300_000}})
        assert error["data"]["code"] == "frame_too_large"
        assert host.value("add", a=1) == {"sum": 2}
        assert host.value("echo", value="y" * 90_000) == {"result": "y" * 90_000}
        assert host.end() == 0


def test_the_end_of_input_ends_the_server_and_nothing_else_was_written() -> None:
    with Host() as host:
        assert host.value("add", a=1) == {"sum": 2}
        assert host.end() == 0
        with pytest.raises(EOFError):
            host.message()


def test_a_call_in_flight_is_answered_at_the_end_of_input() -> None:
    with Host() as host:
        request = host.ask("tools/call", {"name": "echo", "arguments": {"value": "last"}})
        host.close_input()
        assert host.answer(request)["result"]["structuredContent"] == {"result": "last"}
        assert host.process.wait(PATIENCE) == 0


def test_a_host_that_ends_after_its_handshake_is_told_nothing_more() -> None:
    with Host(shakes_hands=True) as host:
        for name in ("wait", "park"):
            host.ask("tools/call", {"name": name, "arguments": {"key": "never"}})
            host.ask("tools/call", {**LATE, "name": name})
        assert host.end() == 0
        with pytest.raises(EOFError):
            host.message()


def test_a_script_that_reads_nothing_before_its_end_gets_its_answers() -> None:
    lines = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {**HELLO, "protocolVersion": "2025-11-25"}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": LATE},
    ]
    with Host() as host:
        host.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        host.close_input()
        assert host.answer(1)["result"]["_meta"]["rrext/error"]["code"] == "tool_timeout"


@pytest.fixture(scope="module")
def batching() -> Iterator[Host]:
    """A host after a handshake in the version that has batches."""
    with Host() as host:
        host.result("initialize", {**HELLO, "protocolVersion": "2025-03-26"})
        yield host


def test_the_messages_of_a_batch_are_answered_one_by_one(batching: Host) -> None:
    call = {"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1}}}
    heard = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
    ping, wrong = ({"jsonrpc": "2.0", "id": method, "method": method} for method in ("ping", "x"))
    batching.send([ping, heard, call, wrong])
    answers = {answer["id"]: answer for answer in (batching.message() for _ in range(3))}
    assert answers["ping"]["result"] == {}
    assert answers["call"]["result"]["structuredContent"] == {"sum": 2}
    assert answers["x"]["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("batch", "ids"),
    [
        ([], [None]),
        ([1, [], {"jsonrpc": "2.0", "id": 5}], [None, None, 5]),
        ([{"jsonrpc": "2.0", "id": 6, "method": "initialize", "params": {}}], [6]),
        ([[{"jsonrpc": "2.0", "id": 7, "method": "ping"}]], [None]),
        ([{}] * 4097, [None]),
    ],
    ids=range(5),
)
def test_what_is_no_message_of_a_batch_is_refused(batch: list[Any], ids: list[Any], batching: Host) -> None:
    batching.send(batch)
    answers = [batching.message() for _ in ids]
    assert [(answer.get("id"), answer["error"]["code"]) for answer in answers] == [(each, -32600) for each in ids]
    assert batching.result("ping") is not None


def test_input_that_ends_inside_a_line_is_told() -> None:
    with Host() as host:
        host.write(b'{"jsonrpc":')
        host.close_input()
        assert host.message()["error"]["code"] == -32700
        assert host.process.wait(PATIENCE) == 1


def test_sigterm_drains_and_ends_the_server() -> None:
    with Host() as host:
        assert host.value("add", a=1) == {"sum": 2}
        os.kill(host.process.pid, signal.SIGTERM)
        assert host.process.wait(PATIENCE) == 0


def test_a_large_message_of_each_direction_arrives_whole(host: Host) -> None:
    text = "grüße " * 200_000
    result = host.call("echo", value=text)
    assert result["content"][0]["text"] == text
    assert len(msgspec.json.encode(result)) > 2_000_000
