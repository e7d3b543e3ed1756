"""`rrext trace`: the calls of a trace file, each drawn as a tree of what happened inside of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from rrext.cli.console.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from rrext.cli.console.lines import duration, terminal_width
from rrext.cli.console.output import Results
from rrext.cli.options import Command
from rrext.columns import cut, one_line, printable
from rrext.engine.events.records import AgentStep, CallEnded, CallStarted
from rrext.engine.views.spans import Span, Spans, TokenUsage, usage_of

DESCRIPTION = "Draw the calls of a trace file as a tree: nested calls, times, tokens, costs and failures."
EXAMPLE = """examples:
  rrext tool pipeline.pipe run_agent query='How many?' --trace calls.jsonl
  rrext trace calls.jsonl

--trace FILE of `rrext tool`, `chat`, `serve` and `mcp` writes the file, and --record FILE of `serve`. Below an agent stand its
turns, below a turn the request to its model and the tools that the answer called. Tokens are those sent → received; ~ marks
numbers that the model did not tell. Times are those of UTC.

Exit code 0: done. 1: lines of the file are missing. 2: no trace file.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("file", metavar="FILE", help="a file that --trace or --record wrote")


def run(args: argparse.Namespace) -> int:
    """Draw the file; returns the exit code."""
    from rrext.server.journal.trace_file import RecordedLine, TraceGap, TraceHead, TraceInvalid, read_trace

    with Results() as results:
        drawing = Drawing(results, terminal_width() if results.is_terminal else None)
        try:
            for line in read_trace(args.file):
                match line:
                    case TraceHead():
                        drawing.end_run()
                    case TraceGap():
                        drawing.note_gap(line.count, is_cut=line.is_cut)
                    case RecordedLine():
                        pass  # `rrext replay` plays it
                    case event:
                        drawing.spans.take(event)
        except TraceInvalid as error:
            print(f"rrext: {printable(str(error))}", file=sys.stderr)
            return EXIT_USAGE
        except OSError as error:
            if error.filename is None:
                raise
            print(f"rrext: {printable(args.file)}: {error.strerror}", file=sys.stderr)
            return EXIT_USAGE
        drawing.end_run()
        drawing.summarize()
        return EXIT_FAILED if drawing.missing else EXIT_DONE


TRACE = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


class Drawing:
    """Draws each call when it has ended. `missing` counts lines that are not in the file."""

    def __init__(self, results: Results, width: int | None) -> None:
        self._results = results
        self._width = width
        self._open: dict[int, Span] = {}
        self._calls = self._failed = 0
        self._usage = TokenUsage()
        self.missing = 0
        self.spans = self._new_spans()

    def _new_spans(self) -> Spans:
        return Spans(self._begun, self._ended, nested=True)

    def _begun(self, span: Span) -> None:
        if span.parent is None:
            self._open[span.began.call] = span

    def _ended(self, span: Span) -> None:
        if span.kind == "chat":
            self._usage.join(span.usage)
        if span.kind == "tool":
            self._calls += 1
            self._failed += span.failure is not None
        if span.parent is None:
            del self._open[span.began.call]
            self._draw(span)

    def end_run(self) -> None:
        """Draw what has not ended; the numbers of calls begin anew."""
        for span in self._open.values():
            self._draw(span)
        self._open.clear()
        self.spans = self._new_spans()

    def note_gap(self, count: int, *, is_cut: bool) -> None:
        """Tell that lines are missing here."""
        self.missing += count
        self._write("… a line is cut off" if is_cut else f"… {count} events are missing: the file took no more")

    def summarize(self) -> None:
        """Tell the sums on stderr."""
        failed = f", {self._failed} failed" if self._failed else ""
        used = f"; {tokens}" if (tokens := _tokens(self._usage)) else ""
        print(f"{self._calls} call{'' if self._calls == 1 else 's'} of tools{failed}{used}", file=sys.stderr)

    def _draw(self, span: Span) -> None:
        if span.kind == "call" and not span.children and span.failure is None:
            return  # it listed tools, or opened a pipe
        when = datetime.fromtimestamp(span.began.time, UTC).isoformat(sep=" ", timespec="milliseconds")[:23]
        for line in span_lines(span):
            self._write(f"{when}  {line}" if when else line)
            when = ""

    def _write(self, line: str) -> None:
        line = one_line(line)
        self._results.write_line((line if self._width is None else cut(line, self._width)).encode("utf-8", "replace"))


def span_lines(span: Span, lead: str = "") -> Iterator[str]:
    """The lines of a span, and of those inside of it."""
    yield _label(span)
    last = len(span.children) - 1
    for text in _contents(span):
        yield f"{lead}{'│' if span.children else ' '}  {text}"
    for place, child in enumerate(span.children):
        branch, below = ("└─ ", "   ") if place == last else ("├─ ", "│  ")
        first, *rest = span_lines(child, "")
        yield f"{lead}{branch}{first}"
        for line in rest:
            yield f"{lead}{below}{line}"


def _label(span: Span) -> str:
    began = span.began
    node = getattr(began, "node_id", None) if isinstance(began, CallStarted) else None
    parts = [f"agent {span.name}" if span.kind == "agent" else f"{node}.{span.name}" if node else span.name]
    parts.append("not ended" if span.seconds is None else shown_time(span.seconds))
    if span.kind == "agent" or (span.parent is None and span.children):
        usage = usage_of(span)
        if usage.turns:
            parts += [f"{usage.turns} turn{'s' if usage.turns > 1 else ''}", _tokens(usage)]
    elif span.kind == "chat":
        parts += [_tokens(span.usage), getattr(span.ended, "finish", None) or ""]
    if span.failure is not None and span.kind != "turn":
        code, message = span.failure
        parts.append(f"{code}: {message}" if message else code)
    return "  ".join(filter(None, parts))


def _tokens(usage: TokenUsage) -> str:
    """`400 → 40 tokens  $0.0012`."""
    if not (usage.input_tokens or usage.output_tokens):
        return ""
    mark = "~" if usage.is_estimated else ""
    money = f"  ${usage.cost:.2g}" if 0 < usage.cost < 0.01 else f"  ${usage.cost:.2f}" if usage.cost else ""
    return f"{mark}{usage.input_tokens:,} → {mark}{usage.output_tokens:,} tokens{money}"


def _contents(span: Span) -> Iterator[str]:
    """What went in and came out, if the file has it."""
    given: Any = getattr(span.began, "arguments", msgspec.UNSET) if span.kind in ("tool", "call") else msgspec.UNSET
    if isinstance(span.began, AgentStep) and span.kind == "tool":
        given = span.began.data
    if given is not msgspec.UNSET:
        yield f"in  {msgspec.json.encode(given).decode()}"
    if span.kind == "chat" and span.text:
        yield f"out {''.join(span.text)}"
    result: Any = msgspec.UNSET
    if isinstance(span.ended, CallEnded) and span.kind in ("tool", "call"):
        result = span.ended.result
    elif isinstance(span.ended, AgentStep) and span.kind == "tool":
        result = span.ended.data
    if result is not msgspec.UNSET:
        yield f"out {msgspec.json.encode(result).decode()}"


def shown_time(seconds: float) -> str:
    """A time as people compare it: `0.4 ms`, `12 ms`, `1.24 s`, `3 min`."""
    if seconds < 0.0995:
        return f"{seconds * 1e3:.2g} ms" if seconds < 0.00995 else f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 99.5 else duration(seconds)
