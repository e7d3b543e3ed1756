"""Nodes that put their input into the result body, the answer of `close`."""

from __future__ import annotations

import binascii
from collections.abc import Callable
from typing import Annotated, Any, Final, TypedDict

import msgspec

from rrext.errors import ResultTooLarge, ToolError
from rrext.nodes.base.lanes import TABLE, Lane, Media, answer_value
from rrext.nodes.base.node import Entry, Node

MAX_MEDIA: Final = 16 * 1024 * 1024
"""Bytes of an image, a sound or a film in the result of a pipe: as much as a frame carries."""

RESERVED = frozenset({"name", "path", "objectId", "result_types", "stored", "metadata", "error"})
"""Keys of the result body that are no results."""


class LaneKey(TypedDict):
    """Under which key of the result a lane's values appear."""

    laneId: str
    laneName: str


class Responder(Node):
    """The base of all response nodes. Each class declares its lanes; `TABLE` says how their payloads are collected.

    An object's text is one value, put together at `close`, a blank line after each piece. Everything else is a value
    of its own: a document, question, answer, table, JSON value, whole image, or piece of audio or video.
    """

    class_types = ("infrastructure",)

    class Config:
        laneName: Annotated[str, "The key of the result; empty: the lane's own name."] = ""
        maxBytes: Annotated[int, "Bytes that one object may collect here; a result of more could not be sent."] = MAX_MEDIA

    def open(self, entry: Entry) -> None:
        self._entry = entry
        self._bytes = 0
        self._text: list[str] = []
        self._image: list[bytes] = []
        for lane in self.lanes:
            if self._key(lane) in RESERVED:
                raise ToolError(
                    f'Node "{self.node_id}" would put {lane} under "{self._key(lane)}", which is a key of the result itself',
                    hint='Choose another "laneName".',
                )

    def _put(self, lane: Lane, payload: Any) -> None:
        """Collect a payload of a lane, in the form that the table of lanes names."""
        match lane.result:
            case "text":
                self._count(len(payload) + 2)
                self._text.append(payload)
            case "items":
                for item in payload:
                    self._respond_json(lane.name, item)
            case "answer":
                self._put_answer(lane.name, payload)
            case "image":
                self._put_image(lane.name, payload)
            case "pieces":
                self._put_piece(lane.name, payload)
            case _ if isinstance(payload, str):
                self._respond(lane.name, payload, len(payload))
            case _:
                self._respond_json(lane.name, payload)

    def _put_answer(self, lane: str, answer: dict[str, Any]) -> None:
        try:
            value = answer_value(answer)
        except ToolError:
            self._respond_json(lane, answer["answer"])  # the object fails, but what was answered is not lost
            raise
        self._respond_json(lane, value)

    def _put_image(self, lane: str, media: Media) -> None:
        if media.action == "begin":
            self._image.clear()
        self._image.append(media.data)
        self._count(len(media.data) * 4 // 3)  # base64
        if media.action == "end":
            encoded = binascii.b2a_base64(b"".join(self._image), newline=False).decode("ascii")
            self._image.clear()
            self._respond(lane, {"mime_type": media.mime_type, "image": encoded}, 0)

    def close(self) -> None:
        if self._text:
            self._entry.respond(self._key("text"), "text", "".join(text + "\n\n" for text in self._text))

    def _key(self, lane: str) -> str:
        return self.config.laneName or lane

    def _put_piece(self, lane: str, media: Media) -> None:
        """Audio and video are too large to send back: the result describes each piece."""
        if media.action == "write":
            piece = {
                "url": f"null://Stream/{self._entry.name}",
                "aviAction": media.action,
                "mimeType": media.mime_type,
                "size": len(media.data),
            }
            self._respond_json(lane, piece)

    def _respond_json(self, lane: str, value: Any) -> None:
        self._respond(lane, value, len(msgspec.json.encode(value)))

    def _respond(self, lane: str, value: Any, size: int) -> None:
        self._count(size)
        self._entry.respond(self._key(lane), lane, value)

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self.config.maxBytes:
            raise ResultTooLarge(
                f'Node "{self.node_id}" may collect {self.config.maxBytes} bytes of one object (maxBytes), and this is more',
                hint='Send less in one object, or raise "maxBytes" of that node.',
                data={"limit": "maxBytes", "nodeId": self.node_id},
            )


def _writer(lane: Lane) -> Callable[[Responder, Any], None]:
    return lambda self, payload: self._put(lane, payload)


for _lane in TABLE:
    if _lane.result is not None:
        setattr(Responder, f"write_{_lane.name}", _writer(_lane))


class ResponseNode(Responder):
    """Puts everything that reaches it into the result of `close`, each lane under a key of its own.

    `laneName` gives all lanes one key; else `lanes` gives a lane its key; else the key is the lane's name. Text is one
    string, with a blank line after each piece; images are base64; audio and video are described, not sent back.
    """

    provider = "response"
    title = "Response"
    lanes = {lane.name: () for lane in TABLE if lane.result is not None}

    class Config(Responder.Config):
        lanes: Annotated[tuple[LaneKey, ...], "The key of each lane; a lane that is not named keeps its own name."] = ()

    def _key(self, lane: str) -> str:
        if self.config.laneName:
            return self.config.laneName
        for mapping in self.config.lanes:
            if mapping["laneId"] == lane:
                return mapping["laneName"] or lane
        return lane


def _response_node(lane: str, text: str) -> type[Responder]:
    """The class of the node `response_LANE`, which puts one lane into the result."""
    members = {"provider": f"response_{lane}", "title": f"Response ({lane})", "lanes": {lane: ()}}
    return type(f"Response{lane.title()}Node", (Responder,), {"__doc__": text, "__module__": __name__, **members})


ResponseTextNode = _response_node(
    "text", "Puts text into the result of `close`: one string per object, with a blank line after each piece."
)
ResponseTableNode = _response_node("table", "Puts tables into the result of `close`: a string for each.")
ResponseDocumentsNode = _response_node("documents", "Puts documents into the result of `close`: an object for each.")
ResponseQuestionsNode = _response_node("questions", "Puts questions into the result of `close`: an object for each.")
ResponseAnswersNode = _response_node(
    "answers",
    """Puts answers into the result of `close`: a text for each, or the value of its JSON if the question asks for JSON.

    An answer that should be JSON and is none fails the object; its text still stands in the result.
    """,
)
ResponseImageNode = _response_node(
    "image", "Puts images into the result of `close`: `{mime_type, image}`, the image as it came, in base64."
)
_PIECES = "into the result of `close`: `{url, aviAction, mimeType, size}`."
ResponseAudioNode = _response_node("audio", f"Puts a description of each piece of audio {_PIECES}")
ResponseVideoNode = _response_node("video", f"Puts a description of each piece of video {_PIECES}")
