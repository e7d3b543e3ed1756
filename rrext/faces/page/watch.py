"""The states of the status page for one user: rows of pipelines and their sums, made anew each second while a page is open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import time
from typing import Any, Final

import msgspec

from rrext.engine.events.hub import Subscription
from rrext.engine.interface import operations
from rrext.engine.interface.call import Caller
from rrext.engine.interface.engine import Engine
from rrext.engine.tasks.registry import FINISHED_TASK_TIME
from rrext.errors import RrextError, TaskError
from rrext.faces.page.traffic import FILTER, MAX_PAGE_TEXT, Traffic, percentiles
from rrext.version import __version__

PAGE_INTERVAL: Final = 1.0
"""Seconds between two states of a status page: as fast as numbers can be read."""
MAX_PAGE_INTERVAL: Final = 8.0
"""Seconds between two states at most; pages take a server that says nothing for longer for lost."""
PAGE_SHARE: Final = 0.05
"""The share of its time that the server spends on the states of one user; with many pipelines they come more rarely."""
STATUS_TIMEOUT: Final = 2.0
"""Seconds for the status of one pipeline; the page shows the one before if it takes longer."""
SHOWN_ERRORS: Final = 10
"""Errors and warnings of a pipeline itself on the page; its status has all that are kept."""
MAX_ENDED: Final = 50
"""Pipelines on the page that have ended."""

ENDS: Final = {5: "Completed", 6: "Cancelled"}
"""The states of pipelines that have ended."""

log: Final = logging.getLogger("rrext.server")


class Watch:
    """The latest state of the page of one user. It looks at nothing while `pages` is 0.

    `rows` has the encoded row of each pipeline by its key, `head` the sums. `on_end` is called when the last page has left.
    """

    def __init__(self, engine: Engine, caller: Caller, loop: asyncio.AbstractEventLoop, on_end: Callable[[], object]) -> None:
        self._engine = engine
        self._loop = loop
        self._on_end = on_end
        self._subscription: Subscription | None = None
        self._looking: asyncio.Task[None] | None = None
        self._listed: dict[str, dict[str, Any]] = {}
        self._latest: dict[str, dict[str, Any]] = {}
        self._ended: dict[str, dict[str, Any]] = {}
        self._measured: dict[str, tuple[int, dict[str, Any]]] = {}
        self._calls: dict[str, tuple[float, int]] = {}
        self._server_began = 0.0
        self._began = time()
        self._changed = asyncio.Event()
        self.caller = caller
        self.traffic = Traffic(caller)
        self.pages = 0
        self.number = 0
        self.is_ended = False
        self.head: dict[str, Any] = {}
        self.rows: dict[str, bytes] = {}

    def enter(self) -> None:
        """Begin to look, for a page more."""
        self.pages += 1
        if self._looking is None:
            self._subscription = self._engine.subscribe(FILTER, self.traffic.take)
            self._looking = self._loop.create_task(self._look(), name="status page")

    def leave(self) -> None:
        """End, if this was the last page."""
        self.pages -= 1
        if not self.pages:
            self.end()

    def end(self) -> None:
        """Look no more; the pages get no further state."""
        if self.is_ended:
            return
        self.is_ended = True
        if self._subscription is not None:
            self._subscription.cancel()
        if self._looking is not None:
            self._looking.cancel()
        self._changed.set()
        self._on_end()

    async def after(self, number: int) -> None:
        """Wait for a state after that of a number, or for the end."""
        while self.number <= number and not self.is_ended:
            await self._changed.wait()

    async def _look(self) -> None:
        while True:
            began = self._loop.time()
            try:
                await self._take_state(began)
            except RrextError as error:
                self.traffic.is_list_old = True
                log.info("the status page shows an old state: %s", error.message)
            except Exception:
                log.exception("a bug of rrext, in the status page")
            self.number += 1
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
            pause = (self._loop.time() - began) / PAGE_SHARE
            await asyncio.sleep(min(max(PAGE_INTERVAL, pause), MAX_PAGE_INTERVAL))

    async def _take_state(self, now: float) -> None:
        if self.traffic.is_list_old:
            self.traffic.is_list_old = False
            await self._list()
        rows: dict[str, dict[str, Any]] = {}
        for token, listed in list(self._listed.items()):
            try:
                status = await self._ask(operations.TaskStatus(token=token, timeout=STATUS_TIMEOUT))
            except TaskError:
                del self._listed[token]  # it ended, and an event will say so
            except RrextError as error:
                log.info("the status page shows an old status of a pipeline: %s", error.message)
                if token in self._latest:
                    rows[token] = self._latest[token]
            else:
                rows[token] = self._row(token, listed, status, now)
        self._latest = rows.copy()
        self._measured = {token: kept for token, kept in self._measured.items() if token in rows}
        self._calls = {token: kept for token, kept in self._calls.items() if token in rows}
        self.traffic.forget_all_but(frozenset(self._listed))
        self.head = self._head(list(rows.values()))
        until = time() - FINISHED_TASK_TIME
        rows |= {key: row for key, row in self._ended.items() if row["ended"] > until}
        self.rows = {key: msgspec.json.encode(row) for key, row in rows.items()}

    async def _list(self) -> None:
        """Learn which pipelines run, and which ended a short while ago."""
        listed: dict[str, dict[str, Any]] = {}
        for task in (await self._ask(operations.ListTasks()))["tasks"]:
            is_own = bool(task["pipeline"])  # others are the server's, and not this user's to end
            if is_own or task["token"] not in listed:  # a user's own name hides that of the server's
                listed[task["token"]] = {name: task[name][:MAX_PAGE_TEXT] for name in ("name", "description")} | {"own": is_own}
        board = await self._ask(operations.Dashboard())
        ended = [row for row in board["tasks"] if row["completed"]]
        self._listed = listed
        self._server_began = time() - board["overview"]["serverUptime"]
        self._ended = {f"{row['id']} {row['startTime']}": ended_row(row) for row in ended[-MAX_ENDED:]}

    async def _ask(self, operation: operations.Operation) -> Any:
        body, _ = await self._engine.ask(operation, self.caller)
        return msgspec.json.decode(body)

    def _row(self, token: str, listed: dict[str, Any], status: dict[str, Any], now: float) -> dict[str, Any]:
        version = self.traffic.version(token)
        known = self._measured.get(token)
        if known is None or known[0] != version:
            known = self._measured[token] = version, self.traffic.measures(token)
        measures = known[1]
        before, calls = self._calls.get(token, (now, 0))
        self._calls[token] = now, measures["calls"]
        return {
            **listed,
            "token": token,
            "project": status["project_id"],
            "source": status["source"],
            "state": status["status"],
            "began": status["startTime"],
            "pipes": status["pipeflow"]["totalPipes"],
            "toolCalls": status["calls"],
            "rate": (measures["calls"] - calls) / (now - before) if now > before else 0.0,
            "completed": status["completedCount"],
            "failed": status["failedCount"],
            "threads": status["threads"],
            "leftBehind": sum(status["leftBehind"].values()),
            "loopBlocks": status["loopBlocks"]["count"],
            "unavailable": [{**node, "reason": node["reason"][:MAX_PAGE_TEXT]} for node in status["unavailable"]],
            "warnings": [text[:MAX_PAGE_TEXT] for text in status["warnings"][-SHOWN_ERRORS:]],
            "errors": [text[:MAX_PAGE_TEXT] for text in status["errors"][-SHOWN_ERRORS:]],
            **measures,
        }

    def _head(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """The sums, and what is known of the server."""
        caller = self.caller
        clients = [client.caller for client in list(self._engine.clients.values())]
        return {
            "version": __version__,
            "user": caller.user_id or "",
            "isTrusted": caller.trusted,
            "serverBegan": self._server_began,
            "began": self._began,
            "clients": len([each for each in clients if caller.trusted or each.user_id == caller.user_id]),
            "tasks": len(rows),
            **{name: sum(row[name] for row in rows) for name in ("pipes", "rate", "completed", "failed")},
            **percentiles(self.traffic.latencies()),
        }


def ended_row(row: dict[str, Any]) -> dict[str, Any]:
    """The row of a pipeline that has ended, by that of the dashboard."""
    return {
        "name": row["name"].removesuffix(f".{row['source']}")[:MAX_PAGE_TEXT],
        "state": "Failed" if row["exitCode"] else ENDS.get(row["state"], "Ended"),
        "began": row["startTime"],
        "ended": row["endTime"] or 0,
        "exitCode": row["exitCode"] or 0,
        "source": row["source"],
        "project": row["projectId"],
        "completed": row["completedCount"],
        "failed": row["totalCount"] - row["completedCount"],
    }
