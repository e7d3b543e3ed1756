"""A client's and a server's connection driven against each other, without any I/O."""

from __future__ import annotations

import base64
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from wire_vectors import body, feed, frame, in_pieces, seen

from rrext.errors import ToolNotFound, UsageError
from rrext.limits import MAX_COPIED_PAYLOAD
from rrext.wire.codec import encode
from rrext.wire.connection import ClientConnection, ServerConnection
from rrext.wire.dialect import DialectName
from rrext.wire.framing import ContentLength
from rrext.wire.messages import Event, Request, Response

DIALECTS: tuple[DialectName, ...] = ("dap", "jsonrpc")
both = pytest.mark.parametrize("dialect", DIALECTS)


def pair(dialect: DialectName, *, raw_tail: bool = True) -> tuple[ClientConnection, ServerConnection]:
    """A client, and a server that knows its dialect."""
    client, server = ClientConnection(ContentLength(), dialect), ServerConnection(ContentLength())
    server.framer.receive_data(b"".join(client.request("rrext_ping", {})[1]))
    server.raw_tail = raw_tail
    return client, server


def only(events: list[Any]) -> Any:
    (event,) = events
    return event


@both
def test_a_call_and_its_answer_cross(dialect: DialectName) -> None:
    client, server = ClientConnection(ContentLength(), dialect), ServerConnection(ContentLength())
    number, frames = client.request("rrext_process", {"subcommand": "tool", "input": {"a": 1}})
    request = only(server.framer.receive_data(b"".join(frames)))
    assert isinstance(request, Request)
    assert (request.id, request.command, request.arguments["input"]) == (number, "rrext_process", {"a": 1})
    assert server.dialect == dialect
    response = only(client.framer.receive_data(b"".join(server.result(number, "rrext_process", b'{"result":3}'))))
    assert isinstance(response, Response)
    assert (response.id, response.body, response.error) == (number, {"result": 3}, None)
    assert only(client.framer.receive_data(b"".join(server.event("e", b'{"progress":1}')))) == Event("e", {"progress": 1})


@both
def test_an_error_and_its_answer_cross(dialect: DialectName) -> None:
    client, server = pair(dialect)
    failed = ToolNotFound("Tool x was not found", hint="see y", data={"near": ["y"]})
    response = only(client.framer.receive_data(b"".join(server.error(1, "rrext_process", failed))))
    assert isinstance(response.error, ToolNotFound)
    assert (response.error.message, response.error.hint, response.error.data) == (failed.message, failed.hint, failed.data)


