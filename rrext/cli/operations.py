"""Operations of the engine as requests to a server, and the server's events as feed events."""

from __future__ import annotations

from typing import Any

import msgspec

from rrext.engine.interface.call import Feed
from rrext.engine.interface.operations import Operation
from rrext.errors import RrextError
from rrext.server.commands import SUBCOMMANDS
from rrext.wire.codec import encode

NAMES = {shape: name for name, shape in SUBCOMMANDS.items()}


def arguments_of(operation: Operation, token: str | None) -> dict[str, Any]:
    """The arguments of `rrext_process` by their names on the wire, without empty ones."""
    given = {"subcommand": NAMES[type(operation)], **msgspec.to_builtins(operation), "token": token}
    return {key: value for key, value in given.items() if value is not None}


def body_and_tail(body: dict[str, Any]) -> tuple[bytes, bytes | None]:
    """The encoded body of an answer, and the raw bytes of a binary result."""
    tail = body.pop("data", None)
    return encode(body), tail


def feed_event(feed: Feed, name: str, body: dict[str, Any]) -> None:
    """Pass a progress or chunk event of a call to its feed."""
    if name == "rrext_progress":
        feed.progress(body["progress"], body.get("total"), body.get("message"))
    elif "data" in body:
        feed.chunk(body["index"], b"", body["data"])
    else:
        feed.chunk(body["index"], encode(body["chunk"]), None)


def in_words_of_options(error: RrextError) -> RrextError:
    """The same error, with options of the command line in place of arguments in its hint."""
    if error.hint is not None:
        error.hint = error.hint.replace("`token`", "`--token`")
    return error
