"""`--trace` and `--trace-content`: where a command or a server tells what happens in its engine."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from rrext.errors import UsageError

if TYPE_CHECKING:
    from rrext.engine.interface.engine import Engine
    from rrext.transports.lossy import LossyWriter

TRACE_FLUSH = 1.0
"""Seconds at the end of a command for what a trace still waits to write."""


def add_trace_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--trace", metavar="FILE", help="append each call, and each step of an agent, to a file, which `rrext trace` draws"
    )
    parser.add_argument(
        "--trace-content", action="store_true", help="with --trace: also inputs, results and texts, without secrets"
    )


def begin_trace(args: argparse.Namespace, engine: Engine) -> list[LossyWriter]:
    """Begin what the options say, for the time of the engine. Returns what is to be flushed at the end. Raises `UsageError`."""
    path: str | None = getattr(args, "trace", None)
    content: bool = getattr(args, "trace_content", False)
    if path is None:
        if content:
            raise UsageError("--trace-content says what --trace FILE writes: name the file")
        return []
    from rrext.server.trace_file import TraceFile

    def told(error: OSError) -> None:
        print(f"rrext: --trace {path}: {error.strerror}: its lines are lost until there is room", file=sys.stderr)

    try:
        file = TraceFile(path, content=content, on_failure=told)
    except OSError as error:
        raise UsageError(f"--trace {path}: {error.strerror}") from None
    file.begin(engine)
    return [file.writer]
