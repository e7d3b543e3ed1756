"""The pipelines that the operator names when the server starts: they run as long as the server."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from rrext.errors import RrextError, ShuttingDown, TaskAlreadyRunning

if TYPE_CHECKING:
    from rrext.engine.host.host import Host
    from rrext.tasks.remote_loader import RemoteLoader
    from rrext.tasks.remote_task import RemoteTask

FIRST_RELOAD_DELAY: Final = 1.0
"""Seconds before a pipeline of the operator is loaded a second time; the first time it is at once, each next one doubles."""
LAST_RELOAD_DELAY: Final = 60.0
"""The longest of these delays: a tool that always crashes takes little of the processor. After a run of this length the delays
begin anew."""

log: Final = logging.getLogger("rrext.tasks")


class OperatorFiles:
    """Loads files. A pipeline whose process was lost is loaded again: at once, then after growing delays while that goes on."""

    def __init__(self, host: Host, loader: RemoteLoader) -> None:
        self._host = host
        self._loader = loader
        self._tokens: set[str] = set()
        self._delays: dict[str, float] = {}
        """Token → the seconds before the next attempt."""

    async def load(self, **given: Any) -> RemoteTask:
        """Load a pipeline by the arguments of `RemoteLoader.load`."""
        task = await self._loader.load(**given)
        self._tokens.add(task.token)
        return task

    def ended(self, task: RemoteTask, reason: str) -> None:
        """Load a pipeline of the operator again if its process was lost. After a restart it is still the operator's."""
        if task.scope is not None or task.token not in self._tokens or reason == "restarted":
            return
        if reason != "lost":
            self._tokens.discard(task.token)
            return
        if self._host.clock.now() - task.began >= LAST_RELOAD_DELAY:
            self._delays.pop(task.token, None)
        self._come_back({"pipeline": task.pipeline, **task.options, "token": task.token})

    def _come_back(self, given: dict[str, Any]) -> None:
        token = given["token"]
        delay = self._delays.get(token, 0.0)
        self._delays[token] = min(max(2 * delay, FIRST_RELOAD_DELAY), LAST_RELOAD_DELAY)
        log.warning("pipeline %s is loaded again in %g seconds", token, delay)

        def begin() -> None:
            self._host.spawn(self._loaded_again(given), f"pipeline {token} again")

        self._host.clock.call_later(delay, begin)

    async def _loaded_again(self, given: dict[str, Any]) -> None:
        try:
            await self.load(**given)
        except ShuttingDown:
            return
        except TaskAlreadyRunning:
            self._tokens.discard(given["token"])
            log.warning("pipeline %s is not loaded again: a client has taken its token", given["token"])
        except RrextError as error:
            log.error("pipeline %s cannot be loaded again: %s", given["token"], error.message)
            self._come_back(given)
