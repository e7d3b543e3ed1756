"""`rrext send`: files and folders through a pipeline."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from rrext.cli.file_sender import FileSender
from rrext.cli.local import LocalPipeline, in_words_of_source
from rrext.cli.options import (
    add_caller_options,
    add_pipeline_options,
    add_source,
    add_source_option,
    add_wait_option,
    let_words_follow_options,
    root_from,
    whole_number,
)
from rrext.cli.output import Results, print_error
from rrext.cli.pipeline import EXIT_DONE, EXIT_FAILED, EXIT_USAGE, Pipeline, run_work
from rrext.client.upload_files import UploadFile, find_files, shown
from rrext.errors import InvalidArguments, RrextError, UsageError
from rrext.limits import CLIENT_DEFAULTS, DEFAULTS
from rrext.nodes.base.lanes import choose_lane

if TYPE_CHECKING:
    from rrext.cli.folder_sync import FolderSync

DESCRIPTION = "Send files and whole folders through a pipeline, in this process or of a server that runs."
EXAMPLE = """examples:
  rrext send pipeline.pipe report.txt
  rrext send pipeline.pipe documents/ --jobs 4 > results.jsonl
  rrext send pipeline.pipe notes --mime text/plain | jq -r 'select(.error) | .path'
  man rrext | rrext send pipeline.pipe - --mime text/plain
  rrext send --sync pipeline.pipe documents/
  rrext send --at unix:/tmp/rrext.sock report.txt

A folder means every file below it, hidden ones too, but for those that --exclude or a .rrextignore file in a folder names
with the rules of gitignore. A file in a folder is named as skipped if it is of a kind that is not read here, such as a
picture, or a document without text. A link is followed if it is given itself; in a folder none is, and one that leads
out of it or nowhere is named as skipped. A file is the same object to a store however it is sent, so that sending it
again replaces it; with --root-name it is that also from another place or another machine. Files are read in pieces, at
most --jobs at a time. Each has one line on stdout, in the order in which they are done: {path, result}, {path, skipped},
or {path, error} with the result as far as there is one. On a terminal there is progress instead: only a single file, or
--json, has its line. `stored` in a result says how many chunks each store has of the file.

--sync makes the pipeline's stores hold what the folders hold. Files that are as they were (size and times, or else
the content) and that every store still has are left out, others are sent, and what is gone from a folder since it was
sent with --sync is deleted from the stores; an interrupted --sync goes on where it was. A file that was moved, or got
another name, keeps its chunks in the stores. Its lines say {"sync": "new"}, "changed", "moved" or "deleted"; the last
one is {summary}. If all files of a folder are gone, or more than half of them (and more than 10), nothing is deleted,
unless --max-delete allows it. What was sent is kept in FILE.pipe.sync, beside the pipeline.

