"""The process of a DuckDB database: `python -m rrext.nodes.sql.duckdb.worker DOOR`.

DOOR is the descriptor of a socket through which the sockets of connections come, each with its number; `messages` has the
requests on them. The standard input brings the `DuckdbSettings`, and then interrupts. When the server closes it, or is
killed, running statements are interrupted, open transactions are rolled back, the database is closed, and this process
ends.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import traceback
from contextlib import suppress
from typing import BinaryIO, Final

import msgspec

from rrext.errors import InternalError, RrextError
from rrext.nodes.child.worker import begin, ending_within, receive
from rrext.nodes.sql.duckdb.messages import (
    Answer,
    DuckdbSettings,
    Interrupt,
    Refused,
    Request,
    SqlCommit,
    SqlFailed,
    is_committing,
    message_frame,
)
from rrext.nodes.sql.duckdb.session import DuckdbInstance, DuckdbSession, failure_of, limit_memory

LEAVING_TIMEOUT: Final = 5.0
"""Seconds that rollback and close may take after the server is gone."""

NOBODYS: Final = 0
"""The number of a request that cannot be interrupted."""


class DuckdbWorker:
    """Serves connections, each on a thread of its own, until the server is gone."""

    def __init__(self, instance: DuckdbInstance, door: socket.socket) -> None:
        self._instance = instance
        self._door = door
        self._sessions: dict[int, DuckdbSession] = {}
        self._threads: dict[int, threading.Thread] = {}

    def serve(self, control: BinaryIO) -> None:
        """Take connections and interrupt them until the other end closes; then roll back open transactions and close the
        database."""
        threading.Thread(target=self._take, name="rrext-duckdb-door", daemon=True).start()
        decoder = msgspec.msgpack.Decoder(Interrupt)
        while (received := receive(control)) is not None:
            message = decoder.decode(received[1])
            session = self._sessions.get(message.connection)
            if session is not None:
                session.interrupt(message.request)
        with ending_within(LEAVING_TIMEOUT):
            for session in list(self._sessions.values()):
                session.interrupt()
            for thread in list(self._threads.values()):
                thread.join()
            self._instance.close()

    def _take(self) -> None:
        """Accept connections."""
        while True:
            data, descriptors, _, _ = socket.recv_fds(self._door, 8, 1)
            if not descriptors:
                return
            number = int.from_bytes(data, "little")
            link = socket.socket(fileno=descriptors[0])
            thread = threading.Thread(target=self._attend, args=(number, link), name=f"rrext-duckdb-{number}", daemon=True)
            self._threads[number] = thread
            try:
                thread.start()
            except RuntimeError:  # the system has no thread left: the server sees that the connection ends
                link.close()

    def _attend(self, number: int, link: socket.socket) -> None:
        """Serve one connection until the server closes it."""
        session = self._sessions[number] = DuckdbSession(self._instance)
        decoder = msgspec.json.Decoder(Request)
        with suppress(OSError), link, link.makefile("rb") as requests:  # the server may be gone before its answer
            while (received := receive(requests)) is not None:
                call, data = received
                request = decoder.decode(data)
                answer = _answered(link, call, _answer(session, call, request))
                if answer is not None and is_committing(request, answer):
                    _answered(link, call, _answer(session, NOBODYS, SqlCommit()))
                session.rest()
        del self._sessions[number], self._threads[number]
        with suppress(Exception):
            session.close()


def _answer(session: DuckdbSession, number: int, request: Request) -> Answer | None:
    try:
        return session.do(number, request)
    except RrextError as error:
        return _failed(error)
    except BaseException as error:
        failure = failure_of(error)
        if failure is not None:
            return Refused(failure.kind, failure.message, failure.hint)
        traceback.print_exc()
        return _failed(InternalError("DuckDB failed; the server's log has it"))


def _answered(link: socket.socket, number: int, answer: Answer | None) -> Answer | None:
    """Send an answer and return it. An answer that cannot be encoded is sent as a failure."""
    if answer is None:
        return None
    try:
        data = message_frame(number, answer)
    except UnicodeEncodeError:
        answer = Refused("statement", "a text has a character that is none (a lone surrogate)")
        data = message_frame(number, answer)
    except MemoryError:
        answer = Refused("statement", "out of memory: the rows are too large")
        data = message_frame(number, answer)
    link.sendall(data)
    if isinstance(answer, Refused) and answer.kind == "lost":
        os._exit(1)  # DuckDB refuses everything until it is opened anew
    return answer


def _failed(error: RrextError) -> SqlFailed:
    return SqlFailed(error.code, error.message, error.hint, dict(error.data))


def main() -> None:
    """Serve one database until the server is gone."""
    control, _, settings = begin(DuckdbSettings)
    DuckdbWorker(DuckdbInstance(settings, limit_memory), socket.socket(fileno=int(sys.argv[1]))).serve(control)
    os._exit(0)  # an ordinary exit would print the driver's complaints


if __name__ == "__main__":
    main()
