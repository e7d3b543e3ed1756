"""The process of an embedded graph: `python -m rrext.nodes.graph.ladybug.worker`.

Requests come through the standard input and answers leave through the standard output, as `calls` says, after the
`EmbeddedSettings`. When the server closes its end, or is killed, open transactions are undone, the database
is closed, and this process ends.
"""

from __future__ import annotations

import contextlib
import os
import threading
import traceback
from typing import Any, BinaryIO

import msgspec

from rrext.errors import Cancelled, InternalError, RrextError
from rrext.nodes.child.calls import Answer, Done, Failed, frame, receive, receive_settings
from rrext.nodes.child.launch import leave_signals_to_server, private_streams
from rrext.nodes.child.process import Cancel
from rrext.nodes.graph.ladybug.backend import EmbeddedBackend, EmbeddedCursor
from rrext.nodes.graph.ladybug.calls import (
    ENGINE_FAILED,
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
from rrext.nodes.graph.limits import INTERRUPT_AGAIN, LEAVING_TIMEOUT
from rrext.threads import Workers


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
        """Carry out a request after the previous one. Raises the engine's errors."""
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

    def __init__(self, backend: EmbeddedBackend, answers: BinaryIO) -> None:
        self._backend = backend
        self._answers = answers
        self._sending = threading.Lock()
        self._seats: dict[int, LadybugSession] = {}
        self._at_work: dict[int, LadybugSession] = {}
        """Seats by the number of the call that they do something for."""
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
            seat = self._seats.get(message.transaction)
            if isinstance(message, GraphBegin):
                seat = self._seats[message.transaction] = LadybugSession(self._backend, message)
            elif isinstance(message, GraphEnd):
                self._seats.pop(message.transaction, None)
            if seat is not None:
                self._at_work[call] = seat
            self._threads.run(lambda call=call, message=message, seat=seat: self._do(call, message, seat))
        # A statement that nothing stops must not keep a process without a server alive.
        leaving = threading.Timer(LEAVING_TIMEOUT, os._exit, (1,))
        leaving.daemon = True
        leaving.start()
        for seat in list(self._seats.values()):
            self._threads.run(seat.interrupt)
        self._backend.close()
        leaving.cancel()

    def _do(self, call: int, message: Any, seat: LadybugSession | None) -> None:
        data = frame(call, self._answer(message, seat))
        self._at_work.pop(call, None)
        with self._sending, contextlib.suppress(OSError):  # the server is gone: `serve` notices that too
            self._answers.write(data)
            self._answers.flush()

    def _answer(self, message: Any, seat: LadybugSession | None) -> Answer:
        try:
            if isinstance(message, GraphOpen):
                self._backend.open()
                return Done(b"null")
            if seat is None:
                raise InternalError("The transaction is not known here")
            return Done(msgspec.json.encode(seat.do(message)))
        except RrextError as error:
            return Failed.of(error)
        except EmbeddedError as error:
            return Failed(ENGINE_FAILED, str(error))
        except BaseException:
            traceback.print_exc()
            return Failed.of(InternalError("The graph database failed; the server's log has it"))


def main() -> None:
    """Serve one database until the server is gone."""
    leave_signals_to_server()
    requests, answers = private_streams()
    settings = receive_settings(requests, EmbeddedSettings)
    LadybugWorker(EmbeddedBackend(settings), answers).serve(requests)


if __name__ == "__main__":
    main()
