"""The parts of the HTTP client that need no server: events of a stream, pauses between tries, words of a failure."""

from __future__ import annotations

import json
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import ToolError
from rrext.http import of_status, retry_after, sentence_of
from rrext.nodes.http import EndpointSettings, EventReader, Retries, ServerName

LINE = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), max_size=20)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


# events


@given(st.lists(st.lists(LINE, min_size=1, max_size=3), max_size=5), ENDS, st.data())
def test_events_are_the_same_in_whatever_pieces_they_arrive(events: list[list[str]], end: str, data: st.DataObject) -> None:
    text = "".join("".join(f"data: {line}{end}" for line in lines) + end for lines in events)
    stream = (": hello" + end + "event: x" + end + text + ": end" + end).encode()
    reader = EventReader()
    found: list[str] = []
    rest = stream
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        found += reader.feed(rest[:size])
        rest = rest[size:]
    assert found == ["\n".join(lines) for lines in events]


def test_an_event_without_its_blank_line_is_none() -> None:
    assert list(EventReader().feed(b"data: a\n\ndata: b\n")) == ["a"]


def test_a_mark_of_byte_order_is_no_part_of_the_first_line() -> None:
    assert list(EventReader().feed(b"\xef\xbb\xbfdata: a\n\n")) == ["a"]


@pytest.mark.parametrize("stream", [b"data: " + b"x" * 99, b"data: xxxx\n" * 20])
def test_an_event_without_end_is_given_up(stream: bytes) -> None:
    reader = EventReader(limit=50)
    with pytest.raises(ToolError) as caught:
        list(reader.feed(stream))
    assert caught.value.code == "model_answer_too_large"


def test_a_long_event_in_tiny_pieces_is_read_in_linear_time() -> None:
    """A server may send byte by byte. Each piece used to be put together with all before it: hours, on the event loop."""
    reader = EventReader()
    for _ in range(500_000):
        assert list(reader.feed(b"xxxx")) == []
    assert list(reader.feed(b"\n\n")) == []
    assert list(reader.feed(b"data: a\n\n")) == ["a"]


@pytest.mark.parametrize("piece", [b"x", b"\xc3", b"data: x\r"])
def test_a_line_that_never_ends_is_given_up_in_whatever_pieces_it_comes(piece: bytes) -> None:
    reader = EventReader(limit=50)
    with pytest.raises(ToolError) as caught:
        _ = [list(reader.feed(piece)) for _ in range(60)]
    assert caught.value.code == "model_answer_too_large"


# pauses


@given(st.integers(0, 12), st.integers(1, 14))
def test_pauses_grow_up_to_their_longest_and_end_with_the_tries(count: int, tried: int) -> None:
    pause = Retries(count=count, delay=0.5, longest=20).pause(tried, None)
    if tried > count:
        assert pause is None
    else:
        longest = min(20, 0.5 * 2 ** (tried - 1))
        assert pause is not None
        assert longest / 2 <= pause <= longest


def test_a_pause_that_the_server_asks_for_is_kept_unless_it_is_too_long() -> None:
    retries = Retries(count=1, longest_asked=60)
    assert retries.pause(1, 0.0) == 0
    assert retries.pause(1, 60.0) == 60
    assert retries.pause(1, 60.1) is None
    assert retries.pause(2, 1.0) is None


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("7", 7.0),
        (" 1.5 ", 1.5),
        ("-3", 0.0),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        (formatdate(1_000_009, usegmt=True), 9.0),
        (formatdate(999_000, usegmt=True), 0.0),
    ],
)
def test_retry_after_is_a_number_or_a_date(said: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": said}, now=1_000_000) == seconds
    assert retry_after({}) is None


# failures


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"error": {"message": "bad\n  model", "code": 1}}, "bad model"),
        ({"error": "not found"}, "not found"),
        ({"detail": [{"msg": "field required"}]}, "field required"),
        ({"message": "no"}, "no"),
        ([{"error": {"message": "wrapped"}}], "wrapped"),
        ({"error": {}}, ""),
        ("just words", "just words"),
        (None, ""),
        (5, ""),
    ],
)
def test_the_servers_own_words_are_found_wherever_servers_put_them(body: object, sentence: str) -> None:
    assert sentence_of(json.dumps(body).encode()) == sentence


@pytest.mark.parametrize(
    ("body", "sentence"),
    [(b"plain text", "plain text"), (b"", ""), (b"<html><body>Bad Gateway", ""), (b"\xff\xfe", "\ufffd\ufffd")],
)
def test_a_failure_that_is_no_json_is_quoted_unless_it_is_a_page(body: bytes, sentence: str) -> None:
    assert sentence_of(body) == sentence


@given(st.binary(max_size=2000))
def test_whatever_a_server_says_its_words_are_one_short_line(body: bytes) -> None:
    sentence = sentence_of(body)
    assert len(sentence) <= 500
    assert "\n" not in sentence


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_key_is_in_no_text_of_a_failure(before: str, after: str) -> None:
    server = ServerName("llm", "http://host/v1", "key-4711")
    body = json.dumps({"error": {"message": f"{before}key-4711{after}"}}).encode()
    failure = of_status(server, 400, body, asked=None, tries=1)
    assert "key-4711" not in failure.message


def test_a_key_that_is_cut_at_the_end_of_long_words_is_not_half_shown() -> None:
    server = ServerName("llm", "http://host/v1", "key-4711-0815")
    body = json.dumps({"error": {"message": "x" * 490 + "key-4711-0815"}}).encode()
    assert "key-" not in of_status(server, 400, body, asked=None, tries=1).message


def test_no_repr_shows_a_key() -> None:
    settings = EndpointSettings(address="http://host/v1", apikey="key-4711")
    assert "key-4711" not in repr(settings) + repr(ServerName("llm", "http://host/v1", "key-4711"))
