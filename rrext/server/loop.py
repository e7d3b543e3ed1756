"""The event loop of a serving process: tools may add signal handlers to it, without taking the server's signals."""

from __future__ import annotations

import asyncio
import inspect
import signal
from collections.abc import Callable
from typing import Any


class ServingLoop(asyncio.SelectorEventLoop):
    """A selector loop that leaves Python's wake-up descriptor for signals to the server.

    Only by that descriptor the end watch and the watchdog notice a signal while the loop, or the whole interpreter, is
    stuck. asyncio's own `add_signal_handler` would take it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[int, Any] = {}

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]
        """Call `callback` on the loop at a signal, in addition to the end of the server where the signal asks for it."""
        if inspect.iscoroutinefunction(callback):
            raise TypeError("coroutines cannot be used with add_signal_handler()")

        def on_signal(number: int, frame: object) -> None:
            self.call_soon_threadsafe(callback, *args)

        try:
            before = signal.signal(sig, on_signal)
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
