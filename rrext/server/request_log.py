"""A line in the log for each request that is no tool call; those leave their own."""

from __future__ import annotations

import logging
from time import perf_counter
from typing import Final

import msgspec

from rrext.engine.interface import Answer, Call, Close, Engine, Execute, Open, Terminate, Tool, Write
from rrext.errors import RrextError

__all__ = ["LoggedEngine"]

CHANGES: Final = (Open, Write, Close, Execute, Terminate)
"""What is logged as an event; requests that only look are told in the debug log."""

log: Final = logging.getLogger("rrext.calls")


class LoggedEngine(Engine):
    """An engine whose requests are logged when they are answered: request, pipe, command, milliseconds, outcome."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def start(self, call: Call, *, may_block: bool = False, alone: bool = False) -> bool:
        if type(call.operation) is not Tool:
            if may_block:
                return False
            call.answer = _LoggedAnswer(call.answer)
        return self._engine.start(call, may_block=may_block, alone=alone)

    def begin_batch(self) -> None:
        self._engine.begin_batch()

    def end_batch(self) -> None:
        self._engine.end_batch()

    def disconnect(self, connection_id: str) -> None:
        self._engine.disconnect(connection_id)

    async def aclose(self) -> None:
        await self._engine.aclose()

    def __repr__(self) -> str:
        return f"<LoggedEngine {self._engine!r}>"


class _LoggedAnswer:
    """Logs one answer on its way."""

    __slots__ = ("_answer", "_began")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._began = perf_counter()

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None:
        self._tell(call, "done", body)
        self._answer.succeed(call, body, tail)

    def fail(self, call: Call, error: RrextError) -> None:
        self._tell(call, error.code, b"{}")
        self._answer.fail(call, error)

    def _tell(self, call: Call, outcome: str, body: bytes) -> None:
        operation = call.operation
        level = logging.INFO if isinstance(operation, CHANGES) else logging.DEBUG
        if log.isEnabledFor(level):
            pipe = (
                msgspec.json.decode(body).get("pipe_id") if isinstance(operation, Open) else getattr(operation, "pipe_id", None)
            )
            took = (perf_counter() - self._began) * 1e3
            command = type(operation).__name__.lower()
            log.log(level, "request=%s pipe=%s command=%s ms=%.3f outcome=%s", call.request_id, pipe, command, took, outcome)
