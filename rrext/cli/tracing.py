"""`--trace`, `--otel` and `--trace-content`: where a command or a server tells what happens in its engine."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from rrext.errors import UsageError

if TYPE_CHECKING:
    from rrext.engine.interface.engine import Engine
    from rrext.server.otel import SpanExport
    from rrext.transports.lossy import LossyWriter

TRACE_FLUSH: Final = 1.0
"""Seconds at the end of a process for what of its traces waits to be written or sent: a program waits for the end, too."""


def add_trace_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--trace", metavar="FILE", help="append each call, and each step of an agent, to a file, which `rrext trace` draws"
    )
    parser.add_argument(
        "--otel", action="store_true", help="export calls and agents as spans of OpenTelemetry, as its variables OTEL_… say"
    )
    parser.add_argument(
        "--trace-content", action="store_true", help="with --trace or --otel: also inputs, results and texts, without secrets"
    )


class Traces:
    """What the options of a command begin, for the time of its engine. Raises `UsageError`."""

    def __init__(self, args: argparse.Namespace, engine: Engine) -> None:
        self.writers: list[LossyWriter] = []
        self._export: SpanExport | None = None
        path, content = getattr(args, "trace", None), getattr(args, "trace_content", False)
        if path is not None:
            self._begin_file(path, engine, content=content)
        if getattr(args, "otel", False):
            from rrext.nodes.base.setup import missing_packages
            from rrext.server.otel import begin_otel

            missing = missing_packages("otel", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
            if missing is not None:
                raise UsageError(f"--otel: {missing}")
            self._export = begin_otel(engine, content=content)
        if content and path is None and self._export is None:
            raise UsageError("--trace-content says what --trace FILE and --otel tell: give one of them")

    def _begin_file(self, path: str, engine: Engine, *, content: bool) -> None:
        from rrext.server.trace_file import TraceFile

        def told(error: OSError) -> None:
            print(f"rrext: --trace {path}: {error.strerror}: its lines are lost until there is room", file=sys.stderr)

        try:
            file = TraceFile(path, content=content, on_failure=told)
        except OSError as error:
            raise UsageError(f"--trace {path}: {error.strerror}") from None
        file.begin(engine)
        self.writers.append(file.writer)

    def end(self) -> None:
        """Write and send what waits; the engine has ended."""
        for writer in self.writers:
            writer.flush(TRACE_FLUSH)
        if self._export is not None and not self._export.end(TRACE_FLUSH):
            print("rrext: --otel: the last spans could not be sent in time", file=sys.stderr)
