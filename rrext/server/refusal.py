"""The answer of a server that cannot start, to the client on its stdin."""

from __future__ import annotations

import os
from collections.abc import Sequence
from select import select
from time import monotonic

from rrext.errors import InvalidPipeline, RrextError
from rrext.limits import Limits
from rrext.wire.connection import ServerConnection
from rrext.wire.framing import READ_BUFFER, ContentLength
from rrext.wire.messages import Fatal, Request


def refusal_of(files: Sequence[tuple[str, InvalidPipeline]]) -> InvalidPipeline:
    """The error for pipeline files that cannot be loaded: the problems of all, each with its `file`."""
    path, first = files[0]
    more = f" (and {len(files) - 1} more files)" if len(files) > 1 else ""
    problems = [{"file": path, **problem} for path, error in files for problem in error.data.get("problems", ())]
    return InvalidPipeline(f"{path}: {first.message}{more}", hint=first.hint, data={"problems": problems})


def answer_first_request(read_fd: int, write_fd: int, error: RrextError, limits: Limits) -> bool:
    """Answer the first request of a client with an error, if it arrives within `eof_grace`. A terminal is no client.

    Returns whether there was one to answer.
    """
    if os.isatty(read_fd):
        return False
    until = monotonic() + limits.eof_grace
    connection = ServerConnection(ContentLength(limits), limits)
    try:
        request = _first_request(read_fd, connection, until)
        if request is not None and request.id is not None:
            _write(write_fd, b"".join(connection.error(request.id, request.command, error)), until)
            return True
    except OSError:
        pass  # the client is gone
    return False


def _first_request(fd: int, connection: ServerConnection, until: float) -> Request | None:
    framer = connection.framer
    assert framer is not None
    while select([fd], [], [], max(0.0, until - monotonic()))[0]:
        data = os.read(fd, READ_BUFFER)
        events = framer.receive_data(data)
        for event in events:
            if isinstance(event, Request):
                return event
        if not data or any(isinstance(event, Fatal) for event in events):
            return None
    return None


def _write(fd: int, data: bytes, until: float) -> None:
    rest = memoryview(data)
    while rest and select([], [fd], [], max(0.0, until - monotonic()))[1]:
        rest = rest[os.write(fd, rest) :]
