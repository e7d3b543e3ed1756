"""The operation `execute`: checks its arguments, and describes the loaded pipeline."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from rrext.engine.interface import operations
from rrext.engine.interface.call import Call
from rrext.engine.task_status import loaded_of
from rrext.engine.tasks.foreign import require_loading
from rrext.errors import InvalidArguments, near_matches

if TYPE_CHECKING:
    from rrext.engine.local_engine import LocalEngine
    from rrext.limits import Limits

REMOTE_TTL: Final = 900.0
"""Idle seconds until a pipeline of a network client ends, if the client names none: RocketRide's default."""


def load_options(call: Call, operation: operations.Execute, limits: Limits) -> dict[str, Any]:
    """The options of the `load` that an `execute` asks for. Raises `InvalidArguments`, and `Unavailable` for a caller who may
    load nothing.
    """
    if operation.threads is not None and operation.threads < 1:
        raise InvalidArguments.at("/threads", "expected a number of pipes above 0")
    if operation.ttl is not None and operation.ttl < 0:
        raise InvalidArguments.at("/ttl", "expected idle seconds, 0 for ever")
    if operation.token is not None and not operation.token.strip():
        raise InvalidArguments.at("/token", "expected a name that is not empty")
    require_loading(call.caller)
    if operation.folder is not None and not call.caller.trusted:
        raise InvalidArguments.at("/folder", "only who started the server may name a folder")
    return {
        "token": operation.token,
        "name": operation.name,
        "source": operation.source,
        "threads": None if operation.threads is None else min(operation.threads, limits.threads),
        "ttl": _ttl(call, operation),
        "owner": call.caller.user_id,
        "env": operation.env,
        "folder": None if operation.folder is None else os.path.abspath(operation.folder),
        "use_existing": bool(operation.use_existing),
        "partial": bool(operation.partial),
        "remote": not call.caller.trusted,
        "trace": _trace_level(operation.pipeline_trace_level),
    }


def execute(engine: LocalEngine, call: Call, operation: operations.Execute) -> dict[str, Any]:
    """Load a pipeline as the caller asks; the body of the answer. Raises what `LocalEngine.load` raises."""
    task = engine.load(operation.pipeline, **load_options(call, operation, engine.limits))
    body = loaded_of(task)
    return {**body, "unavailable": task.unavailable(engine.environment.redactor.text)} if operation.partial else body


def _ttl(call: Call, operation: operations.Execute) -> float | None:
    """The idle seconds until a pipeline ends. A network client that names none may be gone for ever."""
    if operation.ttl is None:
        return REMOTE_TTL if call.caller.is_keyed or not call.caller.trusted else None
    return operation.ttl or None


def _trace_level(name: str | None) -> int:
    if name is None:
        return 0
    from rrext.engine.events.trace import LEVELS

    if name not in LEVELS:
        near = near_matches(name, LEVELS)
        hint = f'Did you mean "{near[0]}"?' if near else "one of " + ", ".join(LEVELS)
        raise InvalidArguments.at("/pipelineTraceLevel", f"there is no such level of traces. {hint}", hint=hint)
    return LEVELS[name]
