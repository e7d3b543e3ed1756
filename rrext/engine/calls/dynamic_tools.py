"""Waits until nodes have learnt their dynamic tools, for a call or a list that may mean one of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rrext.errors import RrextError, Unavailable

if TYPE_CHECKING:
    from rrext.engine.host.host import Host
    from rrext.engine.tasks.task import Task


async def learn_tools(
    host: Host, task: Task, node_id: str | None = None, tool: str = "", *, trusted: bool
) -> dict[str, RrextError]:
    """Set up the nodes whose dynamic tools are not known yet, all or one, or those that may have a tool.

    Returns the errors of those that failed, by component.
    """
    unlisted = task.unlisted(node_id, tool)
    outcomes = await asyncio.gather(*(part.ensure(host, trusted=trusted) for part in unlisted), return_exceptions=True)
    failed: dict[str, RrextError] = {}
    for component, outcome in zip(unlisted, outcomes, strict=True):
        if isinstance(outcome, RrextError):
            failed[component.id] = outcome
        elif isinstance(outcome, BaseException):
            raise outcome
    return failed


async def learn_tool(host: Host, task: Task, node_id: str | None, tool: str, *, trusted: bool) -> None:
    """Learn the tools of the nodes that may have this one, and only if none has it those of the others, for near names.

    Raises the error of a node that cannot tell its tools, if the tool is one of them, and `Unavailable` if it may be.
    """
    failed = await learn_tools(host, task, node_id, tool, trusted=trusted)
    if task.knows(node_id, tool):
        return
    for component, error in failed.items():
        if node_id or task.components[component].is_hidden:
            raise error.again()
    for component, error in failed.items():
        raise Unavailable(
            f'The tools of node "{component}" cannot be told, and "{tool}" may be one of them: {error.message}',
            hint=error.hint,
            data={"tool": tool, "nodeId": component, "cause": error.code},
        )
    await learn_tools(host, task, node_id, trusted=trusted)
