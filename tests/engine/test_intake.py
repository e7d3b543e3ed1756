"""Client bytes become payloads, or an error that says where."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.engine.flow.intake import Intake
from rrext.errors import InvalidArguments
from rrext.nodes.base.lanes import Media, Tag, new_question

JSON_LANES = ("questions", "documents", "answers", "classifications", "classificationContext", "json", "words")


def intake(lane: str, mime_type: str | None = None) -> Intake:
    return Intake(lane, mime_type or f"lane/{lane}")


def problem(lane: str, data: bytes | str) -> tuple[str, str]:
    with pytest.raises(InvalidArguments) as refused:
        intake(lane).feed(data)
    error = refused.value.data["errors"][0]
    return error["path"], error["message"]


@given(st.text(), st.lists(st.integers(min_value=0, max_value=200)))
def test_text_is_the_same_wherever_its_bytes_are_cut(text: str, cuts: list[int]) -> None:
    data = text.encode()
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    gate = intake("text")
    pieces = [gate.feed(data[a:b]) for a, b in pairwise(edges)]
    assert "".join(piece for piece in pieces if piece is not None) == text
    assert gate.end() == []


def test_each_write_of_text_is_one_payload() -> None:
    gate = intake("text")
    assert gate.begin == ()
    assert [gate.feed("a"), gate.feed(b"b"), gate.feed(b"")] == ["a", "b", ""]


def test_a_write_that_only_begins_a_character_is_no_payload_yet() -> None:
    gate = intake("text")
    euro = "€".encode()
    assert gate.feed(euro[:1]) is None
    assert gate.feed(euro[1:2]) is None
    assert gate.feed(euro[2:] + b"!") == "€!"


def test_text_that_ends_within_a_character_is_an_error_at_the_end() -> None:
    gate = intake("text")
    gate.feed("a€".encode()[:-1])
    with pytest.raises(InvalidArguments, match="middle of a UTF-8 character"):
        gate.end()


def test_text_after_half_a_character_is_an_error() -> None:
    gate = intake("text")
    gate.feed(b"\xe2")
    with pytest.raises(InvalidArguments, match="middle of a UTF-8 character"):
        gate.feed("a")


@pytest.mark.parametrize("split", range(7))
def test_the_error_names_the_byte_of_the_whole_object_that_is_not_utf_8(split: int) -> None:
    data = b"ab\xe2\x82\xacc\xffd"
    gate = intake("text")
    gate.feed(data[:split])
    with pytest.raises(InvalidArguments, match="byte 6 of the object is not UTF-8"):
        gate.feed(data[split:])


@given(st.lists(st.binary()))
def test_raw_bytes_arrive_unchanged_between_their_marks(writes: list[bytes]) -> None:
    gate = intake("tags")
    assert gate.begin == (Tag("begin"),)
    assert [gate.feed(data) for data in writes] == [Tag("data", data) for data in writes]
    assert gate.end() == [Tag("end")]


def test_text_on_the_tags_lane_is_its_utf_8() -> None:
    assert intake("tags").feed("€") == Tag("data", "€".encode())
    assert problem("tags", "\ud800")[0] == "/data"


@pytest.mark.parametrize("lane", ["image", "audio", "video"])
def test_media_know_their_mime_type(lane: str) -> None:
    gate = intake(lane, f"{lane}/x")
    assert gate.begin == (Media("begin", f"{lane}/x"),)
    assert gate.feed(b"\x00\xff") == Media("write", f"{lane}/x", b"\x00\xff")
    assert gate.end() == [Media("end", f"{lane}/x")]


def test_a_lane_is_no_mime_type_for_media() -> None:
    assert intake("image").feed(b"x").mime_type == "application/octet-stream"


def test_text_is_no_picture() -> None:
    path, message = problem("image", "iVBORw0KGgo=")
    assert path == "/data"
    assert "takes bytes" in message


@pytest.mark.parametrize("lane", [lane for lane in JSON_LANES if lane != "questions"])
@pytest.mark.parametrize(
    "data",
    ["", "{", "{} {}", "nul", '{"a": NaN}', '{"a": 1e400}', b"\xff", b'{"a": "\xff"}', '{"a": "\\ud800"}', "[" * 100_000],
    ids=["empty", "cut", "two", "word", "nan", "infinity", "not utf-8", "not utf-8 inside", "surrogate", "deep"],
)
def test_what_is_not_strict_json_is_an_error_at_data(lane: str, data: bytes | str) -> None:
    assert problem(lane, data)[0] == "/data"


@pytest.mark.parametrize("lane", ["classifications", "classificationContext", "json"])
def test_object_lanes_take_objects_only(lane: str) -> None:
    assert intake(lane).feed('{"a": [1, null]}') == {"a": [1, None]}
    assert problem(lane, "[1]") == ("/data", "expected an object, not a list")
    assert problem(lane, b"null") == ("/data", "expected an object, not null")


def test_documents_are_a_list_or_one() -> None:
    assert intake("documents").feed('{"page_content": "a"}') == [{"page_content": "a"}]
    assert intake("documents").feed(b'[{"a": 1}, {}]') == [{"a": 1}, {}]
    assert intake("documents").feed("[]") == []
    assert problem("documents", '[{}, "x"]') == ("/data/1", "expected an object, not a string")
    assert problem("documents", "3") == ("/data", "expected a document or a list of them, not a number")


def test_words_are_a_list_of_strings() -> None:
    assert intake("words").feed('["a", "b"]') == ["a", "b"]
    assert problem("words", '["a", 1]') == ("/data/1", "expected a string, not a number")
    assert problem("words", '"a"')[0] == "/data"


def test_an_answer_says_whether_it_is_json() -> None:
    assert intake("answers").feed('{"answer": null}') == {"answer": None, "expectJson": False}
    assert intake("answers").feed('{"answer": {}, "expectJson": true, "tokens": 3}') == {
        "answer": {},
        "expectJson": True,
        "tokens": 3,
    }
    assert problem("answers", "{}") == ("/data/answer", "required")
    assert problem("answers", '{"answer": 1, "expectJson": 1}') == ("/data/expectJson", "expected a boolean, not a number")


@pytest.mark.parametrize("data", ["How are you?", b"How are you?", "\n How are you?"])
def test_a_question_may_be_plain_text(data: bytes | str) -> None:
    text = data if isinstance(data, str) else data.decode()
    assert intake("questions").feed(data) == new_question(text)


@pytest.mark.parametrize("data", ["", " \n", b""])
def test_an_empty_question_is_an_error(data: bytes | str) -> None:
    assert problem("questions", data)[0] == "/data"


def test_a_plain_question_that_is_not_utf_8_is_an_error() -> None:
    assert problem("questions", b"a\xff") == ("/data", "byte 1 is not UTF-8")


def test_missing_keys_of_a_question_are_filled_in_and_unknown_ones_stay() -> None:
    sent = {"questions": [{"text": "hi"}], "filter": {"limit": 3}, "role": None, "mine": 1}
    question = intake("questions").feed(json.dumps(sent))
    expected = new_question("", questions=[{"text": "hi"}], mine=1)
    expected["filter"]["limit"] = 3
    assert question == expected


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        ({"type": 3}, "/data/type"),
        ({"type": "dance"}, "/data/type"),
        ({"questions": "hi"}, "/data/questions"),
        ({"questions": ["hi"]}, "/data/questions/0"),
        ({"questions": [{"text": "a"}, {}]}, "/data/questions/1/text"),
        ({"filter": []}, "/data/filter"),
        ({"expectJson": 1}, "/data/expectJson"),
        ({"context": {}}, "/data/context"),
    ],
)
def test_a_question_of_the_wrong_shape_is_an_error_where_it_is_wrong(sent: dict[str, Any], path: str) -> None:
    assert problem("questions", json.dumps(sent))[0] == path


@pytest.mark.parametrize("kind", ["execute", "dialect"])
def test_a_question_type_that_became_a_tool_names_the_tool_and_how_to_call_it(kind: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        intake("questions").feed(json.dumps({"type": kind, "questions": [{"text": "select 1"}]}))
    assert f'call the tool "{kind}"' in refused.value.message
    assert refused.value.hint is not None
    assert f'"tool": "{kind}"' in refused.value.hint
    assert "select 1" not in refused.value.message


def test_an_unknown_question_type_names_near_ones() -> None:
    with pytest.raises(InvalidArguments) as refused:
        intake("questions").feed('{"type": "Semantic"}')
    assert refused.value.data["near"] == ["semantic"]
