"""Questions of a running tool, or of a node's method, to its caller: whether it may be called, and what the user answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rrext.engine.interface.operations import Fed
from rrext.errors import Unavailable

if TYPE_CHECKING:
    from rrext.engine.calls.run import Run, ToolRun
    from rrext.engine.interface.call import Feed
    from rrext.tools.spec import ToolSpec


async def permitted(run: ToolRun, value: Any) -> None:
    """Wait for a permit of the caller to call the tool with this input. Raises `Unavailable` if it is not given."""
    call, host = run.call, run.host
    reason = "its caller did not offer to answer (`permits`)"
    if call.feed is not None and isinstance(call.operation, Fed) and call.operation.permits:
        arguments = host.redactor.value(value)
        answer = await asked(run, call.feed, "rrext_permission", {"arguments": arguments})
        if answer is True:
            return
        reason = f"there was no answer within {host.limits.permission_timeout:g} s" if answer is None else "it was denied"
    name, node_id = run.spec.name, run.route.node_id
    message = f'Tool "{name}" on node "{node_id}" needs a permission for each call: {reason}'
    raise unavailable_tool(message, run.spec, None, nodeId=node_id)


async def asked(run: Run, feed: Feed, event: str, about: dict[str, Any]) -> Any:
    """The caller's answer to a question; None if there is none in time."""
    seconds = run.host.limits.permission_timeout
    asking = asyncio.ensure_future(feed.ask(event, {**run.asker, **about, "timeout": seconds}))
    timer = run.host.clock.call_later(seconds, lambda: _cancel(asking))
    try:
        await asyncio.wait([asking])
    finally:
        timer.cancel()
        asking.cancel()
    return None if asking.cancelled() else asking.result()


def _cancel(asking: asyncio.Future[Any]) -> None:
    asking.cancel()


class RunQuestions:
    """Asks the user of a call's caller for a run."""

    __slots__ = ("_feed", "_run", "modes")

    def __init__(self, run: Run, feed: Feed, modes: Sequence[str]) -> None:
        self._run = run
        self._feed = feed
        self.modes = modes

    async def ask(self, params: Mapping[str, Any]) -> dict[str, Any]:
        answer = await asked(self._run, self._feed, "rrext_question", {"params": params})
        return answer if isinstance(answer, dict) else {"action": "cancel"}


def unavailable_tool(message: str, spec: ToolSpec, predicate: Any, **data: str) -> Unavailable:
    """The error for a tool that the caller cannot use; attributes of its predicate name the remedy and another tool."""
    instead = getattr(predicate, "instead", None)
    about = {**data, "tool": spec.name, **({} if instead is None else {"instead": instead})}
    return Unavailable(message, hint=getattr(predicate, "missing", None), data=about)
