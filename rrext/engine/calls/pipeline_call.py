"""A call of another pipeline by a tool: one object, opened, written and closed as the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.engine.calls.object_calls import DroppedAnswer
from rrext.engine.interface.call import Call
from rrext.engine.interface.operations import Close, Open, Write
from rrext.errors import Cancelled, ToolError, error_from_wire

if TYPE_CHECKING:
    from rrext.engine.calls.run import Run

CALLERS: Final = "rrext/pipelines"
"""The key of `_meta` with the tokens of the pipelines that called this one, the outermost first."""


async def run_pipeline(run: Run, token: str, text: str, *, mime_type: str | None, name: str | None) -> dict[str, Any]:
    """The result body of a pipeline for one text. Raises `ToolError` if pipelines would call each other in a circle."""
    given = run.call.operation.meta
    meta: dict[str, Any] = given if isinstance(given, dict) else {}
    before = meta.get(CALLERS)
    callers = [*(before if isinstance(before, list) else ()), run.lease.task.token]
    if token in callers:
        way = " → ".join(map(str, [*callers[callers.index(token) :], token]))
        raise ToolError(f"Pipelines would call each other in a circle: {way}", data={"chain": [*callers, token]})
    meta = {**meta, CALLERS: callers}
    try:
        return await _object(run, token, text, meta, mime_type=mime_type, name=name)
    except Cancelled as error:  # nobody cancelled the caller of this call
        raise ToolError(f'Pipeline "{token}" ended before it answered: {error.message}', data={"token": token}) from None


async def _object(
    run: Run, token: str, text: str, meta: dict[str, Any], *, mime_type: str | None, name: str | None
) -> dict[str, Any]:
    engine, caller = run.host.engine, run.call.caller
    described = {} if name is None else {"name": name}
    opening = Open(token=token, object=described, mime_type=mime_type or await engine.text_type(token, caller), meta=meta)
    opened, _ = await engine.ask(opening, caller)
    pipe_id: int = msgspec.json.decode(opened)["pipe_id"]
    try:
        await engine.ask(Write(pipe_id=pipe_id, data=text, meta=meta), caller)
    except BaseException:
        engine.start(Call(Close(pipe_id=pipe_id, meta=meta), DroppedAnswer(), caller))  # which frees the pipe
        raise
    body, _ = await engine.ask(Close(pipe_id=pipe_id, meta=meta), caller)
    result: dict[str, Any] = msgspec.json.decode(body)
    failure = result.pop("error", None)
    if failure is not None:
        raise error_from_wire(failure["code"], failure["message"], None, {"result": result})
    return result
