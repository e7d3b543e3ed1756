"""The command line, as a process: `start` runs it."""

from __future__ import annotations

import os
import sys

PARENT = os.getppid()
"""The parent of this process at its start: it may die before a server watches it."""


def start() -> int:
    """Run the command line as the program of this process; returns the exit code.

    Until a command watches signals, and after that, Ctrl-C ends the process without a word: nothing is open that would need
    more, and an exception could come out of any import, or of the end of Python.
    """
    try:
        import gc
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as under nohup
            signal.signal(signal.SIGINT, lambda number, frame, leave=os._exit: leave(128 + number))
        gc.disable()  # nothing that is imported is garbage
        _import_msgspec()
        from rrext.cli.main import main

        gc.enable()
    except KeyboardInterrupt:
        os._exit(130)
    try:
        return main()
    finally:
        gc.freeze()  # Python would look three times for garbage, in a process that ends


def _import_msgspec() -> None:
    """Import msgspec with the module `typing` alone, before there is a second thread.

    msgspec asks `typing_extensions` first for three names, of which `typing` has what it uses from Python 3.11 on: it wants the
    hints with all that `Annotated` adds. That module, with `inspect`, takes a sixth of the time of a short command, and most
    commands need neither.
    """
    if "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # the import system calls it missing then
    try:
        import msgspec as msgspec
    finally:
        del sys.modules["typing_extensions"]
