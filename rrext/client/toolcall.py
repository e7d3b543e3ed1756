"""A tool call, as `Client.tool` and `Pipe.tool` make it."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from math import isfinite
from typing import Any

import msgspec

from rrext.client.call import Body, Deadline
from rrext.client.session import Session
from rrext.client.updates import ChunkCallback, ProgressCallback
from rrext.errors import InvalidArguments, UsageError
from rrext.limits import CLIENT_DEFAULTS
from rrext.wire.codec import encode_own, is_json
from rrext.wire.connection import encode_arguments

__all__ = ["ToolArguments", "deadline_of", "result_of", "tool_call"]


class ToolArguments(msgspec.Struct, omit_defaults=True, tag_field="subcommand", tag="tool"):
    """The arguments of a tool call. What is not given is not sent."""

    tool: str
    node_id: str = msgspec.field(name="nodeId")
    input: Any
    token: str | None = None
    pipe_id: int | None = None
    context: Mapping[str, Any] | None = None
    meta: Any = msgspec.field(default=None, name="_meta")
    timeout: float | None = None
    progress: bool = False
    stream: bool = False

    def encode(self) -> bytes:
        """Their JSON. Raises `UsageError` for what JSON cannot hold."""
        try:
            context, meta = self.context, self.meta
            if is_json(self.input) and (context is None or is_json(context)) and (meta is None or is_json(meta)):
                return encode_own(self)
        except (TypeError, UnicodeEncodeError, RecursionError):
            pass
        given: Body = {"subcommand": "tool"}
        given |= {field.encode_name: getattr(self, field.name) for field in msgspec.structs.fields(self)}
        return encode_arguments(given)  # raises, and says where


def tool_call(
    session: Session,
    arguments: ToolArguments,
    timeout: float | None,
    progress: ProgressCallback | None,
    on_chunk: ChunkCallback | None,
    reset_on_progress: bool,
    max_total: float | None,
) -> Coroutine[Any, Any, Body]:
    """A call of a tool, which returns the body of the answer; see `Client.tool`."""
    deadline = updates = None
    if timeout is not None or reset_on_progress or max_total is not None:
        deadline = _limit(arguments, timeout, reset_on_progress, max_total)
    if progress is not None or on_chunk is not None or reset_on_progress:
        updates = session.link.updates(progress, on_chunk)
        arguments.progress = progress is not None or reset_on_progress
        arguments.stream = on_chunk is not None
    slots = session.slots if arguments.pipe_id is None else session.pipe_slots
    return session.link.call("rrext_process", arguments.encode(), None, slots, deadline, updates)


def result_of(body: Body) -> Any:
    """What the tool returned: a JSON value, or bytes."""
    return body["result"] if "result" in body else body.get("data")


def _limit(arguments: ToolArguments, timeout: float | None, idle: bool, total: float | None) -> Deadline | None:
    """The client's own deadline; the server's goes into `arguments`."""
    if not idle:
        if total is not None:
            raise UsageError("max_total is of use with reset_on_progress=True alone; timeout limits the whole call.")
        if timeout is not None:
            arguments.timeout = timeout
        return deadline_of(f'Tool "{arguments.tool}"', timeout)
    if timeout is None:
        raise UsageError("reset_on_progress=True needs a timeout: how long the tool may report nothing.")
    if total is not None:
        arguments.timeout = _checked(total)
    return Deadline(f'Tool "{arguments.tool}"', _checked(timeout), idle=True, total=total)


def deadline_of(what: str, timeout: float | None) -> Deadline | None:
    """The deadline of a call whose server keeps to the same timeout, and is given a little longer to say so."""
    return None if timeout is None else Deadline(what, _checked(timeout), margin=CLIENT_DEFAULTS.timeout_margin)


def _checked(seconds: float) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not isfinite(seconds) or seconds <= 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArguments.at("/timeout", f"must be a number of seconds above 0, not {seconds!r}")
    return seconds
