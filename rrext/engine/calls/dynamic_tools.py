"""Waits until nodes have learnt their dynamic tools, for a call or a list that may mean one of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rrext.errors import RrextError, Unavailable

if TYPE_CHECKING:
    from rrext.engine.host.host import Host
    from rrext.engine.tasks.task import Task


async def learn_tools(host: Host, task: Task, node_id: str | None = None, *, trusted: bool) -> dict[str, RrextError]:
    """Set up the nodes whose dynamic tools are not known yet, all or one. The errors of those that failed, by node."""
    unlisted = task.unlisted(node_id)
    outcomes = await asyncio.gather(*(part.ensure(host, trusted=trusted) for part in unlisted), return_exceptions=True)
    failed: dict[str, RrextError] = {}
    for component, outcome in zip(unlisted, outcomes, strict=True):
        if isinstance(outcome, RrextError):
            failed[component.id] = outcome
        elif isinstance(outcome, BaseException):
            raise outcome
    return failed


async def learn_tool(host: Host, task: Task, node_id: str | None, tool: str, *, trusted: bool) -> None:
    """Learn the tools of the nodes that may have this one. If it is not known then, raises the error of a node that has it,
    or `Unavailable` if others, which cannot tell their tools, may have it."""
    failed = await learn_tools(host, task, node_id, trusted=trusted)
    if not failed or task.knows(node_id, tool):
        return
    first, error = next(iter(failed.items()))
    owner = error if node_id else next((failed[each] for each in task.components_offering(tool) if each in failed), None)
    if owner is not None:
        raise owner.again()
    raise Unavailable(
        f'The tools of node "{first}" cannot be told, and "{tool}" may be one of them: {error.message}',
        hint=error.hint,
        data={"tool": tool, "nodeId": first, "cause": error.code},
    )
