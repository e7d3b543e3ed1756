"""The server of a worker on another machine, as the worker sees it: one connection with TLS in place of stdin and stdout."""

from __future__ import annotations

import asyncio
import os
import select
import struct
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rrext.server.reader import Reader
from rrext.transports.tls import Identity, TlsEnd, TlsSink, accept, context_of, listen

if TYPE_CHECKING:
    from collections.abc import Callable

    from rrext.server.session import Session
    from rrext.tasks.settings import Listening
    from rrext.threads import Workers
    from rrext.transports.claimed_stdio import ClaimedStdio
    from rrext.wire.framing import Framer
    from rrext.wire.messages import ServerEvent

PORT: Final = struct.Struct("!H")
"""What a worker writes to its stdout when it listens: its port."""


def meet_server(listening: Listening, stdio: ClaimedStdio) -> TlsEnd | None:
    """Wait for the server, whose connection takes the place of `stdio`; None if the host that started this process is gone.

    The pipes of the host stay open: the watchdog sees its end by them.
    """
    listener = listen(listening.address)
    os.write(stdio.write_fd, PORT.pack(listener.getsockname()[1]))
    context = context_of(Identity(listening.certificate, listening.key), listening.client)
    tls = accept(listener, context, listening.client, lifeline=stdio.read_fd)
    if tls is not None:
        stdio.read_fd = stdio.write_fd = tls.fileno
    return tls


def ends_of(tls: TlsEnd) -> dict[str, Any]:
    """What reads and writes a connection for a `ServingProcess`."""
    return {"reader": partial(TlsReader, tls), "sink": partial(TlsSink, tls)}


class TlsReader(Reader):
    """The reader of a connection with TLS, which may hold bytes that no look at the descriptor tells of."""

    __slots__ = ("_poll", "_tls")

    def __init__(
        self,
        tls: TlsEnd,
        session: Session,
        framer: Framer[ServerEvent],
        fd: int,
        loop: asyncio.AbstractEventLoop,
        workers: Workers,
        on_end: Callable[[], None],
    ) -> None:
        super().__init__(session, framer, fd, loop, workers, on_end)
        self._tls = tls
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    def start(self) -> None:
        super().start()
        self._look()

    @property
    def has_more(self) -> bool:
        return super().has_more or (not self.ended and self._tls.has_pending)

    def _receive(self) -> int:
        if self._reading is not None and not self._tls.has_pending:  # a thread reads, and may wait
            self._poll.poll()
        return self._tls.receive(self._framer.get_buffer())

    def _read(self) -> list[Any] | None:
        events = super()._read()
        while events is not None and self._tls.has_pending and (more := super()._read()) is not None:
            events += more
        return events

    def _resume(self, reading: Any) -> None:
        super()._resume(reading)
        self._look()

    def _look(self) -> None:
        if self._tls.has_pending:
            self._loop.call_soon(self._readable)
