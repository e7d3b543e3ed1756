"""Messages without a dialect: the same records for DAP-style messages and for JSON-RPC 2.0; and the events that ask the client
of a call, with the commands that answer them.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from rrext.errors import RrextError

MAX_ID = 2**53
"""The largest integer id: beyond it a peer that keeps numbers as doubles (JavaScript) answers another call."""

RequestId: TypeAlias = int | str
"""DAP: an integer from 1. JSON-RPC: an integer or a string."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """A command to run.

    `id` is None for a JSON-RPC notification, which runs and is never answered. `tail` are the bytes after the JSON in a frame
    with `Json-Length` (possibly `b""`), and None in every other frame. `nbytes` is the size of the whole body.
    """

    id: RequestId | None
    command: str
    arguments: dict[str, Any]
    tail: bytes | None = None
    nbytes: int = 0


class Response(msgspec.Struct, frozen=True):
    """The answer to a request: a body, or an error. A `tail` is also `body["data"]`.

    `id` is None if the server could not read the id of the request; `error` then names the unreadable part.
    """

    id: RequestId | None
    command: str | None
    body: Any
    error: RrextError | None = None
    tail: bytes | None = None


class Event(msgspec.Struct, frozen=True):
    """A message of the server without a request. A `tail` is also `body["data"]`."""

    name: str
    body: dict[str, Any]
    tail: bytes | None = None


class Malformed(msgspec.Struct, frozen=True):
    """A frame that is not a message: answer `error`, and continue. `id` is the id of the frame, None if it was not found."""

    error: RrextError
    id: RequestId | None = None

    def __post_init__(self) -> None:
        error = self.error  # its traceback holds the frame, and leads to whoever keeps this record while it is answered
        error.__traceback__ = error.__cause__ = error.__context__ = None


class Fatal(msgspec.Struct, frozen=True):
    """An error after which the start of the next frame is unknown: answer `error`, then close. Nothing is read after it."""

    error: RrextError


class Ignored(msgspec.Struct, frozen=True):
    """A frame without effect; `reason` is for a debug line."""

    reason: str


class Batch(msgspec.Struct, frozen=True):
    """Messages that came as one; each is answered by itself."""

    events: list[ServerEvent]


ServerEvent: TypeAlias = "Request | Malformed | Fatal | Ignored | Batch"
ClientEvent: TypeAlias = Response | Event | Malformed | Fatal | Ignored

QUESTIONS: Final = frozenset(("rrext_permission", "rrext_question"))
"""The events."""


def number_of(event: str, body: dict[str, Any]) -> int:
    """The number of the question of an event."""
    number: int = body[event.removeprefix("rrext_")]
    return number


def answering(event: str, number: int, given: Any) -> tuple[str, dict[str, Any]]:
    """The command that answers, and its arguments: of whether a call is allowed, or of `{action, content?}` of the user."""
    if event == "rrext_permission":
        return "rrext_permit", {"permission": number, "allow": given}
    return "rrext_answer", {"question": number, **given}
