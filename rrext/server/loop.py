"""The event loop of a serving process: tools may add signal handlers to it, without taking the server's signals."""

from __future__ import annotations

import asyncio
import errno
import inspect
import logging
import signal
from collections.abc import Callable
from typing import Any, Final

from rrext.limits import ACCEPT_RETRY_INTERVAL

log: Final = logging.getLogger("rrext.server")

EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""The errors of a process or a system that takes no more connections."""


class ServingLoop(asyncio.SelectorEventLoop):
    """A selector loop that leaves Python's wake-up descriptor for signals to the server.

    Only by that descriptor the end watch and the watchdog notice a signal while the loop, or the whole interpreter, is
    stuck. asyncio's own `add_signal_handler` would take it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[int, Any] = {}
        self._quiet_until = 0.0

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Log that clients cannot be accepted as one line and not again soon: asyncio tells it of each that waits."""
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in EXHAUSTED and "socket" in context):
            super().call_exception_handler(context)
        elif self.time() >= self._quiet_until:
            self._quiet_until = self.time() + ACCEPT_RETRY_INTERVAL
            log.warning("a client cannot be taken now: %s", error.strerror)

    def _start_serving(self, protocol_factory: Any, sock: Any, *given: Any, **options: Any) -> None:
        """Accept clients of a socket, unless it was closed: asyncio tries again a while after descriptors ran out."""
        if sock.fileno() >= 0:
            super()._start_serving(protocol_factory, sock, *given, **options)  # type: ignore[misc]

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]
        """Call `callback` on the loop at a signal, in addition to the end of the server where the signal asks for it."""
        if inspect.iscoroutinefunction(callback):
            raise TypeError("coroutines cannot be used with add_signal_handler()")

        def hear(number: int, frame: object) -> None:
            self.call_soon_threadsafe(callback, *args)

        try:
            before = signal.signal(sig, hear)
        except ValueError as error:  # as asyncio does outside of the main thread
            raise RuntimeError(str(error)) from None
        signal.siginterrupt(sig, False)
        self._before.setdefault(sig, before)

    def remove_signal_handler(self, sig: int) -> bool:
        """Restore the handler from before the first `add_signal_handler`; False if none was added."""
        if sig not in self._before:
            return False
        signal.signal(sig, self._before.pop(sig))
        return True
