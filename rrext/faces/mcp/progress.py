"""Steps of a call as progress that a host shows: the tools that the call calls, its agents and the turns of their models.

The pieces of an agent's text are no progress: they are its result, and a host would show each for a moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nextafter
from typing import Any

from rrext.limits import DEFAULTS


class CallSteps:
    """The progress of one call: that of its tool, and its steps between. The protocol wants each value above the last one."""

    __slots__ = ("_is_own", "_last", "_total")

    def __init__(self) -> None:
        self._last = 0.0
        self._total: float | None = None
        self._is_own = False

    def reported(self, value: float, total: float | None) -> bool:
        """Note progress of the tool itself; False if its value is below the last one."""
        is_next = not self._is_own or value >= self._last
        if is_next:
            self._last, self._total, self._is_own = max(value, self._last), total, True
        return is_next

    def step(self, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """The progress of an event of the call, `{progress, total?, message}`; None for one that a host is not told."""
        message = message_of(body)
        if message is None:
            return None
        self._last = nextafter(self._last, inf) if self._is_own else self._last + 1
        told = {"progress": self._last, "message": message[: DEFAULTS.progress_text]}
        return told if self._total is None else {**told, "total": self._total}


def message_of(body: Mapping[str, Any]) -> str | None:
    """What a host shows for an event of a call, and of those within it; None for the others."""
    tool, failure = f"{body.get('nodeId')}.{body.get('tool')}", body.get("code")
    reason = f": {body.get('message') or failure}" if failure else ""
    match body["event"], body.get("step"):
        case "call_started", _ if "caller" in body:
            return f"calls {tool}"
        case "call_ended", _ if "caller" in body:
            return f"{tool} failed{reason}" if failure else f"{tool} has ended"
        case "agent_turn", "start":
            return f"{body['agent']} asks its model, turn {body['turn']}"
        case "agent_step", "start":
            return f"{body['agent']} begins"
        case "agent_step", "end" if failure:
            return f"{body['agent']} failed{reason}"
        case _:
            return None
