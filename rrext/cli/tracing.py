"""`--trace`, `--record`, `--otel` and `--trace-content`: where a command or a server tells what happens in its engine."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from rrext.columns import printable
from rrext.errors import UsageError
from rrext.limits import DEFAULTS

if TYPE_CHECKING:
    from rrext.server.journal.otel import SpanExport
    from rrext.server.journal.trace_file import RecordingHead, TraceFile
    from rrext.server.recording import Recorder

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


def add_record_option(parser: argparse.ArgumentParser) -> None:
    """Add the option of a server."""
    parser.add_argument(
        "--record",
        metavar="FILE",
        help="as --trace, with the requests and answers of all clients; `rrext replay` plays each run that the file has",
    )


class Traces:
    """What the options of a command begin, for the time of its engine. Raises `UsageError`.

    `recorder` writes the messages of clients, if that was asked for.
    """

    def __init__(self, args: argparse.Namespace, engine: Any) -> None:
        self.files: list[TraceFile] = []
        self.recorder: Recorder | None = None
        self._export: SpanExport | None = None
        path, content, record = (
            getattr(args, "trace", None),
            getattr(args, "trace_content", False),
            getattr(args, "record", None),
        )
        if path is not None and record is not None and os.path.realpath(path) == os.path.realpath(record):
            raise UsageError("--record FILE has what --trace writes, too: give each a file of its own, or --record alone")
        if path is not None:
            self._begin_file("--trace", path, engine, content=content)
        if record is not None:
            self.recorder = self._begin_recording(args, record, engine, content=content)
        if getattr(args, "otel", False):
            from rrext.nodes.base.setup import missing_packages
            from rrext.server.journal.otel import begin_otel

            missing = missing_packages("otel", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
            if missing is not None:
                raise UsageError(f"--otel: {missing}")
            self._export = begin_otel(engine, content=content)
        if content and path is None and record is None and self._export is None:
            raise UsageError("--trace-content says what --trace FILE, --record FILE and --otel tell: give one of them")

    def _begin_recording(self, args: argparse.Namespace, path: str, engine: Any, *, content: bool) -> Recorder:
        from rrext.secrets.redaction import Redactor
        from rrext.server.journal.trace_file import RecordingHead
        from rrext.server.recording import Recorder

        face = "ws" if args.ws is not None else "unix" if args.listen is not None else None
        head = RecordingHead(
            faces=[*(["stdio"] if face is None or args.stdio else []), *([face] if face is not None else [])],
            pipelines=list(args.files),
            isolation=args.isolation,
            trusts_clients=args.trust_clients,
            keeps_files=args.store is not None,
            partial=args.partial,
            tools=args.tools,
        )
        for name in ("threads", "pipe_idle", "max_frame"):
            if (value := getattr(args, name)) != getattr(DEFAULTS, name):
                setattr(head, name, value)
        file = self._begin_file("--record", path, engine, content=content, recording=head)
        environment = engine.environment
        values = {**args.connection_variables, **{name: environment.get(name) for name in environment.names}}
        known = Redactor()
        for name, value in values.items():
            known.learn(name, value, always=True)
        engine.host.connections.known_to(known)
        return Recorder(file, environment.redactor, known, values.get, engine.host.limits)

    def _begin_file(
        self, option: str, path: str, engine: Any, *, content: bool, recording: RecordingHead | None = None
    ) -> TraceFile:
        from rrext.server.journal.trace_file import TraceFile

        def told(error: OSError) -> None:
            print(f"rrext: {option} {path}: {error.strerror}: its lines are lost until there is room", file=sys.stderr)

        if recording is not None and _has_lines(path):
            has = f"rrext: {option} {printable(path)}: the file has a run already, and this one is added"
            print(
                f"{has}; `rrext replay` plays each to a server of its own. For this one alone, name a new file", file=sys.stderr
            )
        try:
            file = TraceFile(path, content=content, on_failure=told, recording=recording)
        except OSError as error:
            raise UsageError(f"{option} {path}: {error.strerror}") from None
        file.begin(engine)
        self.files.append(file)
        return file

    def end(self) -> None:
        """Write and send what waits; the engine has ended."""
        for file in self.files:
            file.end(TRACE_FLUSH)
        if self._export is not None and not self._export.end(TRACE_FLUSH):
            print("rrext: --otel: the last spans could not be sent in time", file=sys.stderr)


def _has_lines(path: str) -> bool:
    try:
        return os.path.getsize(path) > 0
    except OSError:  # whether it can be opened is told elsewhere
        return False
