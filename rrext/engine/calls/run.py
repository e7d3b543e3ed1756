"""A run: the surroundings of node code, a tool or a lifecycle method, in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rrext.engine.calls.lease import Lease
from rrext.engine.host.host import Host
from rrext.engine.host.places import Loan
from rrext.engine.interface.call import Call
from rrext.tools.context import CancelReason, CancelToken

if TYPE_CHECKING:
    from rrext.engine.calls.tool_run import ToolRun
    from rrext.engine.tasks.task import Route


class Run:
    """The call, the lease whose node objects are used, the deadline, and the chain of callers.

    `trail` names the callers, from the outermost on. `loan` is the place among the running sync calls, while a thread
    runs it.
    """

    may_hold_the_loop = False
    """Whether it is meant to run on the loop's thread without awaiting."""
    loan: Loan | None = None
    _token: CancelToken | None = None
    _reason: CancelReason | None = None

    def __init__(
        self,
        host: Host,
        call: Call,
        lease: Lease,
        deadline: float | None,
        trail: tuple[str, ...],
        token: CancelToken | None = None,
    ) -> None:
        self.host = host
        self.call = call
        self.lease = lease
        self.deadline = deadline
        self.trail = trail
        if token is not None:
            self._token = token

    @property
    def token(self) -> CancelToken:
        """Tells the code that nobody waits for it any more. Made when it is asked for: most calls never ask."""
        token = self._token
        if token is None:
            token = self._token = CancelToken()
            if self._reason is not None:  # `cancel_token` sets the reason before it looks for a token
                token.cancel(self._reason)
        return token

    def cancel_token(self, reason: CancelReason) -> None:
        """Nobody waits any more."""
        self._reason = reason
        if self._token is not None:
            self._token.cancel(reason)

    def callee(self, route: Route) -> ToolRun:
        """The run of a tool that this one calls: for the same call, on the same lease, until the earlier deadline."""
        deadline, own = self.deadline, route.spec.timeout
        if own is not None:
            until = self.host.clock.now() + own
            deadline = until if deadline is None else min(deadline, until)
        return self.host.tool_run(
            self.host, self.call, self.lease, route, deadline=deadline, token=self.token, trail=self.trail
        )
