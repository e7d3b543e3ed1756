"""The audit log: one line at the end of each call."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from rrext.engine.events.records import CallEnded, Filter, kind_of
from rrext.engine.interface.call import in_log

if TYPE_CHECKING:
    from rrext.engine.interface.engine import Engine


LOOKING: Final = ("list_tools", "list_tasks", "task_status", "services", "validate")
"""Commands that change nothing and run no code of nodes, logged at level debug."""

audit: Final = logging.getLogger("rrext.calls")


def begin_audit(engine: Engine) -> None:
    """Begin to log every call of the engine at its end."""
    engine.subscribe(Filter(kinds=frozenset({kind_of(CallEnded)})), _log)


def _log(event: Any) -> None:
    level = logging.DEBUG if event.command in LOOKING else logging.INFO
    if audit.isEnabledFor(level):
        # The record is made here, because the logger's search for the calling line takes longer than the line itself.
        audit.handle(logging.LogRecord(audit.name, level, "", 0, line_of(event), None, None))


def line_of(event: CallEnded) -> str:
    """Make the audit line of a call: names and values; ambiguous texts are quoted."""
    request, outcome = event.request_id, event.code or "done"
    what = f"command={event.command}" if event.tool is None else f"node={in_log(event.node_id)} tool={in_log(event.tool)}"
    line = (
        f"request={request if isinstance(request, int) else in_log(request)} client={in_log(event.connection_id)} "
        f"pipe={event.pipe_id} {what} ms={event.seconds * 1e3:.3f} outcome={in_log(outcome)} bytes={event.size}"
    )
    if event.user_id is not None:
        line += f" user={in_log(event.user_id)}"
    if event.address is not None:
        line += f" address={in_log(event.address)}"
    return f"{line} caller={in_log(event.callers[-1])}" if event.callers else line
