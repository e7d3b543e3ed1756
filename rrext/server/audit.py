"""The audit log: a line for each call when it has ended."""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.engine.events.records import CallEnded, Filter, kind_of

if TYPE_CHECKING:
    from rrext.engine.interface import Engine

__all__ = ["begin_audit"]

LOOKING: Final = ("list_tools", "list_tasks", "task_status", "services", "validate")
"""Commands that change nothing and run no code of nodes: the debug log has them."""
PLAIN: Final = re.compile(r"[\w.:@/+-]+", re.ASCII)

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
    what = f"command={event.command}" if event.tool is None else f"node={_text(event.node_id)} tool={_text(event.tool)}"
    line = (
        f"request={request if isinstance(request, int) else _text(request)} client={_text(event.connection_id)} "
        f"pipe={event.pipe_id} {what} ms={event.seconds * 1e3:.3f} outcome={_text(outcome)} bytes={event.size}"
    )
    if event.user_id is not None:
        line += f" user={_text(event.user_id)}"
    return f"{line} caller={_text(event.callers[-1])}" if event.callers else line


@lru_cache(maxsize=1024)
def _text(value: Any) -> str:
    text = str(value)
    return text if PLAIN.fullmatch(text) else msgspec.json.encode(text.encode("utf-8", "replace").decode()).decode()
