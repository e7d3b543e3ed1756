"""Lanes: the table of all lanes, the payloads that travel on them, and the lane that a client's bytes take.

Questions and answers are JSON objects with every key present.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final, Literal

import msgspec

from rrext.errors import InvalidArguments, ToolError, near_matches


class Lane(msgspec.Struct, frozen=True):
    """A lane. Its row in `TABLE` is all that the package knows of it.

    `payload` is the form of its payloads: `tags` are `Tag`, `media` are `Media`, `text` is a str, `words` a list of str,
    `documents` a list of dict, `question` a dict (see `new_question`), `answer` a dict `{answer, expectJson}`, `object` a
    dict. `text` describes the content of the lane for people. `result` is how a response node puts payloads into the result
    of a pipe: one joined text, a value for each, a value for each item of a list, the value of an answer, a whole image, or
    a description of each piece; None: no response node takes the lane. `mime_type` is the MIME type of the objects that
    take the lane; one that ends in `*` stands for all that begin so.
    """

    name: str
    payload: Literal["tags", "media", "text", "words", "documents", "question", "answer", "object"]
    text: str
    result: Literal["text", "value", "items", "answer", "image", "pieces"] | None = "value"
    mime_type: str | None = None

    def takes(self, essence: str) -> bool:
        """Whether objects of a MIME type, in lower case and without parameters, take this lane."""
        mime_type = self.mime_type or ""
        return essence.startswith(mime_type[:-1]) if mime_type.endswith("*") else essence == mime_type


TABLE: Final = (
    Lane("tags", "tags", "raw bytes: a begin mark, blocks of bytes, an end mark", None),
    Lane("text", "text", "text", "text", "text/*"),
    Lane("table", "text", "a table as text"),
    Lane("words", "words", "a list of texts"),
    Lane("image", "media", "the bytes of an image with its MIME type, piece by piece", "image", "image/*"),
    Lane("audio", "media", "the bytes of a sound with its MIME type, piece by piece", "pieces", "audio/*"),
    Lane("video", "media", "the bytes of a film with its MIME type, piece by piece", "pieces", "video/*"),
    Lane("documents", "documents", "a list of documents, each an object", "items"),
    Lane(
        "questions",
        "question",
        "a question, an object with its text, history and context",
        "value",
        "application/rocketride-question*",
    ),
    Lane("answers", "answer", "an answer: `{answer, expectJson}`, in which `answer` may be any JSON", "answer"),
    Lane("classifications", "object", "an object with classifications"),
    Lane("classificationContext", "object", "an object with the context of classifications", None),
    Lane("json", "object", "an object", "value", "application/json"),
)
"""Every lane, in the order of their names in messages."""

LANES: Final = tuple(lane.name for lane in TABLE)
"""The names of all lanes, as pipeline files use them."""

QUESTION_TYPES: Final = ("question", "semantic", "keyword", "get", "prompt")
"""Values of the `type` of a question."""


class Tag(msgspec.Struct, frozen=True):
    """A piece of a raw byte stream: `begin`, any number of `data`, `end`. `data` is `b""` for the marks."""

    kind: Literal["begin", "data", "end"]
    data: bytes = b""


class Media(msgspec.Struct, frozen=True):
    """A piece of an image, a sound or a film: `begin`, any number of `write`, `end`. Only `write` has bytes."""

    action: Literal["begin", "write", "end"]
    mime_type: str
    data: bytes = b""


def choose_lane(mime_type: str, listens: Callable[[str], bool]) -> str:
    """The lane that an object of this MIME type takes; `listens` says whether a node hears the source on a lane.

    `lane/<name>` names the lane itself. An object takes the lane of its MIME type in `TABLE` if a node listens there;
    everything else, and it otherwise, is raw bytes on `tags`. Raises `InvalidArguments` at `/mimeType`.
    """
    essence = mime_type.partition(";")[0].strip()
    kind, slash, name = essence.partition("/")
    if not slash or not kind or not name:
        raise InvalidArguments.at("/mimeType", "expected a MIME type such as text/plain, or lane/<name>")
    if kind.lower() == "lane":
        return _known_lane(name)
    wanted = next((lane.name for lane in TABLE if lane.takes(essence.lower())), "tags")
    return wanted if listens(wanted) else "tags"


def _known_lane(name: str) -> str:
    if name in LANES:
        return name
    near = near_matches(name, LANES)
    hint = "Did you mean " + " or ".join(f"lane/{lane}" for lane in near) + "?" if near else None
    text = f"Invalid lane {name[:64]}" + (f". {hint}" if hint else "")
    raise InvalidArguments.at("/mimeType", text, hint=hint).with_data(near=near)


def new_question(text: str, **fields: Any) -> dict[str, Any]:
    """A question as the RocketRide client sends it: every key is there. `fields` replaces some, by their JSON names."""
    question = empty_question()
    question["questions"] = [{"text": text, "embedding_model": None, "embedding": None}]
    question.update(fields)
    return question


def empty_question() -> dict[str, Any]:
    """All keys of a question with their defaults, and nothing asked yet."""
    return deepcopy(_QUESTION)


_QUESTION: Final[dict[str, Any]] = {
    "type": "question",
    "filter": {
        "fullTables": False,
        "fullDocuments": False,
        "offset": 0,
        "limit": 25,
        "minChunkId": None,
        "maxChunkId": None,
        "nodeId": None,
        "parent": None,
        "name": None,
        "permissions": None,
        "isDeleted": None,
        "objectIds": None,
        "chunkIds": None,
        "isTable": None,
        "tableIds": None,
        "useQuickRank": False,
        "useGroupRank": False,
        "followUpQuestions": 5,
        "context": False,
    },
    "expectJson": False,
    "cachePrefix": False,
    "role": "",
    "instructions": [],
    "history": [],
    "examples": [],
    "context": [],
    "goals": [],
    "documents": [],
    "questions": [],
}

COLLECTED = ("instructions", "history", "examples", "context", "goals", "documents", "questions")
"""The keys of a question that are lists."""


def merge_questions(first: Mapping[str, Any], *others: Mapping[str, Any]) -> dict[str, Any]:
    """Merge questions into one that asks all of them.

    Lists are joined, `expectJson` holds if any of them asks for it, everything else is the first one's.
    """
    merged = {**empty_question(), **first}
    for key in COLLECTED:
        merged[key] = [item for question in (first, *others) for item in question.get(key) or ()]
    merged["expectJson"] = any(question.get("expectJson") for question in (first, *others))
    return merged


def question_text(question: Mapping[str, Any]) -> str:
    """The texts of the question, one a line, without instructions, context and history."""
    asked = question.get("questions")
    if not isinstance(asked, list | tuple):
        return ""
    return "\n".join(str(item.get("text") or "") for item in asked if isinstance(item, Mapping))


def asked_question(question: str | Mapping[str, Any], expect_json: bool = False) -> dict[str, Any]:
    """The question that the tool `ask` of a language model is given, with every key present.

    Raises `InvalidArguments` at `/input/question` if it asks nothing.
    """
    asked = new_question(question) if isinstance(question, str) else {**empty_question(), **question}
    asked["expectJson"] = expect_json or bool(asked["expectJson"])
    if not question_text(asked).strip():
        raise InvalidArguments.at("/input/question", 'asks nothing: expected a text, or "questions" with a "text" each')
    return asked


FENCE = "```"


def answer_value(answer: Mapping[str, Any]) -> Any:
    """The answer as the client gets it: a text as it is, or, if JSON was asked for, the value that the text holds.

    With `expectJson`, a string is JSON text, perhaps in a Markdown code fence as models write it; anything else is the
    value already. Raises `ToolError` for a text that is no JSON.
    """
    value = answer["answer"]
    if not answer.get("expectJson") or not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(_unfenced(value))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise ToolError(
            f"The question asks for JSON, and the answer is none: {error}",
            code="answer_not_json",
            hint='Ask without "expectJson", or tell the model to answer in JSON alone.',
        ) from error


def _unfenced(text: str) -> str:
    text = text.strip()
    first_line, newline, rest = text.partition("\n")
    if newline and first_line.startswith(FENCE) and rest.endswith(FENCE):
        return rest.removesuffix(FENCE)
    return text
