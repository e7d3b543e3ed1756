"""Messages without a dialect: the same records for DAP-style messages and for JSON-RPC 2.0."""

from __future__ import annotations

from typing import Any, TypeAlias

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
    """The answer to a request: a body, or an error. `tail`, if there is one, is also `body["data"]`.

    `id` is None if the server could not tell which request it answers: then `error` says which part it could not read.
    """

    id: RequestId | None
    command: str | None
    body: Any
    error: RrextError | None = None
    tail: bytes | None = None


class Event(msgspec.Struct, frozen=True):
    """Something the server tells unasked. `tail`, if there is one, is also `body["data"]`."""

    name: str
    body: dict[str, Any]
    tail: bytes | None = None


class Malformed(msgspec.Struct, frozen=True):
    """A frame that is no message: answer `error` and go on. `id` is the id it had, as far as that could be found."""

    error: RrextError
    id: RequestId | None = None


class Fatal(msgspec.Struct, frozen=True):
    """Where the next frame starts cannot be known any more: answer `error`, then close. Nothing is read after it."""

    error: RrextError


class Ignored(msgspec.Struct, frozen=True):
    """A frame that asks for nothing here; `reason` is for a debug line."""

    reason: str


ServerEvent: TypeAlias = Request | Malformed | Fatal | Ignored
ClientEvent: TypeAlias = Response | Event | Malformed | Fatal | Ignored
