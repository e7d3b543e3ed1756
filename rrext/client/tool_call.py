"""A tool call, as `Client.tool` and `Pipe.tool` make it."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from math import isfinite
from typing import Any

from rrext.client.client_session import ClientSession
from rrext.client.pending_call import Body, Deadline
from rrext.client.updates import CallEventCallback, ChunkCallback, ProgressCallback
from rrext.errors import InvalidArguments, UsageError
from rrext.limits import CLIENT_DEFAULTS


def tool_arguments(
    tool: str,
    node_id: str,
    given: Mapping[str, Any] | None,
    token: str | None,
    pipe_id: int | None,
    context: Mapping[str, Any] | None,
    meta: Any,
) -> Body:
    """The arguments of a tool call. Optional ones that are None are left out."""
    arguments: Body = {"subcommand": "tool", "tool": tool, "nodeId": node_id, "input": {} if given is None else given}
    if token is not None:
        arguments["token"] = token
    if pipe_id is not None:
        arguments["pipe_id"] = pipe_id
    if context is not None:
        arguments["context"] = context
    if meta is not None:
        arguments["_meta"] = meta
    return arguments


def tool_call(
    session: ClientSession,
    arguments: Body,
    timeout: float | None,
    progress: ProgressCallback | None,
    on_chunk: ChunkCallback | None,
    on_event: CallEventCallback | None,
    reset_on_progress: bool,
    max_total: float | None,
) -> Coroutine[Any, Any, Body]:
    """A call of a tool, which returns the body of the answer; see `Client.tool`."""
    deadline = updates = None
    if timeout is not None or reset_on_progress or max_total is not None:
        deadline = _limit(arguments, timeout, reset_on_progress, max_total)
    if progress is not None or on_chunk is not None or on_event is not None or reset_on_progress:
        updates = session.endpoint.updates(progress, on_chunk, on_event)
        arguments["progress"] = progress is not None or reset_on_progress
        arguments["stream"] = on_chunk is not None
        if on_event is not None:
            arguments["events"] = True
    slots = session.pipe_slots if "pipe_id" in arguments else session.slots
    return session.endpoint.call("rrext_process", arguments, None, slots, deadline, updates)


def result_of(body: Body) -> Any:
    """The result of the tool: a JSON value, or bytes."""
    return body["result"] if "result" in body else body.get("data")


def _limit(arguments: Body, timeout: float | None, idle: bool, total: float | None) -> Deadline | None:
    """The client's own deadline; the server's goes into `arguments`."""
    if not idle:
        if total is not None:
            raise UsageError("max_total is of use with reset_on_progress=True alone; timeout limits the whole call.")
        if timeout is not None:
            arguments["timeout"] = timeout
        return deadline_of(f'Tool "{arguments["tool"]}"', timeout)
    if timeout is None:
        raise UsageError("reset_on_progress=True needs a timeout: how long the tool may report nothing.")
    if total is not None:
        arguments["timeout"] = _checked(total)
    return Deadline(f'Tool "{arguments["tool"]}"', _checked(timeout), idle=True, total=total)


def deadline_of(what: str, timeout: float | None) -> Deadline | None:
    """The deadline of a call whose server keeps to the same timeout, and is given a little longer to say so."""
    return None if timeout is None else Deadline(what, _checked(timeout), margin=CLIENT_DEFAULTS.timeout_margin)


def _checked(seconds: float) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not isfinite(seconds) or seconds <= 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArguments.at("/timeout", f"must be a number of seconds above 0, not {seconds!r}")
    return seconds
