"""Questions of workers: a tool of one pipeline calls another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from rrext.errors import RrextError, Unavailable
from rrext.tasks.worker_engine import ASKED, TextType

if TYPE_CHECKING:
    from rrext.tasks.task_engine import TaskEngine
    from rrext.tasks.worker import Worker


class WorkerQuestions:
    """Answers the questions of workers, as the callers of the calls behind them."""

    def __init__(self, engine: TaskEngine) -> None:
        self._engine = engine
        self._works: dict[tuple[int, int], asyncio.Task[None]] = {}

    def begin(self, worker: Worker, body: bytes, tail: bytes | None) -> None:
        """Begin to answer."""
        given = msgspec.json.decode(body)
        key = (worker.number, given["ask"])
        work = self._works[key] = self._engine.host.spawn(self._answer(worker, given, tail), f"question {key}")
        work.add_done_callback(lambda _: self._works.pop(key, None))

    def cancel(self, worker: Worker, number: int) -> None:
        """Stop the work for a question."""
        if (work := self._works.get((worker.number, number))) is not None:
            work.cancel()

    def cancel_all(self, worker: Worker) -> None:
        """Stop the work for a worker that has ended."""
        for key, work in list(self._works.items()):
            if key[0] == worker.number:
                work.cancel()

    async def _answer(self, worker: Worker, given: dict[str, Any], tail: bytes | None) -> None:
        answer: dict[str, Any] = {"ask": given["ask"]}
        raw = None
        try:
            caller = worker.caller_of(given["caller"])
            if caller is None:
                raise Unavailable("the server does not know the connection of this call any more")
            operation: Any = msgspec.convert(given["arguments"], ASKED[given["operation"]])
            if isinstance(operation, TextType):
                answer["body"] = {"type": await self._engine.text_type(operation.token or "", caller)}
            else:
                body, raw = await self._engine.ask(operation, caller, data=tail)
                answer["body"] = msgspec.Raw(body)
        except RrextError as error:
            answer["error"] = [error.code, error.message, error.hint, error.data]
        worker.order("worker_answered", answer, raw)
