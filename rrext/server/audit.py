"""The audit log: a line for each call when it has ended."""

from __future__ import annotations

import logging
import re
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
        audit.log(level, "%s", line_of(event))


def line_of(event: CallEnded) -> str:
    """The audit line of a call: names and values, with texts in quotes that could be read as more than one."""
    is_tool = event.tool is not None
    what = f"node={_text(event.node_id)} tool={_text(event.tool)}" if is_tool else f"command={event.command}"
    line = (
        f"request={_text(event.request_id)} client={_text(event.connection_id)} pipe={event.pipe_id} {what} "
        f"ms={event.seconds * 1e3:.3f} outcome={_text(event.code or 'done')} bytes={event.size}"
    )
    if event.user_id is not None:
        line += f" user={_text(event.user_id)}"
    return f"{line} caller={_text(event.callers[-1])}" if event.callers else line


def _text(value: Any) -> str:
    text = str(value)
    return text if PLAIN.fullmatch(text) else msgspec.json.encode(text.encode("utf-8", "replace").decode()).decode()
