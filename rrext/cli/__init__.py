"""The command line, as a process: `start` runs it."""

from __future__ import annotations

import os

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
        from rrext.cli.main import main

        gc.enable()
    except KeyboardInterrupt:
        os._exit(130)
    try:
        return main()
    finally:
        gc.freeze()  # Python would look three times for garbage, in a process that ends
