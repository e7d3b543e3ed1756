"""Whatever is malformed is answered with a code, and the next frame works."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_vectors import GOOD, SMALL, body, byte_by_byte, dap, feed, frame, rpc, serve

from rrext.errors import ParseError
from rrext.wire.connection import ClientConnection, ServerConnection
from rrext.wire.framing import ContentLength
from rrext.wire.messages import MAX_ID, Malformed

GOOD_EVENT = ("request", 99, "rrext_ping", {})
PARSE, INVALID = "parse_error", "invalid_request"

ANY_DIALECT: list[tuple[bytes, str]] = [
    (b"", PARSE),
    (b" ", PARSE),
    (b"{", PARSE),
    (b"}", PARSE),
    (b"nul", PARSE),
    (b"NaN", PARSE),
    (b"Infinity", PARSE),
    (b"1e999", PARSE),
    (b"{}{}", PARSE),
    (b"{} x", PARSE),
    (b"{'a': 1}", PARSE),
    (b"{a: 1}", PARSE),
    (b"[1,]", PARSE),
    (b'{"a": 1,}', PARSE),
    (b'{"a" 1}', PARSE),
    (b'{"a": 01}', PARSE),
    (b'{"a": +1}', PARSE),
    (b'{"a": .5}', PARSE),
    (b'{"a": 1}// comment', PARSE),
    (b"\xef\xbb\xbf{}", PARSE),
    (b"\xff\xfe{\x00}\x00", PARSE),
    (b"\x00", PARSE),
    (b'"\n"', PARSE),
    (b'"\\x41"', PARSE),
    (b'"\\ud800"', PARSE),
    (b'"\xed\xa0\x80"', PARSE),
    (b"[" * 100_000, PARSE),
    (b"[" * 50_000 + b"]" * 50_000, PARSE),
    (b'{"a":' * 20_000 + b"1" + b"}" * 20_000, PARSE),
    (b"null", INVALID),
    (b"true", INVALID),
    (b"1", INVALID),
    (b'"text"', INVALID),
    (b"[]", INVALID),
    (b"[1, 2]", INVALID),
    (b"{}", INVALID),
    (b'{"a": 1}', INVALID),
]

DAP: list[tuple[bytes, str, int | None]] = [
    (b'{"type":"request","seq":5,"command":"c","arguments":{"a":NaN}}', PARSE, 5),
    (b'{"type":"request","seq":5,"command":"c","arguments":{"a":"\xff"}}', PARSE, 5),
    (b'{"type":"request","seq":5,"command":"c","unknown":"\xff"}', PARSE, 5),
    (b'{"type":"request","seq":5,"command":"c","unknown":{"\xff":1}}', PARSE, 5),
    (b'{"type":"request","seq":5,"command":"c","unknown":[1e400]}', PARSE, 5),
    (b'{"type":"request","seq":5,"command":"c","arguments":{"a":"\\udc00"}}', PARSE, 5),
    (b'{"arguments":{"t":"a\nb"},"type":"request","seq":5,"command":"c"}', PARSE, 5),
    (b'{"type":"request","seq":5,"command":"c",}', PARSE, 5),
    (b'{"type":"request","seq":5,"command":"c"', PARSE, 5),
    (b'{"type":"request","command":"c","arguments":{"seq":5},"x":}', PARSE, None),
    (b'{"type":"request","command":"\\"seq\\":5, ","x":}', PARSE, None),
    (b'{"type":"request","seq":true,"command":"c"}', INVALID, None),
    (b'{"type":"request","seq":1.0,"command":"c"}', INVALID, None),
    (b'{"type":"request","seq":1e0,"command":"c"}', INVALID, None),
    (b'{"type":"request","seq":null,"command":"c"}', INVALID, None),
    (b'{"type":"request","seq":"1","command":"c"}', INVALID, None),
    (b'{"type":"request","seq":[1],"command":"c"}', INVALID, None),
    (b'{"type":"request","seq":0,"command":"c"}', INVALID, None),
    (b'{"type":"request","seq":-1,"command":"c"}', INVALID, None),
    (b'{"type":"request","seq":%d,"command":"c"}' % (MAX_ID + 1), INVALID, None),
    (b'{"type":"request","seq":1' + b"0" * 40 + b',"command":"c"}', INVALID, None),
    (b'{"type":"request","command":"c"}', INVALID, None),
    (b'{"type":"request","seq":5}', INVALID, 5),
    (b'{"type":"request","seq":5,"command":null}', INVALID, 5),
    (b'{"type":"request","seq":5,"command":["c"]}', INVALID, 5),
    (b'{"type":"request","seq":5,"command":"c","arguments":[1]}', INVALID, 5),
    (b'{"type":"request","seq":5,"command":"c","arguments":"x"}', INVALID, 5),
    (b'{"type":"request","seq":5,"command":"c","arguments":false}', INVALID, 5),
    (b'{"seq":5,"command":"c"}', INVALID, 5),
    (b'{"type":"Request","seq":5,"command":"c"}', INVALID, 5),
    (b'{"type":["request"],"seq":5,"command":"c"}', INVALID, 5),
    (b'{"type":null,"seq":5,"command":"c"}', INVALID, 5),
]

RPC: list[tuple[bytes, str, int | str | None]] = [
    (b'{"jsonrpc":"2.0","id":5,"method":"c","params":{"a":NaN}}', PARSE, 5),
    (b'{"jsonrpc":"2.0","id":"x","method":"c","params":{"a":"\xff"}}', PARSE, "x"),
    (b'{"jsonrpc":"2.0","id":5,"method":"c","unknown":"\xff"}', PARSE, 5),
    (b'{"jsonrpc":"2.0","params":{"id":5},"id":"\xff","method":"c"}', PARSE, None),
    (b'{"jsonrpc":"2.0","params":{"id":5},"method":"c"', PARSE, None),
    (b'{"jsonrpc":"2.0","id":true,"method":"c"}', INVALID, None),
    (b'{"jsonrpc":"2.0","id":1.0,"method":"c"}', INVALID, None),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"c"}', INVALID, None),
    (b'{"jsonrpc":"2.0","id":null,"method":"c"}', INVALID, None),
    (b'{"jsonrpc":"2.0","id":{},"method":"c"}', INVALID, None),
    (b'{"jsonrpc":"2.0","id":[5],"method":"c"}', INVALID, None),
    (b'{"jsonrpc":"2.0","id":%d,"method":"c"}' % (MAX_ID + 1), INVALID, None),
    (b'{"jsonrpc":"2.0","id":-%d,"method":"c"}' % (MAX_ID + 1), INVALID, None),
    (b'{"jsonrpc":"2.0","id":5}', INVALID, 5),
    (b'{"jsonrpc":"2.0","id":5,"method":1}', INVALID, 5),
    (b'{"jsonrpc":"2.0","id":5,"method":null}', INVALID, 5),
    (b'{"jsonrpc":"2.0","id":5,"method":"c","params":[1]}', INVALID, 5),
    (b'{"jsonrpc":"2.0","id":5,"method":"c","params":"x"}', INVALID, 5),
    (b'{"jsonrpc":"2.0","method":"c","params":[1]}', INVALID, None),
    (b'{"jsonrpc":"1.0","id":5,"method":"c"}', INVALID, 5),
    (b'{"jsonrpc":2.0,"id":5,"method":"c"}', INVALID, 5),
    (b'{"jsonrpc":null,"id":5,"method":"c"}', INVALID, 5),
    (b'[{"jsonrpc":"2.0","id":5,"method":"c"}]', INVALID, None),
    (b'[{"jsonrpc":"2.0","id":5,"method":"c"},{"jsonrpc":"2.0","id":6,"method":"c"}]', INVALID, None),
]


def check(dialect: str, bad: bytes, code: str, number: object) -> None:
    good = frame(GOOD[dialect])
    expected = ("malformed", code, number)
    assert [event[:4] for event in serve(frame(bad) + good)] == [expected, GOOD_EVENT], "as the first frame"
    assert [event[:4] for event in serve(good + frame(bad) + good)] == [GOOD_EVENT, expected, GOOD_EVENT], "as a later frame"
    if len(bad) < 1000:
        assert [event[:4] for event in serve(*byte_by_byte(good + frame(bad) + good))] == [GOOD_EVENT, expected, GOOD_EVENT]


@pytest.mark.promise("wire:malformed:answered")
@pytest.mark.parametrize("dialect", ["dap", "jsonrpc"])
@pytest.mark.parametrize(("bad", "code"), ANY_DIALECT, ids=lambda v: repr(v[:30]))
def test_what_is_malformed_in_any_dialect_is_answered_and_survived(dialect: str, bad: bytes, code: str) -> None:
    check(dialect, bad, code, None)


@pytest.mark.promise("wire:malformed:answered")
@pytest.mark.parametrize(("bad", "code", "number"), DAP, ids=lambda v: repr(v)[:60])
def test_a_malformed_dap_message_is_answered_and_survived(bad: bytes, code: str, number: int | None) -> None:
    check("dap", bad, code, number)


@pytest.mark.promise("wire:malformed:answered")
@pytest.mark.parametrize(("bad", "code", "number"), RPC, ids=lambda v: repr(v)[:60])
def test_a_malformed_jsonrpc_message_is_answered_and_survived(bad: bytes, code: str, number: int | str | None) -> None:
    check("jsonrpc", bad, code, number)


@pytest.mark.promise("wire:malformed:answered")
def test_a_frame_of_the_other_dialect_is_answered_and_survived() -> None:
    for mine, other in (("dap", "jsonrpc"), ("jsonrpc", "dap")):
        events = serve(frame(GOOD[mine]) + frame(GOOD[other]) + frame(GOOD[mine]))
        assert [event[:4] for event in events] == [GOOD_EVENT, ("malformed", INVALID, None), GOOD_EVENT]


@pytest.mark.promise("wire:malformed:answered")
def test_a_version_that_is_missing_is_a_wrong_one() -> None:
    bad = frame(b'{"id":5,"method":"c"}')
    assert serve(frame(GOOD["jsonrpc"]) + bad)[1] == ("malformed", INVALID, 5)
    assert serve(bad) == [("malformed", INVALID, None)]


@pytest.mark.promise("wire:malformed:answered")
def test_a_refused_frame_of_the_other_dialect_changes_nothing() -> None:
    for mine, other in (("dap", "jsonrpc"), ("jsonrpc", "dap")):
        oversize = body(GOOD[other])[:-1] + b"," + b" " * 300_000
        server = ServerConnection(ContentLength(SMALL))
        before = feed(server, [frame(GOOD[mine])])
        assert feed(server, [frame(oversize)]) == [("malformed", "frame_too_large", None)]
        assert feed(server, [frame(GOOD[mine])]) == before
        answer = b"".join(server.error(None, "", ParseError("x")))
        assert (b'"jsonrpc"' in answer) == (mine == "jsonrpc")


@pytest.mark.promise("wire:malformed:answered")
def test_a_tail_of_a_malformed_frame_is_passed_over() -> None:
    for bad in (b"{", b'{"type":"request"}'):
        assert serve(frame(bad, b"x" * 100_000) + frame(dap()))[1][:2] == ("request", 1)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b"", "empty"),
        (b'{"a":"\xff"}', "not UTF-8 (byte 6)"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":1e999}', "not JSON"),
        (b"[]", "one JSON object"),
        (body(dap(0)), '"seq"'),
        (body(dap(arguments=[1])), '"arguments" must be an object'),
        (b'[{"jsonrpc":"2.0"}]', "batches"),
        (body(rpc(params=[1])), "by name"),
        (body(rpc() | {"id": None}), '"id"'),
        (body(rpc() | {"jsonrpc": "1.0"}), '"2.0"'),
    ],
)
def test_the_answer_says_what_is_wrong(bad: bytes, says: str) -> None:
    (event,) = ServerConnection(ContentLength()).framer.receive_data(frame(bad))
    assert isinstance(event, Malformed)
    assert says in event.error.message


def test_a_stranger_is_told_which_dialect_the_connection_speaks() -> None:
    for mine, other, says in (("dap", "jsonrpc", "speaks DAP"), ("jsonrpc", "dap", "speaks JSON-RPC")):
        _, event = ServerConnection(ContentLength()).framer.receive_data(frame(GOOD[mine]) + frame(GOOD[other]))
        assert isinstance(event, Malformed)
        assert says in event.error.message


ALPHABET = [
    b'{"type":"request",',
    b'"seq":',
    b"1",
    b',"command":"c"}',
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"\\",
    b",",
    b":",
    b"null",
]
ALPHABET += [
    b"\xff",
    b"\n",
    b"1.5",
    b"-",
    b'"id":',
    b'{"jsonrpc":"2.0",',
    b'"method":"m"',
    b"\\ud800",
    b" ",
    b"e9",
    b"\xed\xa0\x80",
]


@pytest.mark.promise("wire:malformed:answered")
@given(pieces=st.lists(st.sampled_from(ALPHABET), max_size=30), dialect=st.sampled_from(["dap", "jsonrpc", None]))
def test_any_body_gives_exactly_one_event_and_the_next_frame_works(pieces: list[bytes], dialect: str | None) -> None:
    server = ServerConnection(ContentLength(SMALL))
    if dialect is not None:
        feed(server, [frame(GOOD[dialect])])
    first, *_ = feed(server, [frame(b"".join(pieces))])
    assert first[0] in ("request", "malformed", "ignored")
    good = GOOD[server.dialect or "dap"]
    assert [event[:4] for event in feed(server, [frame(good)])] == [GOOD_EVENT]


HEADERISH = [b"Content-Length: ", b"Json-Length: ", b"\r\n", b"\n", b"\r\n\r\n", b"2", b"0", b"50", b"99999999", b"-1", b"{}"]
HEADERISH += [b":", b" ", b"x", b"{", b"\xff", b"\x00", frame(dap()), frame(rpc()), frame(dap(), b"tail"), body(dap())]


@pytest.mark.promise("wire:malformed:answered")
@given(
    stream=st.lists(st.one_of(st.sampled_from(HEADERISH), st.binary(max_size=8)), max_size=40).map(b"".join),
    cuts=st.lists(st.integers(0, 200), max_size=5),
)
def test_nothing_but_events_comes_out_of_any_bytes(stream: bytes, cuts: list[int]) -> None:
    for make in (
        lambda: ServerConnection(ContentLength(SMALL)),
        lambda: ClientConnection(ContentLength(SMALL), "dap"),
        lambda: ClientConnection(ContentLength(SMALL), "jsonrpc"),
    ):
        whole = feed(make(), [stream], end=True)
        pieces, at = [], 0
        for cut in cuts:
            pieces.append(stream[at : at + cut])
            at += cut
        assert feed(make(), [*pieces, stream[at:]], end=True) == whole
        assert [event[0] for event in whole].count("fatal") <= 1


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda v: (
            st.lists(v, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "id",
                        "seq",
                        "type",
                        "jsonrpc",
                        "method",
                        "params",
                        "command",
                        "arguments",
                        "error",
                        "result",
                        "body",
                        "event",
                        "success",
                        "request_seq",
                        "message",
                        "code",
                        "data",
                    ]
                ),
                v,
                max_size=8,
            )
        ),
        max_leaves=20,
    )
)
def test_any_value_gives_exactly_one_event(value: Any) -> None:
    data = frame(json.dumps(value).encode())
    clients = [ClientConnection(ContentLength(), dialect) for dialect in ("dap", "jsonrpc")]
    for connection in (ServerConnection(ContentLength()), *clients):
        assert len(feed(connection, [data])) == 1