@both
@pytest.mark.promise("wire:bytes:one-rule")
@given(
    tail=st.binary() | st.integers(0, 300_000).map(lambda size: bytes(range(256)) * (size // 256)), piece=st.integers(1, 70_000)
)
def test_random_bytes_survive_as_raw_tails_both_ways(dialect: DialectName, tail: bytes, piece: int) -> None:
    client, server = pair(dialect)
    _, frames = client.request("write", {"a": "ü"}, tail)
    request = only(
        [event for part in in_pieces(b"".join(frames), piece + len(tail) // 50) for event in server.framer.receive_data(part)]
    )
    assert (request.tail, request.arguments) == (tail, {"a": "ü"})
    assert request.nbytes >= len(tail)
    response = only(client.framer.receive_data(b"".join(server.result_tail(1, "tool", b'{"a":1}', tail))))
    assert (response.tail, response.body) == (tail, {"a": 1, "data": tail})
    event = only(client.framer.receive_data(b"".join(server.event("rrext_chunk", b'{"index":0}', tail))))
    assert (event.tail, event.body) == (tail, {"index": 0, "data": tail})


@both
@pytest.mark.promise("wire:bytes:one-rule")
@given(tail=st.binary(max_size=100))
def test_a_client_that_takes_no_tails_gets_base64(dialect: DialectName, tail: bytes) -> None:
    client, server = pair(dialect, raw_tail=False)
    text = base64.b64encode(tail).decode()
    response = only(client.framer.receive_data(b"".join(server.result_tail(1, "tool", b"{}", tail))))
    assert (response.tail, response.body) == (None, {"result": text})
    response = only(client.framer.receive_data(b"".join(server.result_tail(1, "read", b'{"size":1}', tail, "data_base64"))))
    assert response.body == {"size": 1, "data_base64": text}
    event = only(client.framer.receive_data(b"".join(server.event("rrext_chunk", b'{"index":0}', tail))))
    assert (event.tail, event.body) == (None, {"index": 0, "chunk": text})


@both
@pytest.mark.parametrize("size", [0, 1, MAX_COPIED_PAYLOAD - 1, MAX_COPIED_PAYLOAD, MAX_COPIED_PAYLOAD + 1, 1_000_000])
def test_a_payload_of_any_size_crosses_unchanged(dialect: DialectName, size: int) -> None:
    client, server = pair(dialect)
    value = {"text": "x" * size}
    assert only(client.framer.receive_data(b"".join(server.result(1, "c", encode(value))))).body == value
    assert only(client.framer.receive_data(b"".join(server.event("e", encode(value))))).body == value
    assert only(server.framer.receive_data(b"".join(client.request("c", value)[1]))).arguments == value


@both
def test_a_large_payload_is_handed_on_without_a_copy(dialect: DialectName) -> None:
    client, server = pair(dialect)
    large = encode({"text": "x" * 100_000})
    tail = bytes(100_000)
    assert any(piece is large for piece in server.result(1, "c", large))
    assert any(piece is large for piece in server.event("e", large))
    assert any(piece is tail for piece in server.result_tail(1, "c", b"{}", tail))
    assert any(piece is tail for piece in server.event("e", b"{}", tail))
    assert any(piece is tail for piece in client.request("c", {}, tail)[1])


@both
def test_a_small_answer_is_one_piece(dialect: DialectName) -> None:
    client, server = pair(dialect)
    assert len(server.result(1, "c", b"{}")) == 1
    assert len(server.result_tail(1, "c", b"{}", b"tail")) == 1
    assert len(client.request("c", {"a": 1}, b"tail")[1]) == 1


@both
@pytest.mark.parametrize("arguments", [{"a": float("nan")}, {"a": {1: 2}}, {"a": object()}, {"a": "\ud800"}])
def test_arguments_that_json_cannot_hold_are_refused_before_anything_is_sent(dialect: DialectName, arguments: Any) -> None:
    client = ClientConnection(ContentLength(), dialect)
    with pytest.raises(UsageError, match="arguments cannot be sent"):
        client.request("c", arguments)
    assert client.request("c", {})


@both
def test_ids_and_sequence_numbers_are_never_given_twice_by_many_threads(dialect: DialectName) -> None:
    client, server = pair(dialect)
    numbers: list[Any] = []
    answers: list[bytes] = []

    def work() -> None:
        for _ in range(200):
            number, _ = client.request("c", {})
            numbers.append(number)
            answers.extend(server.result(number, "c", b"{}"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(numbers)) == len(numbers) == 1600
    assert len(feed(client, answers)) == 1600
    if dialect == "dap":
        assert len({answer.split(b'"seq":')[1].split(b",")[0] for answer in answers}) == 1600


SIZES = st.sampled_from([0, 1, 100, 5000, 70_000])


class Conversation(RuleBasedStateMachine):
    """Everything that either side says arrives at the other one, once and in order, however the bytes travel."""

    @initialize(dialect=st.sampled_from(DIALECTS), raw_tail=st.booleans())
    def start(self, dialect: DialectName, raw_tail: bool) -> None:
        self.dialect: DialectName = dialect
        self.client, self.server = pair(dialect, raw_tail=raw_tail)
        self.to_server, self.to_client = bytearray(), bytearray()
        self.expected_by_server: list[tuple[Any, ...]] = []
        self.expected_by_client: list[tuple[Any, ...]] = []

    @rule(size=SIZES, tail=st.none() | SIZES)
    def ask(self, size: int, tail: int | None) -> None:
        raw = None if tail is None else b"\r" * tail
        arguments = {"text": "t" * size}
        number, frames = self.client.request("c", arguments, raw)
        self.to_server += b"".join(frames)
        self.expected_by_server.append(("request", number, "c", arguments, raw))

    @rule(text=st.sampled_from([b"{", b"", b"[]", b"\xff", b" " * 70_000]))
    def say_nonsense(self, text: bytes) -> None:
        self.to_server += frame(text)
        self.expected_by_server.append(("malformed", "invalid_request" if text == b"[]" else "parse_error", None))

    @rule()
    def say_what_a_server_ignores(self) -> None:
        said = {"type": "event", "event": "e"} if self.dialect == "dap" else {"jsonrpc": "2.0", "id": 1, "result": 1}
        self.to_server += frame(said)
        self.expected_by_server.append(("ignored",))

    @rule(number=st.integers(1, 1000), size=SIZES)
    def answer(self, number: int, size: int) -> None:
        said = {"text": "ü" * size}
        self.to_client += b"".join(self.server.result(number, "c", body(said)))
        self.expected_by_client.append(("response", number, "c" if self.dialect == "dap" else None, said, None, None))

    @rule(number=st.integers(1, 1000), size=SIZES)
    def answer_with_bytes(self, number: int, size: int) -> None:
        tail = b"{" * size
        self.to_client += b"".join(self.server.result_tail(number, "c", b"{}", tail))
        said: dict[str, Any] = {"data": tail} if self.server.raw_tail else {"result": base64.b64encode(tail).decode()}
        command = "c" if self.dialect == "dap" else None
        self.expected_by_client.append(("response", number, command, said, None, tail if self.server.raw_tail else None))

    @rule(number=st.none() | st.integers(1, 1000))
    def refuse(self, number: int | None) -> None:
        self.to_client += b"".join(self.server.error(number, "", ToolNotFound("x")))
        command = "" if self.dialect == "dap" else None
        self.expected_by_client.append(("response", number, command, {}, "tool_not_found", None))

    @rule(size=SIZES)
    def tell(self, size: int) -> None:
        self.to_client += b"".join(self.server.event("e", body({"text": "x" * size})))
        self.expected_by_client.append(("event", "e", {"text": "x" * size}, None))

    @rule(size=st.integers(1, 100_000))
    def carry_to_the_server(self, size: int) -> None:
        self.take_by_server(bytes(self.to_server[:size]))
        del self.to_server[:size]

    @rule(size=st.integers(1, 100_000))
    def carry_to_the_client(self, size: int) -> None:
        self.take_by_client(bytes(self.to_client[:size]))
        del self.to_client[:size]

    def take_by_server(self, data: bytes) -> None:
        for event in feed(self.server, [data]):
            assert event[:5] == self.expected_by_server.pop(0)

    def take_by_client(self, data: bytes) -> None:
        for event in feed(self.client, [data]):
            assert event == self.expected_by_client.pop(0)

    @invariant()
    def there_is_always_room_to_read_into(self) -> None:
        if hasattr(self, "server"):
            assert len(self.server.framer.get_buffer()) > 0
            assert len(self.client.framer.get_buffer()) > 0

    def teardown(self) -> None:
        if hasattr(self, "server"):
            self.take_by_server(bytes(self.to_server))
            self.take_by_client(bytes(self.to_client))
            assert self.expected_by_server == self.expected_by_client == []
            assert [seen(event) for event in (*self.server.framer.receive_eof(), *self.client.framer.receive_eof())] == []


TestConversation = Conversation.TestCase
TestConversation.settings = settings(max_examples=60, stateful_step_count=40)
