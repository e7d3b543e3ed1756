"""Frames come out whole, however the bytes are cut, and what is unusable is said."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_vectors import (
    ALL,
    BIG,
    FATAL,
    SHORT,
    SMALL,
    Vector,
    body,
    byte_by_byte,
    dap,
    feed,
    frame,
    in_pieces,
    serve,
)

from rrext.limits import READ_BUFFER, Limits
from rrext.wire.connection import ClientConnection, ServerConnection
from rrext.wire.framing import ContentLength
from rrext.wire.messages import Fatal, Malformed, Request


def named(vector: Vector) -> str:
    return vector.name


@pytest.mark.promise("wire:split:any-offset")
@pytest.mark.parametrize("vector", ALL, ids=named)
def test_a_stream_gives_its_events_whole(vector: Vector) -> None:
    assert serve(vector.data) == vector.events


@pytest.mark.promise("wire:split:any-offset")
@pytest.mark.parametrize("vector", ALL, ids=named)
def test_a_stream_gives_the_same_events_byte_by_byte(vector: Vector) -> None:
    assert serve(*byte_by_byte(vector.data)) == vector.events


@pytest.mark.promise("wire:split:any-offset")
@pytest.mark.parametrize("vector", SHORT, ids=named)
def test_a_stream_gives_the_same_events_split_at_any_offset(vector: Vector) -> None:
    for at in range(1, len(vector.data)):
        assert serve(vector.data[:at], vector.data[at:]) == vector.events, f"split at {at}"


@pytest.mark.promise("wire:split:any-offset")
@pytest.mark.parametrize("size", [2, 7, 1000, 4096, 65_535, 65_536, 65_537])
@pytest.mark.parametrize("vector", [v for v in ALL if len(v.data) > 600], ids=named)
def test_a_long_stream_gives_the_same_events_in_pieces(vector: Vector, size: int) -> None:
    assert serve(*in_pieces(vector.data, size)) == vector.events


@pytest.mark.promise("wire:split:any-offset")
@given(
    chosen=st.lists(st.sampled_from([v for v in ALL if v not in FATAL and "JSON-RPC" not in v.name]), max_size=6),
    cuts=st.lists(st.integers(1, 70_000), max_size=12),
)
def test_any_mix_of_streams_gives_the_same_events_in_any_pieces(chosen: list[Vector], cuts: list[int]) -> None:
    data = b"".join(vector.data for vector in chosen)
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(data[at : at + cut])
        at += cut
    expected = [event for vector in chosen for event in vector.events]
    # Until a frame is valid, ids are searched in the form that the frame seems to have; these all are DAP's.
    assert serve(*pieces, data[at:], limits=SMALL) == expected


@pytest.mark.promise("wire:malformed:answered")
@pytest.mark.parametrize("vector", FATAL, ids=named)
def test_nothing_is_read_after_a_length_that_is_unusable(vector: Vector) -> None:
    server = ServerConnection(ContentLength(SMALL))
    assert feed(server, [vector.data]) == [("fatal", "parse_error")]
    assert feed(server, [frame(dap())] * 3, end=True) == []
    assert len(server.framer.get_buffer()) > 0


def test_a_message_without_header_is_told_what_a_frame_is() -> None:
    (event,) = ServerConnection(ContentLength()).framer.receive_data(b'{"jsonrpc"')
    assert isinstance(event, Fatal)
    assert "without a header" in event.error.message
    assert "Content-Length" in str(event.error.hint)


@pytest.mark.promise("wire:oversize:skipped")
@pytest.mark.parametrize("piece", [1000, 65_536, 1 << 20])
def test_a_body_over_the_limit_is_skipped_and_the_next_request_works(piece: int) -> None:
    limits = Limits(max_frame=100_000)
    data = frame(dap(5, arguments={"text": "x" * 3_000_000})) + frame(dap(6))
    assert [event[:3] for event in serve(*in_pieces(data, piece), limits=limits)] == [
        ("malformed", "frame_too_large", 5),
        ("request", 6, "c"),
    ]


@pytest.mark.promise("wire:oversize:skipped")
def test_a_body_over_the_limit_is_answered_as_soon_as_its_start_is_there() -> None:
    server = ServerConnection(ContentLength())
    (event,) = server.framer.receive_data(b'Content-Length: 4294967296\r\n\r\n{"seq":5,' + b" " * 4096)
    assert isinstance(event, Malformed)
    assert event.id == 5
    assert event.error.data == {"limit": "max_frame", "maximum": 16 << 20, "size": 4 << 30}


@pytest.mark.promise("wire:oversize:skipped")
def test_skipping_takes_no_memory() -> None:
    server, piece = ServerConnection(ContentLength()), bytes(65_536)
    server.framer.receive_data(b"Content-Length: 268435456\r\n\r\n")
    tracemalloc.start()
    try:
        for _ in range(4096):
            assert not server.framer.receive_data(piece) or _ == 0
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert feed(server, [frame(dap())])[0][:2] == ("request", 1)


@pytest.mark.parametrize("header", [b"Content-Length: %d", b"content-length:%d"])
def test_a_body_exactly_at_the_limit_is_taken(header: bytes) -> None:
    text = body(dap(arguments={"t": "x" * 1000}))
    data = (header + b"\r\n\r\n%b") % (len(text), text)
    for pieces in ([data], byte_by_byte(data)):
        assert [event[0] for event in serve(*pieces, limits=Limits(max_frame=len(text)))] == ["request"]
    for pieces in ([data], byte_by_byte(data)):
        assert serve(*pieces, limits=Limits(max_frame=len(text) - 1)) == [("malformed", "frame_too_large", 1)]


def test_a_header_block_exactly_at_the_limit_is_taken() -> None:
    for size, expected in ((8192, "request"), (8193, "fatal")):
        rest = b"\r\nContent-Length: %d\r\n\r\n" % len(body(dap()))
        block = b"X: " + b"x" * (size - 3 - len(rest)) + rest
        assert serve(block + body(dap()))[0][0] == expected
    assert serve(b"x" * 8191) == []
    assert serve(b"x" * 8192) == [("fatal", "parse_error")]


def test_an_id_is_never_looked_for_in_a_raw_tail() -> None:
    assert serve(frame(b'{"type":"request"', b',"seq":5,"command":"c"}')) == [("malformed", "parse_error", None)]
    oversize = frame(b'{"type":"request"', b',"seq":5,' + b" " * 200_000)
    assert serve(oversize) == [("malformed", "frame_too_large", None)]


def test_json_length_may_not_pass_the_length_of_the_body() -> None:
    size = len(body(dap(4)))
    for text in (b"-1", b"x", b"", b"1.5", b"999", b"%d" % (size + 1), b"%d" % (9 * size), b"9" * 6000, b"1\r\nJson-Length: 2"):
        data = frame(dap(4), headers=b"Json-Length: " + text + b"\r\n") + frame(dap(5))
        assert [event[:3] for event in serve(data)] == [("malformed", "parse_error", 4), ("request", 5, "c")], text


def test_json_never_reaches_into_what_follows_its_body() -> None:
    data = frame(dap(4), headers=b"Json-Length: %d\r\n" % (len(body(dap(4))) + 1)) + b"\n" + frame(dap(5))
    assert [event[:3] for event in serve(data)] == [("malformed", "parse_error", 4), ("request", 5, "c")]


def test_json_length_zero_leaves_no_json() -> None:
    data = b"Content-Length: 3\r\nJson-Length: 0\r\n\r\nabc" + frame(dap())
    assert [event[:2] for event in serve(data)] == [("malformed", "parse_error"), ("request", 1)]


@pytest.mark.parametrize(
    ("data", "missing"),
    [
        (b"Content-Length: 10\r\n\r\n{}", "8 bytes"),
        (b"Content-Length: 100000\r\n\r\n{}", "99998 bytes"),
        (b"Content-Length: 100000\r\nJson-Length: 2\r\n\r\n{}x", "99997 bytes"),
        (b"Content-Length: 10\r\n", "header block is not complete"),
        (b"C", "header block is not complete"),
    ],
)
def test_an_end_inside_a_frame_is_said_with_what_is_missing(data: bytes, missing: str) -> None:
    server = ServerConnection(ContentLength())
    assert server.framer.receive_data(data) == []
    (event,) = server.framer.receive_eof()
    assert isinstance(event, Fatal)
    assert missing in event.error.message
    assert server.framer.receive_eof() == []


@pytest.mark.parametrize("data", [b"", frame(dap()), frame(dap()) + b"\r\n\n", frame(BIG)])
def test_an_end_between_frames_is_nothing_to_tell(data: bytes) -> None:
    server = ServerConnection(ContentLength())
    server.framer.receive_data(data)
    assert server.framer.receive_eof() == []


def test_an_end_inside_a_body_that_is_skipped_is_not_answered_twice() -> None:
    server = ServerConnection(ContentLength(SMALL))
    assert feed(server, [frame(b" " * 300_000)[:100_000]]) == [("malformed", "frame_too_large", None)]
    assert server.framer.receive_eof() == []


def test_the_receive_buffer_is_one_and_stays() -> None:
    server = ServerConnection(ContentLength())
    memory = server.framer.get_buffer().obj
    for data in [frame(dap())] * 50 + [frame(dap())[:30], frame(dap())[30:] + b"Con", b"tent-Length: 2\r\n\r\n{}"]:
        server.framer.receive_data(data)
        assert server.framer.get_buffer().obj is memory


def test_an_idle_connection_has_no_receive_buffer() -> None:
    framers: list[ContentLength[Any]] = [ContentLength() for _ in range(3)]
    servers = [ServerConnection(framer) for framer in framers]
    whole = frame(dap(arguments={"t": "x" * 20_000}))
    buffers = set()
    for framer in framers:
        buffers.add(id(framer.get_buffer().obj))
        assert len(framer.receive_data(whole)) == 1
    assert len(buffers) == 1
    first, second, _ = framers
    first.receive_data(whole[:9])
    second.receive_data(whole[:15_000])
    assert first.get_buffer().obj is not second.get_buffer().obj
    (one,), (two,) = first.receive_data(whole[9:]), second.receive_data(whole[15_000:])
    assert isinstance(one, Request)
    assert isinstance(two, Request)
    assert one.arguments == two.arguments
    assert {server.dialect for server in servers} == {"dap"}


def test_a_large_body_is_read_straight_into_memory_of_its_size() -> None:
    server = ServerConnection(ContentLength())
    data = frame(dap(), bytes(1_000_000))
    server.framer.receive_data(data[:1000])
    room = server.framer.get_buffer()
    assert len(room) == len(data) - 1000
    room[:] = data[1000:]
    (event,) = server.framer.buffer_updated(len(data) - 1000)
    assert isinstance(event, Request)
    assert event.tail == bytes(1_000_000)
    assert type(event.tail) is bytes


def test_a_raw_tail_is_not_copied() -> None:
    """The peak is one tail, not two: it is read into the bytes that the request gets."""
    server, tail = ServerConnection(ContentLength()), b"t" * 4_000_000
    data = frame(dap(), tail)
    server.framer.receive_data(frame(dap()))
    tracemalloc.start()
    try:
        (event,) = server.framer.receive_data(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(event, Request)
    assert event.tail == tail
    assert peak < 1.2 * len(tail)


def test_a_raw_tail_survives_a_reader_that_keeps_its_view() -> None:
    server = ServerConnection(ContentLength())
    data = frame(dap(), bytes(range(256)) * 400)
    server.framer.receive_data(data[:500])
    room = server.framer.get_buffer()
    kept = room[:10]
    room[:] = data[500:]
    (event,) = server.framer.buffer_updated(len(data) - 500)
    assert isinstance(event, Request)
    assert event.tail == bytes(range(256)) * 400
    assert bytes(kept) == data[500:510]


def test_bytes_that_trickle_in_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a header nor a body is parsed again and again while it is not complete."""
    steps = 0
    step = ContentLength._step  # pyright: ignore[reportPrivateUsage]

    def counted(self: ContentLength[Any], events: list[object]) -> bool:
        nonlocal steps
        steps += 1
        return step(self, events)  # type: ignore[arg-type]

    monkeypatch.setattr(ContentLength, "_step", counted)
    server = ServerConnection(ContentLength())
    data = frame(dap(arguments={"t": "x" * 60_000}))
    assert len(feed(server, byte_by_byte(data))) == 1
    assert steps < 40
    steps = 0
    assert len(feed(server, byte_by_byte(frame(dap(), bytes(100_000))))) == 1
    assert steps < 60