Exit code 0: done. 1: at least one file failed, or is gone and was not deleted. 2: nothing was sent, because the command
or the pipeline is wrong, or another --sync of it is running. 130: ended by Ctrl-C; stderr says what was done.
"""
STDIN = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
"""The names of standard input; the word for the first is `-`."""


def add_arguments(parser: argparse.ArgumentParser, *, at: bool) -> None:
    """Add the arguments of the command; `at`: a server is used."""
    add_source(parser, at=at)
    add_source_option(parser)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file, a folder, or - for stdin")
    let_words_follow_options(parser, "paths")
    parser.add_argument("--mime", metavar="TYPE", help="the MIME type of all files, or lane/NAME; else extensions say it")
    parser.add_argument(
        "--jobs", type=whole_number, default=CLIENT_DEFAULTS.jobs, metavar="N", help="files at a time (%(default)s)"
    )
    parser.add_argument(
        "--sync", action="store_true", help="send what is new or changed, delete what is gone from the folders; see below"
    )
    parser.add_argument(
        "--max-delete", type=_count, metavar="N", help="with --sync: delete nothing if more than N files of a folder are gone"
    )
    parser.add_argument(
        "--exclude", action="append", default=[], metavar="PATTERN", help="leave files out, by a rule of gitignore (repeatable)"
    )
    parser.add_argument(
        "--root-name",
        metavar="NAME",
        help="the name of the folder given: its files are the same objects wherever it stands",
    )
    parser.add_argument("--json", action="store_true", help="a line for each file also on a terminal")
    add_caller_options(parser)
    if not at:
        add_pipeline_options(parser)
        add_wait_option(parser)


def run(args: argparse.Namespace) -> int:
    """Send the files; returns the exit code."""
    args.paths = [STDIN[0] if path == "-" else path for path in args.paths]
    if args.max_delete is not None and not args.sync:
        print("rrext: --max-delete goes with --sync", file=sys.stderr)
        return EXIT_USAGE
    if args.sync and args.at is not None:
        print("rrext: --sync keeps its state beside FILE.pipe, so it takes that and no --at", file=sys.stderr)
        return EXIT_USAGE
    limits = msgspec.structs.replace(
        DEFAULTS,
        threads=max(args.jobs, DEFAULTS.threads),
        pipe_idle=float("inf"),  # a slow file must not lose its pipe
    )

    async def work(pipeline: Pipeline, results: Results) -> int:
        return await _send(args, pipeline, results)

    return run_work(args, work, limits=limits, keeps_stdin=any(path in STDIN for path in args.paths), needs_loop=True)


async def _send(args: argparse.Namespace, pipeline: Pipeline, results: Results) -> int:
    try:
        if isinstance(pipeline, LocalPipeline):
            _check(args, pipeline)
    except InvalidArguments as error:
        print_error(error)
        return EXIT_USAGE
    sync = None
    try:
        if isinstance(pipeline, LocalPipeline) and args.sync:
            from rrext.cli.folder_sync import open_sync

            sync = open_sync(pipeline, args.file, mime_type=args.mime, root=root_from(args), root_name=args.root_name)
    except RrextError as error:
        print_error(error)
        return EXIT_USAGE
    try:
        if sync is not None:
            await sync.reach()
        return await _send_all(args, pipeline, results, sync)
    except RrextError as error:
        print_error(error)
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED
    finally:
        if sync is not None:
            sync.close()


async def _send_all(args: argparse.Namespace, pipeline: Pipeline, results: Results, sync: FolderSync | None) -> int:
    sources = await pipeline.in_thread(
        lambda: (
            find_files(args.paths, exclude=args.exclude, root_name=args.root_name)
            if sync is None
            else sync.find(args.paths, args.exclude)
        )
    )
    for path in await pipeline.in_thread(lambda: _empty_folders(args.paths, sources)):
        print(f"rrext: {shown(path)}: there is no file in this folder", file=sys.stderr)
    writes_lines = args.json or not results.is_terminal or (len(sources) == 1 and sync is None)
    sending = FileSender(
        pipeline, results, sources, mime_type=args.mime, source=args.source, sync=sync, writes_lines=writes_lines
    )
    try:
        await sending.run(args.jobs)
        if sync is not None:
            folders = await pipeline.in_thread(lambda: [path for path in args.paths if os.path.isdir(path)])
            await sending.delete_gone(folders, args.max_delete)
    except asyncio.CancelledError:
        # In one write, because ending nodes write there too.
        print(f"rrext: interrupted: {sending.summary()}\n", end="", file=sys.stderr)
        raise
    if sync is not None and writes_lines:
        results.write_line(msgspec.json.encode({"summary": sending.counts()}))
    print(f"rrext: {sending.summary()}", file=sys.stderr)
    return EXIT_FAILED if sending.failed else EXIT_DONE


def _empty_folders(paths: Sequence[str], sources: Sequence[UploadFile]) -> list[str]:
    """The given folders without any file below them."""
    folders = {source.folder for source in sources}
    return [path for path in paths if os.path.isdir(path) and os.path.realpath(path) not in folders]


def _check(args: argparse.Namespace, pipeline: LocalPipeline) -> None:
    """Refuse a pipeline for which every file would fail. Raises `InvalidArguments`."""
    try:
        plan = pipeline.plan
    except RrextError as error:
        raise InvalidArguments(in_words_of_source(error).message, hint=error.hint) from None
    source, begins = plan.source, plan.source_class
    try:
        lane = None if args.mime is None else choose_lane(args.mime, plan.listens)
    except InvalidArguments as error:
        raise InvalidArguments(f"--mime: {error.message.removeprefix('/mimeType: ')}") from None
    if begins.accepts == ("chat",) and lane != "questions":
        hint = "a file that holds a question, as text or as JSON, can be sent with `--mime lane/questions`"
        raise InvalidArguments(f'"{source}" takes questions, not files: `rrext send` does not fit', hint=hint)
    if begins.lanes.get("_source") == ():
        hint = f"`rrext tools {args.file}` lists them"
        raise InvalidArguments(f'"{source}" takes no data: its pipeline has tools alone', hint=hint)


def _count(text: str) -> int:
    """An argparse type: a whole number from 0."""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"expected a whole number, not {text!r}")
    return int(text)
