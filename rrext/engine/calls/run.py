"""A run: one execution of a tool or of a node's lifecycle method, within a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rrext.engine.calls.lease import Lease
from rrext.engine.events.hub import EventOrigin
from rrext.engine.host.host import Host
from rrext.engine.host.places import Loan
from rrext.engine.interface.call import Call
from rrext.tools.context import CancelReason, CancelToken

if TYPE_CHECKING:
    from rrext.engine.calls.tool_run import ToolRun
    from rrext.engine.tasks.route import Route


class Run:
    """The call, the lease whose node objects are used, the deadline, and the chain of callers.

    `trail` names the callers, from the outermost on. `loan` is the place among the running sync calls of a run in a thread.
    """

    may_hold_the_loop = False
    """Whether the code is meant to run on the loop's thread without awaiting."""
    nested_class: type[ToolRun] | None = None
    """The class of nested runs, if they are watched for the caller alone; None: that of all runs."""
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
        """The token that tells the code of a cancel. Made at first use: most calls never need it."""
        token = self._token
        if token is None:
            token = self._token = CancelToken()
            if self._reason is not None:  # `cancel_token` sets the reason before it looks for a token
                token.cancel(self._reason)
        return token

    @property
    def event_origin(self) -> EventOrigin:
        """The origin of the events of the code that runs: the pipe, or the call."""
        call, lease = self.call, self.lease
        if lease.pipe is not None:
            return lease.pipe.origin
        head, caller = lease.task.event_head, call.caller
        return EventOrigin(self.host.events, head, connection_id=caller.connection_id, user_id=caller.user_id)

    def cancel_token(self, reason: CancelReason) -> None:
        """Tell the code that its call was cancelled."""
        self._reason = reason
        if self._token is not None:
            self._token.cancel(reason)

    def callee(self, route: Route) -> ToolRun:
        """Make the run of a nested tool call: for the same call, on the same lease, until the earlier deadline."""
        deadline, own = self.deadline, route.spec.timeout
        if own is not None:
            until = self.host.clock.now() + own
            deadline = until if deadline is None else min(deadline, until)
        run_class = self.nested_class or self.host.tool_run
        return run_class(self.host, self.call, self.lease, route, deadline=deadline, token=self.token, trail=self.trail)
