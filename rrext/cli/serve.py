"""`rrext serve`: the process that clients spawn."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
from typing import Any

import msgspec

from rrext.cli.options import add_pipeline_options, catalog_from, environment_from, root_from
from rrext.errors import RrextError
from rrext.limits import DEFAULTS, Limits

__all__ = ["add_parser", "run"]

EXAMPLE = """example:
  rrext serve pipeline.pipe --log-file rrext.log
"""
LEVELS = ("debug", "info", "warning", "error")
EXIT_INVALID = 2
FLUSH = 0.5  # seconds that a reader of stderr gets to make room for the last lines


def add_parser(commands: Any) -> None:
    """Add the command to the parser of `rrext`."""
    parser = commands.add_parser(
        "serve",
        help="answer framed requests on stdin until it ends",
        description="Load pipelines and answer Content-Length framed requests on stdin, DAP-style or JSON-RPC 2.0.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", metavar="FILE.pipe", help="a pipeline to load; its token is the file's stem")
    add_pipeline_options(parser)
    parser.add_argument(
        "--threads", type=_count, default=DEFAULTS.threads, metavar="N", help="pipes per pipeline (%(default)s)"
    )
    parser.add_argument(
        "--pipe-idle",
        type=_seconds,
        default=DEFAULTS.pipe_idle,
        metavar="S",
        help="idle seconds until a pipe is reclaimed (%(default)g)",
    )
    parser.add_argument(
        "--max-frame", type=_count, default=DEFAULTS.max_frame, metavar="BYTES", help="largest request body (%(default)s)"
    )
    parser.add_argument(
        "--drain", type=_seconds, default=DEFAULTS.drain, metavar="S", help="time for running calls at the end (%(default)g)"
    )
    parser.add_argument("--log-file", metavar="FILE", help="log there instead of stderr, a line per call included")
    parser.add_argument("--log-level", choices=LEVELS, help="what to log (info with --log-file, else warning)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve; the exit code. Does not return the normal way: threads that are stuck must not be waited for."""
    gc.disable()  # while loading, next to nothing is garbage, and looking for it takes a tenth of the start
    stems = [_stem(path) for path in args.files]
    for stem in stems:
        if stems.count(stem) > 1:
            print(f"rrext: two files have the token (stem) {stem!r}: rename one", file=sys.stderr)
            return EXIT_INVALID
    limits = msgspec.structs.replace(
        DEFAULTS, threads=args.threads, pipe_idle=args.pipe_idle, max_frame=args.max_frame, drain=args.drain
    )
    from rrext.transports.claim import claim_stdio

    stdio = claim_stdio()  # before any node's code is imported: what that prints must not reach the client
    try:
        code = _serve_claimed(args, limits, stdio)
    except OSError as error:
        print(f"rrext: {error.filename or 'log file'}: {error.strerror}", file=sys.stderr)
        code = EXIT_INVALID
    sys.stderr.flush()
    if stdio.stderr is not None:
        stdio.stderr.flush(FLUSH)
    os._exit(code)


def _serve_claimed(args: argparse.Namespace, limits: Limits, stdio: Any) -> int:
    from rrext.server.logs import set_up_logging

    lines = set_up_logging(args.log_level or ("info" if args.log_file else "warning"), args.log_file)
    try:
        catalog, environment = catalog_from(args), environment_from(args)
        return asyncio.run(_serve(args, limits, catalog, environment, stdio))
    except RrextError as error:
        print(f"rrext: {error.message}", file=sys.stderr)
        return EXIT_INVALID
    finally:
        lines.flush(FLUSH)


async def _serve(args: argparse.Namespace, limits: Limits, catalog: Any, environment: Any, stdio: Any) -> int:
    from rrext.engine.runtime import LocalEngine
    from rrext.server.stdio import StdioServer

    engine = LocalEngine(catalog=catalog, environment=environment, limits=limits, root=root_from(args))
    for path in args.files:
        if not _load(engine, path, limits):
            return EXIT_INVALID
    gc.freeze()  # what is loaded stays: collections need not look at it again
    gc.enable()
    return await StdioServer(engine, engine.host, stdio, limits=limits).run()


def _load(engine: Any, path: str, limits: Limits) -> bool:
    """Load one file; what is wrong with it goes to stderr."""
    from rrext.errors import InvalidPipeline

    try:
        with open(path, "rb") as file:
            text = file.read(limits.max_pipeline + 1)
        engine.load(text, token=_stem(path), name=_stem(path), folder=os.path.dirname(os.path.abspath(path)))
    except OSError as error:
        print(f"rrext: {path}: {error.strerror}", file=sys.stderr)
    except InvalidPipeline:
        from rrext.cli.check import print_problems

        print_problems(path, text, engine.catalog, engine.environment)
    except RrextError as error:
        print(f"rrext: {path}: {error.message}", file=sys.stderr)
    else:
        return True
    return False


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, not {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds above 0, not {text!r}")
    return seconds
