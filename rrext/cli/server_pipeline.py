"""A pipeline of a running server: operations of the engine as requests, and the server's events as those of a feed."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rrext.cli.pipeline import Pipeline
from rrext.engine.interface.call import Caller, Feed
from rrext.engine.interface.operations import Operation
from rrext.errors import RrextError
from rrext.server.commands import SUBCOMMANDS
from rrext.wire.codec import encode

COMMAND: Final = "rrext_process"
NAMES: Final = {shape: name for name, shape in SUBCOMMANDS.items()}


class ServerPipeline(Pipeline):
    """The pipeline `token` of a server. A subclass sends the requests."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    async def ask(
        self, operation: Operation, *, data: bytes | None = None, feed: Feed | None = None, caller: Caller | None = None
    ) -> tuple[bytes, bytes | None]:
        given = {"subcommand": NAMES[type(operation)], **msgspec.to_builtins(operation), "token": self._token}
        try:
            body = await self.body({key: value for key, value in given.items() if value is not None}, data, feed)
        except RrextError as error:
            if error.hint is not None:
                error.hint = error.hint.replace("`token`", "`--token`")
            raise
        tail = body.pop("data", None)
        return encode(body), tail

    async def body(self, arguments: dict[str, Any], tail: bytes | None, feed: Feed | None) -> dict[str, Any]:
        """The body of the answer to a request of `COMMAND`."""
        raise NotImplementedError


def feed_event(feed: Feed, name: str, body: dict[str, Any]) -> None:
    """Pass an event of a call to its feed."""
    if name == "rrext_progress":
        feed.progress(body["progress"], body.get("total"), body.get("message"))
    elif name == "rrext_call":
        feed.call_event({key: value for key, value in body.items() if key != "request"})
    elif "data" in body:
        feed.chunk(body["index"], b"", body["data"])
    else:
        feed.chunk(body["index"], encode(body["chunk"]), None)
