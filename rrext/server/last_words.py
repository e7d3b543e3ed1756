"""The end of a serving process: its last words, and its exit whatever still runs."""

from __future__ import annotations

import atexit
import faulthandler
import os
import sys
import threading
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, NoReturn

from rrext.limits import EXIT_HANDLERS_TIMEOUT, STDERR_FLUSH_TIMEOUT
from rrext.server.watchdog import TRACE, Watchdog

if TYPE_CHECKING:
    from rrext.transports.lossy import LossyWriter


def leave(code: int, writers: list[LossyWriter], watchdog: Watchdog | None = None) -> NoReturn:
    """End the process, whatever still runs; handlers of `atexit` get a moment."""
    exit_handlers = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
    with suppress(RuntimeError):  # no more threads
        exit_handlers.start()
        exit_handlers.join(EXIT_HANDLERS_TIMEOUT)
    write_last_words(writers, watchdog)
    os._exit(code)


def write_last_words(writers: list[LossyWriter], watchdog: Watchdog | None = None) -> None:
    """End child processes of tools; give the reader of stderr a moment to take the last lines."""
    if "multiprocessing.process" in sys.modules:
        from multiprocessing import active_children

        for child in active_children():  # they hold each other's pipes and would not notice the end
            child.terminate()
    for stream in (sys.stdout, sys.stderr):  # tools may have replaced them
        with suppress(Exception):
            stream.flush()
    until = monotonic() + STDERR_FLUSH_TIMEOUT
    for writer in writers:
        writer.flush(max(0.0, until - monotonic()))
    if watchdog is not None:
        watchdog.dismiss()


def trace_crashes(fd: int) -> None:
    """Log a trace of interpreter crashes: files, lines and functions of each thread, no values."""
    faulthandler.enable(fd)
    if TRACE is not None:
        faulthandler.register(TRACE, fd)
