"""Operations of the engine as requests to a server, and the server's events as those of a feed."""

from __future__ import annotations

from typing import Any

import msgspec

from rrext.engine.interface.call import Feed
from rrext.engine.interface.operations import Operation
from rrext.errors import RrextError
from rrext.server.commands import SUBCOMMANDS
from rrext.wire.codec import encode

__all__ = ["arguments_of", "body_and_tail", "feed_event", "in_words_of_options"]

NAMES = {shape: name for name, shape in SUBCOMMANDS.items()}


def arguments_of(operation: Operation, token: str | None) -> dict[str, Any]:
    """The arguments of `rrext_process`: those that differ from none at all, by their names on the wire."""
    given = {"subcommand": NAMES[type(operation)], **msgspec.to_builtins(operation), "token": token}
    return {key: value for key, value in given.items() if value is not None}


def body_and_tail(body: dict[str, Any]) -> tuple[bytes, bytes | None]:
    """An answer's body, encoded, and the raw bytes of a result that is bytes."""
    tail = body.pop("data", None)
    return encode(body), tail


def feed_event(feed: Feed, name: str, body: dict[str, Any]) -> None:
    """Hand on the progress, or the chunk, of a call."""
    if name == "rrext_progress":
        feed.progress(body["progress"], body.get("total"), body.get("message"))
    elif "data" in body:
        feed.chunk(body["index"], b"", body["data"])
    else:
        feed.chunk(body["index"], encode(body["chunk"]), None)


def in_words_of_options(error: RrextError) -> RrextError:
    """The same failure, whose hint names an option of the command line in place of an argument."""
    if error.hint is not None:
        error.hint = error.hint.replace("`token`", "`--token`")
    return error
