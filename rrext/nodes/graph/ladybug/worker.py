"""The process of an embedded graph: `python -m rrext.nodes.graph.ladybug.worker`.

Requests come through the standard input and answers leave through the standard output, as `calls` says, after the
`EmbeddedSettings`. When the server closes its end, or is killed, open transactions are undone, the database
is closed, and this process ends.
"""

from __future__ import annotations

import threading
from typing import Any, BinaryIO, Final

import msgspec

from rrext.errors import Cancelled, InternalError, ToolError
from rrext.nodes.child.calls import receive
from rrext.nodes.child.process import Cancel
from rrext.nodes.child.worker import AnswerStream, answer_of, begin, ending_within
from rrext.nodes.graph.ladybug.backend import EmbeddedBackend, EmbeddedCursor
from rrext.nodes.graph.ladybug.calls import (
    LADYBUG_FAILED,
    GraphBegin,
    GraphCommit,
    GraphEnd,
    GraphExplain,
    GraphFetch,
    GraphOpen,
    GraphRows,
    GraphRun,
    Message,
)
from rrext.nodes.graph.ladybug.rules import EmbeddedError, EmbeddedSettings
from rrext.threads import Workers

INTERRUPT_AGAIN: Final = 0.05
"""Seconds until an interrupt is repeated: the first may have come before the step began."""
LEAVING_TIMEOUT: Final = 5.0
"""Seconds that rollback and close may take after the server is gone."""


class LadybugSession:
    """A transaction and its statement. Its requests are done one after the other; only `interrupt` may come
    meanwhile."""

    def __init__(self, backend: EmbeddedBackend, request: GraphBegin) -> None:
        self._lock = threading.Lock()
        self._cursor: EmbeddedCursor | None = None
        self._is_interrupted = False
        self._transaction = backend.transaction(read_only=request.read_only, timeout=request.timeout, check=self._check)

    def _check(self) -> None:
        if self._is_interrupted:
            raise Cancelled

    def do(self, request: Any) -> Any:
        """Carry out a request after the previous one. Raises Ladybug's errors."""
        with self._lock:
            return self._done(request)

    def _done(self, request: Any) -> Any:
        match request:
            case GraphBegin():
                self._transaction.start()
                return None
            case GraphRun():
                self._let_go()
                params = msgspec.json.decode(request.params)
                cursor = self._cursor = self._transaction.run(request.cypher, params, counts=request.counts)
                columns, types, counters = cursor.columns, cursor.types, cursor.counters
                return GraphRows(*self._rows(request.size), columns, types, counters)
            case GraphFetch():
                return GraphRows(*self._rows(request.size))
            case GraphExplain():
                self._let_go()
                return self._transaction.explain(request.cypher, msgspec.json.decode(request.params))
            case GraphCommit():
                self._let_go()
                self._transaction.commit()
                return None
            case _:
                self._let_go()
                self._transaction.end()
                return None

    def _rows(self, size: int) -> tuple[list[list[Any]], bool]:
        cursor = self._cursor
        rows: list[list[Any]] = [] if cursor is None else cursor.fetch(size)
        is_last = len(rows) < size
        if is_last:
            self._let_go()
        return rows, is_last

    def _let_go(self) -> None:
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            cursor.close()

    def interrupt(self) -> None:
        """Make the running request fail soon; return when it has ended."""
        self._is_interrupted = True
        while True:
            self._transaction.cancel()
            if self._lock.acquire(timeout=INTERRUPT_AGAIN):
                self._lock.release()
                return


class LadybugWorker:
    """Serves requests, with one thread for each transaction."""

    def __init__(self, backend: EmbeddedBackend, answers: AnswerStream) -> None:
        self._backend = backend
        self._answers = answers
        self._sessions: dict[int, LadybugSession] = {}
        self._at_work: dict[int, LadybugSession] = {}
        """Sessions by the number of the call that they do something for."""
        self._threads = Workers()

    def serve(self, requests: BinaryIO) -> None:
        """Answer requests until the other end closes; then roll back open transactions and close the database."""
        decoder = msgspec.msgpack.Decoder(Message)
        while (received := receive(requests)) is not None:
            call, data = received
            message = decoder.decode(data)
            if isinstance(message, GraphOpen):
                self._threads.run(lambda call=call, message=message: self._do(call, message, None))
                continue
            if isinstance(message, Cancel):
                at_work = self._at_work.get(call)
                if at_work is not None:
                    self._threads.run(at_work.interrupt)
                continue
            session = self._sessions.get(message.transaction)
            if isinstance(message, GraphBegin):
                session = self._sessions[message.transaction] = LadybugSession(self._backend, message)
            elif isinstance(message, GraphEnd):
                self._sessions.pop(message.transaction, None)
            if session is not None:
                self._at_work[call] = session
            self._threads.run(lambda call=call, message=message, session=session: self._do(call, message, session))
        with ending_within(LEAVING_TIMEOUT):
            for session in list(self._sessions.values()):
                self._threads.run(session.interrupt)
            self._backend.close()

    def _do(self, call: int, message: Any, session: LadybugSession | None) -> None:
        answer = answer_of(lambda: self._result(message, session), "The graph database")
        self._at_work.pop(call, None)
        self._answers.send(call, answer)

    def _result(self, message: Any, session: LadybugSession | None) -> Any:
        if isinstance(message, GraphOpen):
            return self._backend.open()
        if session is None:
            raise InternalError("The transaction is not known here")
        try:
            return session.do(message)
        except EmbeddedError as error:
            raise ToolError(str(error), code=LADYBUG_FAILED) from None


def main() -> None:
    """Serve one database until the server is gone."""
    requests, answers, settings = begin(EmbeddedSettings)
    LadybugWorker(EmbeddedBackend(settings), answers).serve(requests)


if __name__ == "__main__":
    main()
