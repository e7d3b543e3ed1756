"""Response nodes: the result body of `close`, key by key."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from rrext.errors import ResultTooLarge, ToolError
from rrext.nodes.base.lanes import Media
from rrext.nodes.base.node import Entry, Node
from rrext.nodes.basic import response
from rrext.nodes.basic.response import (
    RESERVED,
    ResponseAnswersNode,
    ResponseAudioNode,
    ResponseDocumentsNode,
    ResponseImageNode,
    ResponseNode,
    ResponseQuestionsNode,
    ResponseTableNode,
    ResponseTextNode,
    ResponseVideoNode,
)

from fake_pipe import made  # isort: skip


def collected(node: Node, *writes: tuple[str, Any]) -> dict[str, Any]:
    """The result body after an object that wrote these payloads, (lane, value) each."""
    entry = Entry("a.txt")
    object_of: Any = node
    object_of.open(entry)
    for lane, value in writes:
        getattr(node, f"write_{lane}")(value)
    object_of.close()
    return entry.body()


def test_text_is_one_string_with_a_blank_line_after_each_piece() -> None:
    body = collected(made(ResponseTextNode), ("text", "a"), ("text", "b"))
    assert body["text"] == ["a\n\nb\n\n"]
    assert body["result_types"] == {"text": "text"}


def test_an_object_that_brings_nothing_leaves_no_key() -> None:
    assert collected(made(ResponseTextNode)) == {"name": "a.txt", "path": "", "objectId": Entry("a.txt").object_id}


def test_an_empty_text_is_still_a_text() -> None:
    assert collected(made(ResponseTextNode), ("text", ""))["text"] == ["\n\n"]


@pytest.mark.parametrize(
    ("cls", "lane", "writes", "values"),
    [
        (ResponseTableNode, "table", ["|a|", "|b|"], ["|a|", "|b|"]),
        (ResponseDocumentsNode, "documents", [[{"page_content": "x"}], [], [{}, {}]], [{"page_content": "x"}, {}, {}]),
        (ResponseQuestionsNode, "questions", [{"questions": [{"text": "?"}]}], [{"questions": [{"text": "?"}]}]),
        (ResponseNode, "json", [{"a": 1}], [{"a": 1}]),
        (ResponseNode, "words", [["a", "b"]], [["a", "b"]]),
        (ResponseNode, "classifications", [{"a": 0.5}], [{"a": 0.5}]),
    ],
)  # fmt: skip
def test_each_value_is_an_element_of_the_list(cls: type[Node], lane: str, writes: list[Any], values: list[Any]) -> None:
    body = collected(made(cls), *((lane, value) for value in writes))
    assert body[lane] == values
    assert body["result_types"] == {lane: lane}


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ({"answer": '{"a": 1}', "expectJson": False}, '{"a": 1}'),
        ({"answer": '{"a": 1}', "expectJson": True}, {"a": 1}),
        ({"answer": '```json\n{"a": 1}\n```', "expectJson": True}, {"a": 1}),
        ({"answer": ' ```\n[1]\n``` \n', "expectJson": True}, [1]),
        ({"answer": {"a": 1}, "expectJson": True}, {"a": 1}),
        ({"answer": "plain"}, "plain"),
    ],
)  # fmt: skip
def test_an_answer_is_its_text_or_the_json_that_was_asked_for(answer: dict[str, Any], value: Any) -> None:
    assert collected(made(ResponseAnswersNode), ("answers", answer))["answers"] == [value]


@pytest.mark.parametrize("text", ["sorry", "{", "NaN", '```json\n{"a": 1}', "[" * 100_000])
def test_an_answer_that_should_be_json_and_is_not_fails_the_object_and_is_not_lost(text: str) -> None:
    node = made(ResponseAnswersNode)
    entry = Entry("a")
    node.open(entry)
    with pytest.raises(ToolError) as caught:
        node.write_answers({"answer": text, "expectJson": True})
    assert caught.value.code == "answer_not_json"
    assert entry.body()["answers"] == [text]


def test_an_image_comes_back_whole_in_base64() -> None:
    image = bytes(range(256))
    pieces = [Media("begin", "image/png"), Media("write", "image/png", image[:100]), Media("write", "image/png", image[100:])]
    body = collected(made(ResponseImageNode), *(("image", piece) for piece in [*pieces, Media("end", "image/png")]))
    assert [entry["mime_type"] for entry in body["image"]] == ["image/png"]
    assert base64.b64decode(body["image"][0]["image"]) == image


def test_two_images_are_two_entries_and_an_unfinished_one_is_none() -> None:
    one = [("image", Media(action, "image/png", b"x" if action == "write" else b"")) for action in ("begin", "write", "end")]
    body = collected(made(ResponseImageNode), *one, *one, *one[:2])
    assert [entry["image"] for entry in body["image"]] == ["eA==", "eA=="]


@pytest.mark.parametrize(("cls", "lane"), [(ResponseAudioNode, "audio"), (ResponseVideoNode, "video")])
def test_audio_and_video_are_described_piece_by_piece(cls: type[Node], lane: str) -> None:
    mime = f"{lane}/x"
    body = collected(made(cls), *((lane, m) for m in (Media("begin", mime), Media("write", mime, b"abc"), Media("end", mime))))
    assert body[lane] == [{"url": "null://Stream/a.txt", "aviAction": "write", "mimeType": mime, "size": 3}]


def test_lane_name_is_the_key_and_result_types_keeps_the_lane() -> None:
    body = collected(made(ResponseTextNode, laneName="reply"), ("text", "a"))
    assert body["reply"] == ["a\n\n"]
    assert body["result_types"] == {"reply": "text"}
    assert "text" not in body


def test_lanes_gives_each_lane_its_key() -> None:
    node = made(ResponseNode, lanes=({"laneId": "text", "laneName": "reply"}, {"laneId": "table", "laneName": ""}))
    body = collected(node, ("text", "a"), ("table", "t"), ("answers", {"answer": "x", "expectJson": False}))
    assert body["result_types"] == {"table": "table", "answers": "answers", "reply": "text"}


def test_lane_name_overrides_lanes_and_lanes_that_share_a_key_share_a_list() -> None:
    node = made(ResponseNode, laneName="all", lanes=({"laneId": "text", "laneName": "reply"},))
    body = collected(node, ("table", "t"), ("text", "a"))
    assert body["all"] == ["t", "a\n\n"]
    assert body["result_types"] == {"all": "table"}


@pytest.mark.parametrize("key", sorted(RESERVED))
def test_a_key_of_the_result_body_itself_is_refused(key: str) -> None:
    with pytest.raises(ToolError, match=f'"{key}"'):
        made(ResponseTextNode, laneName=key).open(Entry("a"))


def test_the_reserved_keys_are_those_that_a_body_can_have() -> None:
    entry = Entry("a", metadata={"m": 1})
    entry.stored["store_1"] = 3
    entry.respond("text", "text", "t")
    assert set(entry.body()) - {"text"} | {"error"} == RESERVED


@pytest.mark.parametrize(
    ("lane", "value"),
    [
        ("text", "x" * 100),
        ("table", "x" * 101),
        ("documents", [{"page_content": "x" * 100}]),
        ("answers", {"answer": "x" * 100, "expectJson": False}),
        ("image", Media("write", "image/png", b"x" * 100)),
        ("video", Media("write", "video/mp4" + "x" * 100, b"")),
    ],
)
def test_what_one_object_may_collect_is_bounded_and_the_limit_is_named(lane: str, value: Any) -> None:
    node = made(ResponseNode, maxBytes=100)
    node.open(Entry("a"))
    with pytest.raises(ResultTooLarge, match="maxBytes"):
        getattr(node, f"write_{lane}")(value)


def test_the_next_object_begins_with_nothing() -> None:
    node = made(ResponseTextNode)
    assert collected(node, ("text", "a"))["text"] == ["a\n\n"]
    assert collected(node, ("text", "b"))["text"] == ["b\n\n"]


def test_each_node_has_a_method_for_each_of_its_lanes_and_sends_nothing_on() -> None:
    for cls in vars(response).values():
        if isinstance(cls, type) and issubclass(cls, response.Responder) and cls is not response.Responder:
            assert cls.lanes
            assert all(callable(getattr(cls, f"write_{lane}")) and not out for lane, out in cls.lanes.items())
