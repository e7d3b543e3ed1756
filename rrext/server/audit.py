"""The audit log: a line for each call when it has ended."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from rrext.engine.events.records import CallEnded, Filter, kind_of
from rrext.engine.interface.log_names import in_log

if TYPE_CHECKING:
    from rrext.engine.interface.engine import Engine


LOOKING: Final = ("list_tools", "list_tasks", "task_status", "services", "validate")
"""Commands that change nothing and run no code of nodes: the debug log has them."""

audit: Final = logging.getLogger("rrext.calls")


def begin_audit(engine: Engine) -> None:
    """Log every call of the engine that ends from now on."""
    engine.subscribe(Filter(kinds=frozenset({kind_of(CallEnded)})), _log)


def _log(event: Any) -> None:
    level = logging.DEBUG if event.command in LOOKING else logging.INFO
    if audit.isEnabledFor(level):
        # By hand, because the logger looks for the line of code that calls it, which takes longer than the line itself.
        audit.handle(logging.LogRecord(audit.name, level, "", 0, line_of(event), None, None))


def line_of(event: CallEnded) -> str:
    """The audit line of a call: names and values, with texts in quotes that could be read as more than one."""
    request, outcome = event.request_id, event.code or "done"
    what = f"command={event.command}" if event.tool is None else f"node={in_log(event.node_id)} tool={in_log(event.tool)}"
    line = (
        f"request={request if isinstance(request, int) else in_log(request)} client={in_log(event.connection_id)} "
        f"pipe={event.pipe_id} {what} ms={event.seconds * 1e3:.3f} outcome={in_log(outcome)} bytes={event.size}"
    )
    if event.user_id is not None:
        line += f" user={in_log(event.user_id)}"
    return f"{line} caller={in_log(event.callers[-1])}" if event.callers else line
