"""A tool call, as `Client.tool` and `Pipe.tool` make it."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from rrext.client.call import Body, Deadline
from rrext.client.session import Session
from rrext.client.updates import ChunkCallback, ProgressCallback
from rrext.errors import InvalidArguments, UsageError
from rrext.limits import CLIENT_DEFAULTS

__all__ = ["call_tool", "deadline_of"]


async def call_tool(
    session: Session,
    tool: str,
    node_id: str,
    input: Mapping[str, Any] | None,
    token: str | None,
    pipe_id: int | None,
    timeout: float | None,
    progress: ProgressCallback | None,
    on_chunk: ChunkCallback | None,
    context: Mapping[str, Any] | None,
    meta: Any,
    reset_on_progress: bool,
    max_total: float | None,
) -> Any:
    """Call a tool and return its result; see `Client.tool`."""
    arguments: Body = {"subcommand": "tool", "tool": tool, "nodeId": node_id, "input": {} if input is None else input}
    if token is not None:
        arguments["token"] = token
    if pipe_id is None:
        slots = session.slots
    else:
        slots = session.pipe_slots
        arguments["pipe_id"] = pipe_id
    if context is not None:
        arguments["context"] = context
    if meta is not None:
        arguments["_meta"] = meta
    deadline = updates = None
    if timeout is not None or reset_on_progress or max_total is not None:
        deadline = _limit(arguments, tool, timeout, reset_on_progress, max_total)
    if progress is not None or on_chunk is not None or reset_on_progress:
        updates = session.link.updates(progress, on_chunk)
        arguments["progress"] = progress is not None or reset_on_progress
        arguments["stream"] = on_chunk is not None
    body = await session.link.call("rrext_process", arguments, slots=slots, deadline=deadline, updates=updates)
    return body["result"] if "result" in body else body.get("data")


def _limit(arguments: Body, tool: str, timeout: float | None, idle: bool, total: float | None) -> Deadline | None:
    """The client's own deadline; the server's goes into `arguments`."""
    if not idle:
        if total is not None:
            raise UsageError("max_total is of use with reset_on_progress=True alone; timeout limits the whole call.")
        if timeout is not None:
            arguments["timeout"] = timeout
        return deadline_of(f'Tool "{tool}"', timeout)
    if timeout is None:
        raise UsageError("reset_on_progress=True needs a timeout: how long the tool may report nothing.")
    if total is not None:
        arguments["timeout"] = _checked(total)
    return Deadline(f'Tool "{tool}"', _checked(timeout), idle=True, total=total)


def deadline_of(what: str, timeout: float | None) -> Deadline | None:
    """The deadline of a call whose server keeps to the same timeout, and is given a little longer to say so."""
    return None if timeout is None else Deadline(what, _checked(timeout), margin=CLIENT_DEFAULTS.timeout_margin)


def _checked(seconds: float) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not isfinite(seconds) or seconds <= 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArguments.at("/timeout", f"must be a number of seconds above 0, not {seconds!r}")
    return seconds
