"""`rrext send`: files and whole folders through a pipeline."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

import msgspec

from rrext.cli.local import EXIT_DONE, EXIT_FAILED, EXIT_USAGE, LocalPipeline, run_locally
from rrext.cli.options import add_pipeline_options, whole_number
from rrext.cli.report import print_error
from rrext.cli.results import Results
from rrext.cli.sending import Sending
from rrext.client.files import find_files
from rrext.engine.lanes import choose_lane
from rrext.errors import InvalidArguments
from rrext.limits import CLIENT_DEFAULTS, DEFAULTS

__all__ = ["add_parser", "run"]

EXAMPLE = """examples:
  rrext send pipeline.pipe report.txt
  rrext send pipeline.pipe documents/ --jobs 4 > results.jsonl
  rrext send pipeline.pipe notes --mime text/plain | jq -r 'select(.error) | .path'

A folder means every file below it, hidden ones too; links to folders inside of it are not followed. Files are read in
pieces, at most --jobs at a time. Each has one line on stdout, in the order in which they are done: {path, result}, or
{path, error} with the result as far as there is one.

Exit code 0: done. 1: at least one file failed. 2: nothing was sent, because the command or the pipeline is wrong. 130:
ended by Ctrl-C; stderr says what was done.
"""
STDIN = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")


def add_parser(commands: Any) -> None:
    """Add the command to the parser of `rrext`."""
    parser = commands.add_parser(
        "send",
        help="send files and folders through a pipeline",
        description="Send files and whole folders through a pipeline, in this process.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE.pipe", help="the pipeline")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file or a folder")
    parser.add_argument("--mime", metavar="TYPE", help="the MIME type of all files, or lane/NAME; else extensions say it")
    parser.add_argument(
        "--jobs", type=whole_number, default=CLIENT_DEFAULTS.jobs, metavar="N", help="files at a time (%(default)s)"
    )
    add_pipeline_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Send the files; the exit code."""
    limits = msgspec.structs.replace(
        DEFAULTS,
        threads=max(args.jobs, DEFAULTS.threads),
        pipe_idle=float("inf"),  # a pipe whose file comes slowly is not forgotten
    )

    async def work(pipeline: LocalPipeline, results: Results) -> int:
        return await _send(args, pipeline, results)

    return run_locally(args, work, limits=limits, keeps_stdin=any(path in STDIN for path in args.paths))


async def _send(args: argparse.Namespace, pipeline: LocalPipeline, results: Results) -> int:
    try:
        _check(args, pipeline)
    except InvalidArguments as error:
        print_error(error)
        return EXIT_USAGE
    sources = await pipeline.in_thread(lambda: find_files(args.paths))
    sending = Sending(pipeline, results, sources, mime_type=args.mime)
    try:
        await sending.run(args.jobs)
    except asyncio.CancelledError:
        # In one write: nodes that end meanwhile write there too.
        print(f"rrext: interrupted: {sending.summary()}\n", end="", file=sys.stderr)
        raise
    print(f"rrext: {sending.summary()}", file=sys.stderr)
    return EXIT_FAILED if sending.failed else EXIT_DONE


def _check(args: argparse.Namespace, pipeline: LocalPipeline) -> None:
    """Refuse what would fail for every single file. Raises `InvalidArguments`."""
    task = pipeline.task
    source, begins = task.spec.source, task.source_class
    try:
        lane = None if args.mime is None else choose_lane(args.mime, task.plan.listens)
    except InvalidArguments as error:
        raise InvalidArguments(f"--mime: {error.message.removeprefix('/mimeType: ')}") from None
    if begins.accepts == ("chat",) and lane != "questions":
        hint = "a file that holds a question, as text or as JSON, can be sent with `--mime lane/questions`"
        raise InvalidArguments(f'"{source}" takes questions, not files: `rrext send` does not fit', hint=hint)
    if begins.lanes.get("_source") == ():
        hint = f"`rrext tools {args.file}` lists them"
        raise InvalidArguments(f'"{source}" takes no data: its pipeline has tools alone', hint=hint)
