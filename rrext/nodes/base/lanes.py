"""Lanes: what they are called, what travels on them, and which one a client's bytes take.

| lane | payload |
|---|---|
| tags | `Tag`: begin, data blocks as raw bytes, end |
| text, table | str |
| words | list of str |
| image, audio, video | `Media`: begin, writes, end |
| documents | list of dict |
| questions | dict, see `new_question` |
| answers | `{"answer": any JSON value, "expectJson": bool}` |
| classifications, classificationContext, json | dict |
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final, Literal

import msgspec

from rrext.errors import InvalidArguments, near_matches

__all__ = ["LANES", "MEDIA_LANES", "QUESTION_TYPES", "Media", "Tag", "choose_lane", "new_question"]

LANES: Final = (
    "tags",
    "text",
    "table",
    "words",
    "image",
    "audio",
    "video",
    "documents",
    "questions",
    "answers",
    "classifications",
    "classificationContext",
    "json",
)
"""Every lane, by its name in pipeline files."""

MEDIA_LANES: Final = ("image", "audio", "video")
"""The lanes whose payload is `Media`."""

QUESTION_TYPES: Final = ("question", "semantic", "keyword", "get", "prompt")
"""What the `type` of a question may be."""

QUESTION_MIME: Final = "application/rocketride-question"


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

    `lane/<name>` names the lane itself. Questions, JSON, text, image, audio and video take their lane if a node listens
    there; everything else, and they otherwise, are raw bytes on `tags`. Raises `InvalidArguments` at `/mimeType`.
    """
    essence = mime_type.partition(";")[0].strip()
    kind, slash, name = essence.partition("/")
    if not slash or not kind or not name:
        raise InvalidArguments.at("/mimeType", "expected a MIME type such as text/plain, or lane/<name>")
    kind = kind.lower()
    if kind == "lane":
        return _known_lane(name)
    if essence.lower().startswith(QUESTION_MIME):
        wanted = "questions"
    elif essence.lower() == "application/json":
        wanted = "json"
    elif kind == "text" or kind in MEDIA_LANES:
        wanted = kind
    else:
        return "tags"
    return wanted if listens(wanted) else "tags"


def _known_lane(name: str) -> str:
    if name in LANES:
        return name
    near = near_matches(name, LANES)
    hint = "Did you mean " + " or ".join(f"lane/{lane}" for lane in near) + "?" if near else None
    error = InvalidArguments.at("/mimeType", f"Invalid lane {name[:64]}" + (f". {hint}" if hint else ""), hint=hint)
    error.data["near"] = near
    raise error


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
