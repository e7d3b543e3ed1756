"""The input side of a pipe: turns a client's bytes or text into payloads of one lane."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any, Final

import msgspec

from rrext.errors import InvalidArguments, near_matches
from rrext.nodes.base.lanes import QUESTION_TYPES, TABLE, Media, Tag, empty_question, new_question

DATA: Final = "/data"
MOVED_TO_TOOLS: Final = ("execute", "dialect")
_WORD: Final = ord("x")
_WORD_MARKS: Final = bytes(ord(" ") if byte in b" \t\n\r\x0b\x0c" else _WORD for byte in range(256))
"""Blanks and other bytes, in a table of `bytes.translate`: a hundred times as fast as a loop over the characters."""
PAYLOADS: Final = {lane.name: lane.payload for lane in TABLE}


class Intake:
    """Turns the writes of one object into payloads: `begin`, `feed(data)` for each write, `end()`.

    The last two raise `InvalidArguments` with pointers below `/data`. After such an error the object has failed. `size` counts
    the bytes that were fed, `text_size` those that are text, `words` their words.
    """

    __slots__ = (
        "_charset", "_decoder", "_end", "_feed", "_in_word", "_offset", "begin", "lane", "mime_type", "size", "text_size",
        "words",
    )  # fmt: skip

    def __init__(self, lane: str, mime_type: str) -> None:
        self.lane = lane
        self.mime_type = mime_type
        self.begin: tuple[Any, ...] = ()
        """The payloads that mark the begin of the object."""
        self._end: tuple[Any, ...] = ()
        self._charset = ""
        self._decoder: codecs.IncrementalDecoder | None = None
        self._offset = 0
        self._in_word = False
        self.size = 0
        self.words = 0
        self.text_size = 0
        self._feed: Callable[[bytes | str], Any]
        payload = PAYLOADS[lane]
        if payload == "tags":
            self.begin, self._end = (Tag("begin"),), (Tag("end"),)
            self._feed = _tag
        elif payload == "media":
            # lane/image says where the bytes go, not what they are
            kind = "application/octet-stream" if mime_type.lower().startswith("lane/") else mime_type
            self.begin, self._end = (Media("begin", kind),), (Media("end", kind),)
            self._feed = lambda data: Media("write", kind, _media_bytes(lane, data))
        elif payload == "text":
            self._feed = self._text
        else:
            self._feed = _READERS[payload]

    def feed(self, data: bytes | str) -> Any:
        """The payload of one write; None if the write contained only the first bytes of a character."""
        encoded = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
        self.size += len(encoded)
        if encoded and self._feed == self._text:
            self.text_size += len(encoded)
            marks = encoded.translate(_WORD_MARKS)
            self.words += marks.count(b" x") + (marks[0] == _WORD and not self._in_word)
            self._in_word = marks[-1] == _WORD
        return self._feed(data)

    def end(self) -> list[Any]:
        """The payloads that mark the end of the object. Raises if the text stopped in the middle of a character."""
        if self._decoder is not None and self._decoder.getstate()[0]:
            raise _cut(self._charset, "the text ends")
        return list(self._end)

    def _text(self, data: bytes | str) -> str | None:
        if isinstance(data, str):
            if self._decoder is not None and self._decoder.getstate()[0]:
                raise _cut(self._charset, "text follows bytes that end")
            return data
        if self._decoder is None:
            self._charset = named_charset(self.mime_type)
            self._decoder = codecs.getincrementaldecoder(self._charset or "utf-8")()
        held = len(self._decoder.getstate()[0])
        try:
            text = self._decoder.decode(data)
        except UnicodeError as error:
            at = self._offset - held + (error.start if isinstance(error, UnicodeDecodeError) else 0)
            raise _not_in(self._charset, at) from None
        self._offset += len(data)
        return None if data and not text else text


def named_charset(mime_type: str) -> str:
    """The charset that a MIME type names; "" if it names none that is known."""
    if ";" not in mime_type:
        return ""
    from rrext.charsets import codec_of, named

    charset = named(mime_type)
    return "" if charset is None else codec_of(charset)


def _cut(charset: str, what: str) -> InvalidArguments:
    """The error for a character whose last bytes are missing, which may be one of another charset."""
    from rrext.charsets import NAME_IT

    hint = None if charset else NAME_IT
    return InvalidArguments.at(DATA, f"{what} in the middle of a {charset or 'UTF-8'} character", hint=hint)


def _not_in(charset: str, at: int) -> InvalidArguments:
    """The error for a byte that is not in a charset; "" is UTF-8."""
    if charset:
        return InvalidArguments.at(DATA, f"byte {at} of the object is not {charset}, which its MIME type names")
    from rrext.charsets import NAME_IT

    hint = f"{NAME_IT} Other bytes travel with a MIME type of their own."
    return InvalidArguments.at(DATA, f"byte {at} of the object is not UTF-8", hint=hint)


def _tag(data: bytes | str) -> Tag:
    return Tag("data", data if isinstance(data, bytes) else _utf8(data))


def _media_bytes(lane: str, data: bytes | str) -> bytes:
    if isinstance(data, str):
        raise InvalidArguments.at(
            DATA, f"the {lane} lane takes bytes, not text", hint="send `data_base64`, or a raw tail (Json-Length)"
        )
    return data


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArguments.at(DATA, f"character {error.start} is half of a surrogate pair") from None


def _json(data: bytes | str) -> Any:
    try:
        return msgspec.json.decode(data)
    except UnicodeError:
        problem = "expected JSON in UTF-8"
    except RecursionError:
        problem = "JSON nested too deep"
    except msgspec.DecodeError as error:
        problem = f"expected one whole JSON value in each write: {error}"
    raise InvalidArguments.at(DATA, problem)


def _object(value: Any, path: str = DATA) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArguments.at(path, f"expected an object, not {_kind(value)}")
    return value


def _list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidArguments.at(path, f"expected a list, not {_kind(value)}")
    return value


def _string(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise InvalidArguments.at(path, f"expected a string, not {_kind(value)}")
    return value


def _kind(value: Any) -> str:
    """The JSON type of a value, in words; the value itself is never repeated."""
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "null")


def _read_object(data: bytes | str) -> dict[str, Any]:
    return _object(_json(data))


def _read_documents(data: bytes | str) -> list[dict[str, Any]]:
    value = _json(data)
    if isinstance(value, dict):
        return [value]
    if not isinstance(value, list):
        raise InvalidArguments.at(DATA, f"expected a document or a list of them, not {_kind(value)}")
    return [_object(document, f"{DATA}/{i}") for i, document in enumerate(value)]


def _read_words(data: bytes | str) -> list[str]:
    return [_string(word, f"{DATA}/{i}") for i, word in enumerate(_list(_json(data), DATA))]


def _read_answer(data: bytes | str) -> dict[str, Any]:
    value = _object(_json(data))
    if "answer" not in value:
        raise InvalidArguments.at(f"{DATA}/answer", "required")
    expect_json = value.setdefault("expectJson", False)
    if not isinstance(expect_json, bool):
        raise InvalidArguments.at(f"{DATA}/expectJson", f"expected a boolean, not {_kind(expect_json)}")
    return value


def _read_question(data: bytes | str) -> dict[str, Any]:
    """Read a question from JSON and fill in missing keys; text that does not begin like an object is the question itself."""
    if data.lstrip()[:1] not in ("{", b"{"):
        text = data if isinstance(data, str) else _decoded(data)
        if not text.strip():
            raise InvalidArguments.at(DATA, "expected a question, as text or as JSON")
        return new_question(text)
    given = {key: value for key, value in _object(_json(data)).items() if value is not None}  # null is absence
    _check_question_type(given.get("type", "question"))
    question = empty_question()
    for key, value in given.items():
        if key in question and type(value) is not type(question[key]):
            raise InvalidArguments.at(f"{DATA}/{key}", f"expected {_kind(question[key])}, not {_kind(value)}")
    question["filter"].update(given.pop("filter", {}))
    question.update(given)
    for i, asked in enumerate(question["questions"]):
        _string(_object(asked, f"{DATA}/questions/{i}").get("text"), f"{DATA}/questions/{i}/text")
    return question


def _check_question_type(kind: Any) -> None:
    path = f"{DATA}/type"
    if kind in QUESTION_TYPES:
        return
    if kind in MOVED_TO_TOOLS:
        raise InvalidArguments.at(
            path, f'questions of type "{kind}" are gone: call the tool "{kind}" instead', hint=tool_request(kind)
        )
    near = near_matches(_string(kind, path), QUESTION_TYPES)
    hint = "Did you mean " + " or ".join(f'"{name}"' for name in near) + "?" if near else None
    raise InvalidArguments.at(path, "expected one of " + ", ".join(QUESTION_TYPES), hint=hint).with_data(near=near)


def tool_request(tool: str) -> str:
    """How a tool is called that answers what a question of that type asked once."""
    example = '{"sql": "SELECT 1"}' if tool == "execute" else "{}"
    return f'send {{"subcommand": "tool", "tool": "{tool}", "nodeId": "<the node>", "input": {example}}}'


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidArguments.at(DATA, f"byte {error.start} is not UTF-8") from None


_READERS: Final[dict[str, Callable[[bytes | str], Any]]] = {
    "words": _read_words,
    "documents": _read_documents,
    "question": _read_question,
    "answer": _read_answer,
    "object": _read_object,
}
"""The form of a lane's payload → the reader of one write."""
