"""What each dialect reads and writes, member by member."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_vectors import body, dap, feed, frame, rpc, seen, serve

from rrext.errors import (
    NUMBERS,
    Cancelled,
    InvalidArguments,
    PipeNotOpen,
    RrextError,
    ToolError,
    error_from_wire,
    number_of,
)
from rrext.wire.codec import decode
from rrext.wire.connection import ClientConnection, ServerConnection
from rrext.wire.dap import Dap
from rrext.wire.dialect import Dialect, DialectName
from rrext.wire.framing import ContentLength
from rrext.wire.jsonrpc import JsonRpc
from rrext.wire.messages import MAX_ID, Malformed, Response

DIALECTS: tuple[DialectName, ...] = ("dap", "jsonrpc")


def server(dialect: DialectName) -> ServerConnection:
    connection = ServerConnection(ContentLength())
    connection.framer.receive_data(frame(dap() if dialect == "dap" else rpc()))
    return connection


def written(pieces: list[bytes]) -> dict[str, Any]:
    """The message in a frame without raw tail."""
    head, text = b"".join(pieces).split(b"\r\n\r\n", 1)
    assert head == b"Content-Length: %d" % len(text)
    return json.loads(text)


# what a server reads


def test_a_dap_request_is_its_command_and_arguments() -> None:
    message = dap(7, "rrext_process", arguments={"token": "T", "_meta": {"traceparent": "x"}})
    expected = ("request", 7, "rrext_process", {"token": "T", "_meta": {"traceparent": "x"}}, None, len(body(message)))
    assert serve(frame(message)) == [expected]


def test_a_jsonrpc_request_is_its_method_and_params() -> None:
    message = rpc("id-7", "rrext_process", params={"token": "T", "_meta": {"traceparent": "x"}})
    expected = ("request", "id-7", "rrext_process", {"token": "T", "_meta": {"traceparent": "x"}}, None, len(body(message)))
    assert serve(frame(message)) == [expected]


@pytest.mark.promise("meta:passthrough")
@pytest.mark.parametrize("meta", [{"a": {"b": [1, None]}}, [1], "x", None, 5])
def test_meta_in_the_arguments_is_left_alone(meta: Any) -> None:
    for message in (dap(arguments={"_meta": meta}), rpc(params={"_meta": meta})):
        assert serve(frame(message))[0][3] == {"_meta": meta}


@pytest.mark.parametrize("message", [dap(), dap(arguments=None), dap(arguments={}), rpc(), rpc(params=None), rpc(params={})])
def test_arguments_that_are_absent_or_null_are_none_at_all(message: dict[str, Any]) -> None:
    assert serve(frame(message))[0][3] == {}


@pytest.mark.parametrize("extra", [{"x": 1}, {"token": "T"}, {"": None}, {"body": {}}, {"arguments2": [1]}])
def test_unknown_members_of_a_message_are_passed_over(extra: dict[str, Any]) -> None:
    for message in (dap(**extra), rpc(**extra)):
        assert serve(frame(message))[0][:4] == ("request", 1, "c", {})


@pytest.mark.parametrize("number", [1, 2, MAX_ID])
def test_a_dap_id_is_a_whole_number_from_one(number: int) -> None:
    assert serve(frame(dap(number)))[0][:2] == ("request", number)


@pytest.mark.parametrize("number", [0, -1, 1, MAX_ID, -MAX_ID, "", "1", "ü", "x" * 1000])
def test_a_jsonrpc_id_is_a_whole_number_or_a_string(number: int | str) -> None:
    assert serve(frame(rpc(number)))[0][:2] == ("request", number)
    assert type(serve(frame(rpc(number)))[0][1]) is type(number)


def test_a_jsonrpc_request_without_id_is_a_notification() -> None:
    assert serve(frame({"jsonrpc": "2.0", "method": "m", "params": {"a": 1}}))[0][:4] == ("request", None, "m", {"a": 1})


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 5}}, {"requestId": 5}),
        ({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": "x", "_meta": 1}}, {"requestId": "x", "_meta": 1}),
        ({"jsonrpc": "2.0", "method": "$/cancelRequest"}, {}),
        ({"jsonrpc": "2.0", "method": "$/cancelRequest", "unknown": 1, "params": {"id": 5}}, {"requestId": 5}),
    ],
)
def test_a_cancel_notification_is_the_cancel_command(message: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert serve(frame(message))[0][:4] == ("request", None, "cancel", arguments)


def test_a_dap_request_of_that_name_is_left_alone() -> None:
    assert serve(frame(dap(1, "$/cancelRequest", arguments={"id": 5})))[0][2:4] == ("$/cancelRequest", {"id": 5})


@pytest.mark.parametrize(
    ("message", "dialect"),
    [
        ({"type": "response", "seq": 1, "request_seq": 1, "success": True}, "dap"),
        ({"type": "event", "seq": 1, "event": "x"}, "dap"),
        ({"type": "event"}, "dap"),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, "jsonrpc"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}, "jsonrpc"),
        ({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "x"}}, "jsonrpc"),
    ],
)
def test_answers_and_events_sent_to_a_server_are_ignored(message: dict[str, Any], dialect: str) -> None:
    connection = ServerConnection(ContentLength())
    assert feed(connection, [frame(message)]) == [("ignored",)]
    assert connection.dialect == dialect


# which dialect


@pytest.mark.parametrize(("message", "dialect"), [(dap(), "dap"), (rpc(), "jsonrpc"), (rpc() | {"type": "request"}, "jsonrpc")])
def test_the_first_valid_frame_decides_the_dialect(message: dict[str, Any], dialect: str) -> None:
    connection = ServerConnection(ContentLength())
    assert connection.dialect is None
    feed(connection, [frame(b"{"), frame(b"[]"), frame(dap(0)), frame(rpc() | {"id": None})])
    assert connection.dialect is None
    feed(connection, [frame(message)])
    assert connection.dialect == dialect
    feed(connection, [frame(dap()), frame(rpc())])
    assert connection.dialect == dialect


@pytest.mark.parametrize(
    ("bad", "answer"),
    [
        (b"{", {"request_seq": 0, "command": ""}),
        (b'{"type":"request","seq":7,', {"request_seq": 7}),
        (b'{"jsonrpc":"2.0","id":"x",', {"id": "x", "jsonrpc": "2.0"}),
        (b'{"jsonrpc":"2.0","id":null,"method":"m"}', {"id": None, "jsonrpc": "2.0"}),
        (b'[{"jsonrpc":"2.0","id":1,"method":"m"}]', {"id": None, "jsonrpc": "2.0"}),
        (b"[]", {"request_seq": 0}),
    ],
)
def test_before_that_an_answer_has_the_form_that_its_request_seems_to_have(bad: bytes, answer: dict[str, Any]) -> None:
    connection = ServerConnection(ContentLength())
    (event,) = connection.framer.receive_data(frame(bad))
    assert isinstance(event, Malformed)
    assert written(connection.error(event.id, "", event.error)).items() >= answer.items()


def test_an_id_of_the_other_dialect_is_no_request_seq() -> None:
    connection = ServerConnection(ContentLength())
    event, _ = connection.framer.receive_data(frame(b'{"jsonrpc":"2.0","id":"x",') + frame(dap()))
    assert isinstance(event, Malformed)
    assert written(connection.error(event.id, "", event.error))["request_seq"] == 0


# without a framer


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_transport_that_keeps_messages_apart_needs_no_framer(dialect: DialectName) -> None:
    connection, message = ServerConnection(None), body(dap(7, "c") if dialect == "dap" else rpc(7, "c"))
    assert seen(connection.receive_message(b"{")) == ("malformed", "parse_error", None)
    assert seen(connection.receive_message(message)) == ("request", 7, "c", {}, None, len(message))
    assert seen(connection.receive_message(message)) == ("request", 7, "c", {}, None, len(message))
    assert connection.dialect == dialect
    large = b'{"t":"%b"}' % (b"x" * 100_000)
    for pieces in (connection.result(7, "c", b"{}"), connection.result(7, "c", large), connection.event("e", large)):
        (whole,) = pieces
        assert isinstance(decode(whole), dict)
    (whole,) = connection.result_tail(7, "c", b"{}", b"\xff")
    assert b'"result":"/w=="' in whole
    (whole,) = connection.error(7, "c", Cancelled())
    assert b"cancelled" in whole


# what a server writes


def test_a_dap_success_names_its_request() -> None:
    connection = server("dap")
    assert written(connection.result(7, 'co%d"m', b'{"a":"%d"}')) == {
        "type": "response",
        "seq": 1,
        "request_seq": 7,
        "command": 'co%d"m',
        "success": True,
        "body": {"a": "%d"},
    }
    assert written(connection.result(8, "c", b"{}"))["seq"] == 2
    assert written(connection.event("rrext_progress", b'{"a":1}')) == {
        "type": "event",
        "seq": 3,
        "event": "rrext_progress",
        "body": {"a": 1},
    }


def test_a_jsonrpc_success_has_the_id_of_its_request() -> None:
    connection = server("jsonrpc")
    for number in (7, -7, "x", '"', ""):
        assert written(connection.result(number, "c", b'{"a":1}')) == {"jsonrpc": "2.0", "id": number, "result": {"a": 1}}
    assert written(connection.event("rrext_progress", b'{"a":1}')) == {
        "jsonrpc": "2.0",
        "method": "rrext_progress",
        "params": {"a": 1},
    }


ERRORS: list[RrextError] = [
    Cancelled(),
    PipeNotOpen("Pipe 3 is not open", hint="open it"),
    InvalidArguments.at("/input/city", "is missing"),
    ToolError("no", code="my_code", data={"a": [1, "ü"]}),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: e.code)
def test_an_error_has_the_members_of_its_dialect(error: RrextError) -> None:
    hint = {} if error.hint is None else {"hint": error.hint}
    answer = written(server("dap").error(7, "c", error))
    assert answer == {
        "type": "response",
        "seq": 1,
        "request_seq": 7,
        "command": "c",
        "success": False,
        "message": error.message,
        "code": error.code,
        **hint,
        **({"data": error.data} if error.data else {}),
    }
    answer = written(server("jsonrpc").error("x", "c", error))
    expected = {"code": number_of(error.code), "message": error.message, "data": {"code": error.code, **hint, **error.data}}
    assert answer == {"jsonrpc": "2.0", "id": "x", "error": expected}


def test_an_error_without_id_has_the_form_for_that() -> None:
    answer = written(server("dap").error(None, "", Cancelled()))
    assert (answer["request_seq"], answer["command"], answer["success"]) == (0, "", False)
    assert written(server("jsonrpc").error(None, "", Cancelled()))["id"] is None


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("data", [{"a": {"b": float("nan")}}, {"a": object()}, {1: 2}, {"a": "\ud800"}])
def test_an_error_goes_out_whatever_a_tool_put_into_it(dialect: DialectName, data: dict[Any, Any]) -> None:
    error = ToolError("bad \ud800", code="co\ud800", hint="h\ud800", data=data)
    client = ClientConnection(ContentLength(), dialect)
    (event,) = client.framer.receive_data(b"".join(server(dialect).error(7, "c\ud800", error)))
    assert isinstance(event, Response)
    assert isinstance(event.error, ToolError)
    assert event.error.message.startswith("bad ? (its data is left out: ")
    assert (event.error.code, event.error.hint, event.error.data) == ("co?", "h?", {})


# what a client reads


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("code", [*NUMBERS, "my_code"])
def test_an_error_reaches_the_client_as_the_class_of_its_code(dialect: DialectName, code: str) -> None:
    error = error_from_wire(code, "text", "hint", {"a": 1})
    (event,) = ClientConnection(ContentLength(), dialect).framer.receive_data(b"".join(server(dialect).error(7, "c", error)))
    assert isinstance(event, Response)
    assert type(event.error) is type(error)
    assert event.error is not None
    assert (event.error.code, event.error.message, event.error.hint, event.error.data) == (code, "text", "hint", {"a": 1})


def client(dialect: DialectName, message: dict[str, Any] | list[Any]) -> tuple[Any, ...]:
    (event,) = ClientConnection(ContentLength(), dialect).framer.receive_data(frame(message))
    return seen(event)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"type": "response", "request_seq": 3, "success": True}, ("response", 3, None, {}, None, None)),
        ({"type": "response", "request_seq": 3, "command": "c", "body": {"a": 1}}, ("response", 3, "c", {"a": 1}, None, None)),
        ({"type": "response", "request_seq": 3, "success": None, "body": None}, ("response", 3, None, {}, None, None)),
        ({"type": "response", "request_seq": 3, "success": False}, ("response", 3, None, {}, "tool_failed", None)),
        (
            {"type": "response", "request_seq": 3, "success": False, "code": 5, "data": []},
            ("response", 3, None, {}, "tool_failed", None),
        ),
        ({"type": "response", "request_seq": 0, "success": False, "code": "x"}, ("response", None, None, {}, "x", None)),
        ({"type": "response", "success": True}, ("malformed", "invalid_request", None)),
        ({"type": "response", "request_seq": "3"}, ("malformed", "invalid_request", None)),
        ({"type": "event", "event": "e"}, ("event", "e", {}, None)),
        ({"type": "event", "event": "e", "body": {"a": 1}, "x": 1}, ("event", "e", {"a": 1}, None)),
        ({"type": "event"}, ("malformed", "invalid_request", None)),
        ({"type": "request", "seq": 1, "command": "c"}, ("ignored",)),
        ({"type": 5}, ("ignored",)),
        ({}, ("ignored",)),
        ([], ("malformed", "invalid_request", None)),
    ],
)
def test_a_dap_client_reads_what_servers_send(message: Any, expected: tuple[Any, ...]) -> None:
    assert client("dap", message) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"jsonrpc": "2.0", "id": 3, "result": {"a": 1}}, ("response", 3, None, {"a": 1}, None, None)),
        ({"jsonrpc": "2.0", "id": 3, "result": None}, ("response", 3, None, None, None, None)),
        ({"jsonrpc": "2.0", "id": "x", "result": 5, "error": None}, ("response", "x", None, 5, None, None)),
        (
            {"jsonrpc": "2.0", "id": 3, "error": {"code": -32601, "message": "m"}},
            ("response", 3, None, {}, "unknown_command", None),
        ),
        ({"jsonrpc": "2.0", "id": 3, "error": {"code": -32000, "message": "m"}}, ("response", 3, None, {}, "-32000", None)),
        ({"jsonrpc": "2.0", "id": 3, "error": "m"}, ("response", 3, None, {}, "tool_failed", None)),
        (
            {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "m"}},
            ("response", None, None, {}, "parse_error", None),
        ),
        ({"jsonrpc": "2.0", "id": None, "result": {}}, ("malformed", "invalid_request", None)),
        ({"jsonrpc": "2.0", "id": 3}, ("malformed", "invalid_request", 3)),
        ({"id": 3, "result": {}}, ("malformed", "invalid_request", 3)),
        ({"jsonrpc": "2.0", "method": "e", "params": {"a": 1}}, ("event", "e", {"a": 1}, None)),
        ({"jsonrpc": "2.0", "method": "e"}, ("event", "e", {}, None)),
        ({"jsonrpc": "2.0", "method": "e", "id": 1}, ("ignored",)),
        ([], ("malformed", "invalid_request", None)),
    ],
)
def test_a_jsonrpc_client_reads_what_servers_send(message: Any, expected: tuple[Any, ...]) -> None:
    assert client("jsonrpc", message) == expected


@pytest.mark.parametrize(
    ("dialect", "broken"),
    [("dap", b'{"type":"response","request_seq":9,"body":{"a":NaN}}'), ("jsonrpc", b'{"jsonrpc":"2.0","id":9,"result":NaN}')],
)
def test_an_answer_that_cannot_be_read_still_ends_its_call(dialect: DialectName, broken: bytes) -> None:
    assert feed(ClientConnection(ContentLength(), dialect), [frame(broken)]) == [("malformed", "parse_error", 9)]


# the fast way and the careful way

MEMBERS = {
    "type": st.sampled_from(["request", "response", "event", "x"]) | st.integers(),
    "seq": st.integers(-1, 3) | st.floats(0, 2) | st.booleans() | st.none() | st.just("1") | st.just(2**60),
    "command": st.text(max_size=3) | st.none() | st.integers(),
    "arguments": st.dictionaries(st.text(max_size=3), st.integers(), max_size=2) | st.none() | st.just([1]),
    "jsonrpc": st.sampled_from(["2.0", "1.0", 2.0, None]),
    "id": st.integers(-1, 3) | st.floats(0, 2) | st.booleans() | st.none() | st.text(max_size=3) | st.just(-(2**60)),
    "method": st.text(max_size=3) | st.none() | st.integers() | st.just("$/cancelRequest"),
    "params": st.dictionaries(st.text(max_size=3) | st.just("id"), st.integers(), max_size=2) | st.none() | st.just([1]),
    "request_seq": st.integers(-1, 3) | st.none() | st.floats(0, 2),
    "success": st.booleans() | st.none() | st.just(0),
    "body": st.dictionaries(st.text(max_size=3), st.integers(), max_size=2) | st.none() | st.just(5),
    "result": st.dictionaries(st.text(max_size=3), st.integers(), max_size=2) | st.none() | st.just(5),
    "event": st.text(max_size=3) | st.none(),
    "error": st.none() | st.fixed_dictionaries({"code": st.integers()}),
    "unknown": st.integers(),
}
DAP_SHAPES = [("type", "seq", "command", "arguments"), ("type", "seq", "request_seq", "command", "success", "body", "event")]
RPC_SHAPES = [("jsonrpc", "id", "method", "params"), ("jsonrpc", "id", "result", "error", "method")]


@st.composite
def messages(draw: st.DrawFn, shapes: list[tuple[str, ...]]) -> dict[str, Any]:
    names = [*draw(st.sampled_from(shapes)), "unknown"]
    return draw(st.fixed_dictionaries({}, optional={name: MEMBERS[name] for name in names}))


@pytest.mark.parametrize(("make", "shapes"), [(Dap, DAP_SHAPES), (JsonRpc, RPC_SHAPES)])
@given(data=st.data(), tail=st.none() | st.just(b"t"))
def test_the_fast_way_reads_what_the_careful_way_reads(
    make: type[Dialect], shapes: list[tuple[str, ...]], data: st.DataObject, tail: bytes | None
) -> None:
    text = body(data.draw(messages(shapes)))
    dialect = make()
    assert seen(dialect.read_request(memoryview(text), tail, 9)) == seen(dialect.judge_request(decode(text), tail, 9))
    assert seen(dialect.read_answer(memoryview(text), tail, 9)) == seen(dialect.judge_answer(decode(text), tail))