@pytest.mark.parametrize("piece", [1000, READ_BUFFER])
def test_many_small_frames_in_one_read_move_no_byte_twice(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = 0
    move = ContentLength._move_to_front  # pyright: ignore[reportPrivateUsage]

    def counted(self: ContentLength[Any]) -> None:
        nonlocal moved
        moved += self._end - self._start  # pyright: ignore[reportPrivateUsage]
        move(self)

    monkeypatch.setattr(ContentLength, "_move_to_front", counted)
    data = frame(dap(arguments={"t": "x" * 100})) * 5000
    assert len(serve(*in_pieces(data, piece))) == 5000
    assert moved <= len(data) / 4


def test_a_connection_shows_where_it_is() -> None:
    server = ServerConnection(ContentLength())
    assert repr(server) == "<ServerConnection undecided, 0 bytes held>"
    server.framer.receive_data(frame(dap()) + b"Con")
    assert repr(server) == "<ServerConnection dap, 3 bytes held>"
    server.framer.receive_data(b"tent-Length: 99999999\r\n\r\n" + b" " * 4096)
    assert repr(server) == "<ServerConnection dap, 99995903 bytes to skip>"
    assert repr(ClientConnection(ContentLength(), "jsonrpc")) == "<ClientConnection jsonrpc, 0 bytes held>"
    server = ServerConnection(ContentLength())
    server.framer.receive_data(b"Content-Length: 100000\r\n\r\n{")
    assert repr(server) == "<ServerConnection undecided, <LargeBody 1 of 100000>>"
