"""`rrext check`: all problems of pipeline files, with their positions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from rrext.cli.limits import MAX_LINE_WIDTH
from rrext.cli.options import add_pipeline_options, catalog_from, environment_from
from rrext.columns import columns, one_line
from rrext.errors import RrextError
from rrext.limits import DEFAULTS

if TYPE_CHECKING:
    from rrext.pipefile.catalog.catalog import Catalog
    from rrext.pipefile.environment import Environment
    from rrext.pipefile.loaded import LoadedPipeline
    from rrext.pipefile.text.problems import Span
    from rrext.pipefile.text.source import SourceMap

EXAMPLE = """example:
  rrext check pipeline.pipe
  rrext check --json *.pipe | jq -r '.problems[].message'

Exit code 0: all files can be run. 2: at least one cannot, or cannot be read. Warnings alone do not count.
"""
EXIT_INVALID = 2


def add_parser(commands: Any) -> None:
    """Add the command to the parser of `rrext`."""
    parser = commands.add_parser(
        "check",
        help="list every problem of pipeline files",
        description="Read pipeline files and list everything that is wrong with them. No node is set up and nothing runs.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", metavar="FILE.pipe", help="a pipeline; - reads standard input")
    parser.add_argument("--json", action="store_true", help="one line of JSON per file: {file, valid, problems}")
    add_pipeline_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Check the files; 2 if one of them cannot be run."""
    try:
        environment, catalog = environment_from(args), catalog_from(args)
    except RrextError as error:
        print(f"rrext: {error.message}", file=sys.stderr)
        return EXIT_INVALID
    code = 0
    for path in args.files:
        text = read_file(path)
        loaded = None if text is None else _load(text, catalog, environment)
        if loaded is None:
            code = EXIT_INVALID
            continue
        if loaded.spec is None:
            code = EXIT_INVALID
        if args.json:
            _print_json(path, loaded)
        else:
            print_found(path, loaded, sys.stdout)
            print(f"{path}: {summary(loaded)}", file=sys.stderr)
    return code


def print_problems(
    path: str, text: str | bytes, catalog: Catalog, environment: Environment, file: TextIO | None = None
) -> None:
    """Write the problems that keep a pipeline from running, and all others, to stderr or `file`."""
    print_found(path, _load(text, catalog, environment, strict_env=True), file or sys.stderr)


def read_file(path: str) -> bytes | None:
    """The content of a file, or of standard input for `-`; None after an error message if it cannot be read."""
    try:
        if path == "-":
            return sys.stdin.buffer.read(DEFAULTS.max_pipeline + 1)
        with open(path, "rb") as file:
            return file.read(DEFAULTS.max_pipeline + 1)
    except OSError as error:
        print(f"rrext: {path}: {error.strerror}", file=sys.stderr)
        return None


def _load(text: str | bytes, catalog: Catalog, environment: Environment, *, strict_env: bool = False) -> LoadedPipeline:
    from rrext.pipefile.loading import check_pipeline, load_pipeline

    if strict_env:
        return load_pipeline(text, catalog, environment, positions=True)
    return check_pipeline(text, catalog, environment, positions=True)


def _print_json(path: str, loaded: LoadedPipeline) -> None:
    from rrext.pipefile.text.located import located

    problems = [located(problem, loaded.source_map) for problem in loaded.problems]
    line = msgspec.json.encode({"file": path, "valid": loaded.spec is not None, "problems": problems})
    print(line.decode())


def print_found(path: str, loaded: LoadedPipeline, file: TextIO) -> None:
    """Write every problem with its position, its line of the text, and related positions."""
    from rrext.pipefile.text.located import related_places

    where = loaded.source_map
    for problem in loaded.problems:
        text = f"{problem.severity}: {one_line(problem.message)} [{problem.code}]"
        if where is None:
            print(f"{path}: {text}", file=file)
            continue
        span = where.span_of(problem)
        line, column = where.position(span[0])
        print(f"{path}:{line}:{column}: {text}", file=file)
        for shown in _excerpt(where, span):
            print(shown, file=file)
        for other, other_span in related_places(problem, where):
            other_line, other_column = where.position(other_span[0])
            print(f"    {path}:{other_line}:{other_column}: {one_line(other['message'])}", file=file)


def _excerpt(where: SourceMap, span: Span) -> Iterator[str]:
    """The line of a problem, and a line that marks the span in it."""
    number, column = where.position(span[0])
    line = where.line(number)
    if not line.strip():
        return
    start = column - 1
    end = min(start + max(span[1] - span[0], 1), max(len(line), start + 1))
    cut = 0 if len(line) <= MAX_LINE_WIDTH else max(0, start - MAX_LINE_WIDTH // 2)
    shown, end = line[cut : cut + MAX_LINE_WIDTH], min(end, cut + MAX_LINE_WIDTH)
    before = columns(line[cut:start])
    mark = "^" * max(columns(line[start:end]), 1)
    gutter = f"{number:>5} | "
    yield gutter + one_line(shown) + ("…" if cut + MAX_LINE_WIDTH < len(line) else "")
    yield " " * (len(gutter) - 2) + "| " + " " * before + mark


def summary(loaded: LoadedPipeline) -> str:
    """The number of problems and components, in words."""
    counts = [(len(loaded.errors), "error"), (len(loaded.warnings), "warning")]
    found = ", ".join(f"{count} {name}{'s' if count > 1 else ''}" for count, name in counts if count)
    if loaded.spec is None:
        return found or "cannot be run"
    parts = len(loaded.spec.components)
    return f"{found or 'ok'}, {parts} component{'s' if parts != 1 else ''}"
