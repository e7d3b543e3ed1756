"""`rrext send`: files and folders through a pipeline: a bounded number at a time, in pieces, one line of JSON for each."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from io import BufferedReader, RawIOBase
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from rrext.cli.console.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from rrext.cli.console.lines import ProgressLine, pace, size
from rrext.cli.console.output import Results, print_error
from rrext.cli.local import LocalPipeline, in_words_of_source
from rrext.cli.options import (
    Command,
    add_caller_options,
    add_pipeline_options,
    add_source,
    add_source_option,
    add_wait_option,
    let_words_follow_options,
    whole_number,
)
from rrext.cli.pipeline import Pipeline, failure_of, run_work, without_error
from rrext.columns import printable
from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Close, Open, Write
from rrext.errors import Cancelled, ClientError, FrameTooLarge, InvalidArguments, RrextError, UsageError
from rrext.files.naming import mime_type_of, shown
from rrext.limits import CLIENT_DEFAULTS, DEFAULTS
from rrext.nodes.base.lanes import choose_lane
from rrext.sync.items import ItemContent, SyncItem
from rrext.sync.upload_files import LANES_IN_PIECES, Unreadable, UploadFile, find_files
from rrext.wire.codec import encode

if TYPE_CHECKING:
    from rrext.sync.folder_sync import FolderSync, Gone


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

With --sync a PATH may also be a list of addresses (urls:FILE, one on each line), a feed (feed:ADDRESS or feed:FILE) or a
mailbox (mbox:FILE): each page, entry or message is an object. Pages are fetched only if they changed. What an entry of a
feed leads to, or a redirect to another host, has to be a public address. An entry that a feed has no more is kept. A file
whose name begins like a source is given with a path, as ./feed:x. With --watch the command goes on, and syncs again what
changes in folders and files, some time after the last change of a burst.

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
        "--watch", action="store_true", help="with --sync: go on, and sync again what changes, until Ctrl-C (exit code 130)"
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
    if args.watch and not args.sync:
        print("rrext: --watch goes with --sync", file=sys.stderr)
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


SEND = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


async def _send(args: argparse.Namespace, pipeline: Pipeline, results: Results) -> int:
    try:
        if isinstance(pipeline, LocalPipeline):
            _check(args, pipeline)
    except InvalidArguments as error:
        print_error(error)
        return EXIT_USAGE
    sync = None
    try:
        if args.watch:
            from rrext.cli.watching import require_watching

            require_watching()
        if isinstance(pipeline, LocalPipeline) and args.sync:
            from rrext.cli.pipeline_stores import PipelineStores
            from rrext.sync.folder_sync import open_sync

            stores = PipelineStores(pipeline, args.source, args.mime)
            sync = await open_sync(stores, f"{args.file}.sync", root_name=args.root_name, warn=_print_warning)
    except RrextError as error:
        print_error(error)
        return EXIT_USAGE
    try:
        if sync is not None:
            await sync.check_stores()
        code = await _send_all(args, args.paths, pipeline, results, sync)
        if sync is not None and args.watch:
            await _watch(args, pipeline, results, sync)
        return code
    except RrextError as error:
        print_error(error)
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED
    finally:
        if sync is not None:
            await sync.aclose()


async def _watch(args: argparse.Namespace, pipeline: Pipeline, results: Results, sync: FolderSync) -> None:
    """Sync again what changes, until it is cancelled. A sync that fails is tried again at the next change."""
    from rrext.cli.watching import changed_sources

    is_told = False
    async for changed in changed_sources(args.paths, sync.own_files):
        try:
            await _send_all(args, changed, pipeline, results, sync, tells_all=False)
        except RrextError as error:
            print_error(error)
        if not is_told:
            is_told = True
            print("rrext: watching until Ctrl-C", file=sys.stderr, flush=True)


async def _send_all(
    args: argparse.Namespace,
    words: Sequence[str],
    pipeline: Pipeline,
    results: Results,
    sync: FolderSync | None,
    *,
    tells_all: bool = True,
) -> int:
    """Send these sources; returns the exit code. Unless it `tells_all`, nothing is told if nothing changed."""
    sources: Sequence[SyncItem]
    if sync is None:
        sources = await pipeline.in_thread(lambda: find_files(words, exclude=args.exclude, root_name=args.root_name))
    else:
        sources = await sync.find(words, args.exclude)
    for path in await pipeline.in_thread(lambda: _empty_folders(words, sources)):
        print(f"rrext: {shown(path)}: there is no file in this folder", file=sys.stderr)
    writes_lines = args.json or not results.is_terminal or (len(sources) == 1 and sync is None)
    sending = FileSender(
        pipeline, results, sources, mime_type=args.mime, source=args.source, sync=sync, writes_lines=writes_lines
    )
    try:
        await sending.run(args.jobs)
        if sync is not None:
            await sending.delete_gone(args.max_delete)
    except asyncio.CancelledError:
        # In one write, because ending nodes write there too.
        print(f"rrext: interrupted: {sending.summary()}\n", end="", file=sys.stderr)
        raise
    if not tells_all and sending.is_idle:
        return EXIT_DONE
    if sync is not None and writes_lines:
        results.write_line(msgspec.json.encode({"summary": sending.counts()}))
    print(f"rrext: {sending.summary()}", file=sys.stderr)
    return EXIT_FAILED if sending.failed else EXIT_DONE


def _print_warning(text: str) -> None:
    print(printable(f"rrext: {text}"), file=sys.stderr)


def _empty_folders(paths: Sequence[str], sources: Sequence[SyncItem]) -> list[str]:
    """The given folders without any file below them."""
    folders = {source.folder for source in sources if isinstance(source, UploadFile)}
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


CHANGES: Final = ("new", "changed", "moved")
OF_SOURCES: Final = ("done", *CHANGES, "unchanged", "failed", "skipped", "cancelled")
"""The outcomes of a file."""


class NotTaken(ClientError, code="not_taken"):
    """No node takes files of this kind."""


class _Closed(msgspec.Struct):
    """The parts of a result body about the end of the object and its chunks in stores."""

    error: dict[str, Any] | None = None
    stored: dict[str, int] = {}


class FileSender:
    """One run of `rrext send`. `run` returns when every file has its line, in order of completion."""

    def __init__(
        self,
        pipeline: Pipeline,
        results: Results,
        sources: Sequence[SyncItem],
        *,
        mime_type: str | None,
        source: str | None = None,
        sync: FolderSync | None = None,
        writes_lines: bool = True,
    ) -> None:
        """`source` is where the files enter. With `sync`, files that the stores have are not sent and have no line.

        Unless it `writes_lines`, no file has one.
        """
        self._pipeline = pipeline
        self._sync = sync
        self._results = results
        self._sources = sources
        self._mime_type = mime_type
        self._source = source
        self._progress = ProgressLine(summary_follows=True)
        self._bytes_total = sum(source.size for source in sources)
        self._bytes_done = 0
        self._writes_lines = writes_lines
        self._begun = time.monotonic()
        self._unheard: set[str] = set()
        self._chunks: dict[str, int] = {}
        self._counts: Counter[str] = Counter()

    async def run(self, jobs: int) -> None:
        """Send all files, `jobs` at a time. Raises `OSError` when stdout is closed."""
        numbered = iter(enumerate(self._sources))
        tasks = [asyncio.ensure_future(self._work(numbered)) for _ in range(min(jobs, len(self._sources)))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._progress.end()

    async def delete_gone(self, most: int | None) -> None:
        """Delete removed files from the stores; `most` as in `FolderSync.gone`. Raises `OSError`."""
        assert self._sync is not None
        async for gone in self._sync.gone(self._sources, most):
            try:
                if gone.refused:
                    self._counts["gone but not deleted"] += len(gone.files)
                    self._refuse(gone)
                    continue
                await self._sync.delete(gone)
            except RrextError as error:
                self._counts["failed"] += 1
                print_error(error, shown(gone.folder))
                continue
            for path in gone.paths():
                self._counts["deleted"] += 1
                self._write(encode({"path": shown(path), "sync": "deleted"}))

    def _refuse(self, gone: Gone) -> None:
        count = len(gone.files)
        self._print_message(
            f"rrext: {shown(gone.folder)}: {count} of the {gone.known} files that were sent are not there any more: nothing is "
            f"deleted, as that may be a mistake, such as a disk that is not mounted. If it is none: --max-delete {count}"
        )

    @property
    def is_idle(self) -> bool:
        """Whether every file is as it was."""
        return set(self._counts) <= {"unchanged"}

    @property
    def failed(self) -> bool:
        """Whether any file failed or was kept."""
        return bool(self._counts["failed"] or self._counts["gone but not deleted"])

    def counts(self) -> dict[str, int]:
        """The number of files by outcome, and of stored chunks."""
        words = ("new", "changed", "moved", "unchanged", "deleted", "failed", "skipped")
        kept = {"notDeleted": self._counts["gone but not deleted"], "chunks": sum(self._chunks.values())}
        return {word: self._counts[word] for word in words} | kept

    def summary(self) -> str:
        """The outcome in one line."""
        total = len(self._sources)
        always = ("done", "failed") if self._sync is None else ("new", "changed", "unchanged", "deleted", "failed")
        counts = {**dict.fromkeys(always, 0), **self._counts}
        counts["not sent"] = total - sum(map(self._counts.__getitem__, OF_SOURCES))
        parts = [f"{count} {how}" for how, count in counts.items() if count or how in always]
        return f"{total} file{'s' if total != 1 else ''}, {size(self._bytes_done)} sent: {', '.join(parts)}{self._stored()}"

    def _stored(self) -> str:
        """The number of chunks in the stores, in words."""
        if len(self._chunks) == 1:
            return f"; {sum(self._chunks.values())} chunks stored"
        return "".join(f"; {count} chunks stored in {store}" for store, count in self._chunks.items())

    async def _work(self, numbered: Iterator[tuple[int, SyncItem]]) -> None:
        for index, source in numbered:
            if source.skipped is not None:
                self._skip(source, source.skipped)
                continue
            # A connection of its own, whose pipe can be dropped alone.
            caller = msgspec.structs.replace(self._pipeline.caller, connection_id=f"file-{index}")
            try:
                how, result = await self._deal_with(source, caller)
            except asyncio.CancelledError:
                self._pipeline.drop(caller)
                self._finish(source, "cancelled", Cancelled())
                raise
            except OSError as error:
                self._pipeline.drop(caller)
                self._finish(source, "failed", Unreadable(error.strerror or str(error)))
            except RrextError as error:
                if source.skips(error):
                    self._skip(source, error.message)
                else:
                    self._finish(source, "failed", error, error.result)
            else:
                self._finish(source, how, None, result)

    def _skip(self, source: SyncItem, why: str) -> None:
        self._counts["skipped"] += 1
        self._print_message(f"rrext: {shown(source.path)}: skipped: {why}")
        self._write(_line(source, skipped=why))

    async def _deal_with(self, source: SyncItem, caller: Caller) -> tuple[str, bytes | None]:
        """The outcome of a file, and its result. Raises as `_send`."""
        if source.problem is not None:
            raise Unreadable(source.problem)
        if self._sync is None:
            assert isinstance(source, UploadFile)  # what a sync alone takes are other items
            closed, _ = await self._send(source, caller, source.about, ItemContent("", source.reading))
            return "done", closed
        from rrext.sync.folder_sync import SentObject

        async def send(about: dict[str, Any], content: ItemContent) -> SentObject:
            closed, stored = await self._send(source, caller, about, content)
            return SentObject(closed, stored)

        return await self._sync.deal_with(source, send)

    async def _send(
        self, source: SyncItem, caller: Caller, about: dict[str, Any], content: ItemContent
    ) -> tuple[bytes, dict[str, int]]:
        """The encoded result body, and the number of chunks in each store.

        Raises the object's failure, with a partial result if there is one, and `OSError`.
        """
        pipeline = self._pipeline
        mime_type = self._mime_type or content.mime_type or mime_type_of(source.path)
        lane = choose_lane(mime_type, pipeline.listens)
        self._warn_of_unheard(source, mime_type, lane)
        file, piece = await pipeline.in_thread(lambda: _begin(content.open, in_pieces=lane in LANES_IN_PIECES))
        with file:
            opened, _ = await pipeline.ask(Open(object=about, mime_type=mime_type, source=self._source), caller=caller)
            pipe_id = msgspec.json.decode(opened)["pipe_id"]
            try:
                is_due = bool(piece) or lane not in LANES_IN_PIECES  # an empty file is invalid JSON, and its write must fail
                while is_due:
                    await pipeline.ask(Write(pipe_id=pipe_id), data=piece, caller=caller)
                    self._advance(source, len(piece))
                    piece = await pipeline.in_thread(lambda: file.read(CLIENT_DEFAULTS.write_chunk))
                    is_due = bool(piece)
            except RrextError as error:
                error.result = await self._result_of_failed(pipe_id, caller)
                raise
        closed, _ = await pipeline.ask(Close(pipe_id=pipe_id), caller=caller)
        ended = msgspec.json.decode(closed, type=_Closed)
        if ended.error is not None:
            raise failure_of(ended.error, msgspec.json.decode(closed))
        for store, count in ended.stored.items():
            self._chunks[store] = self._chunks.get(store, 0) + count
        return closed, ended.stored

    async def _result_of_failed(self, pipe_id: int, caller: Caller) -> dict[str, Any] | None:
        try:
            closed, _ = await self._pipeline.ask(Close(pipe_id=pipe_id), caller=caller)
        except RrextError:
            return None  # the failure of the write matters
        return without_error(msgspec.json.decode(closed))

    def _warn_of_unheard(self, source: SyncItem, mime_type: str, lane: str) -> None:
        """Warn once per lane that no node receives its objects. Raises `NotTaken` for a file in a folder, or of a sync."""
        if self._pipeline.listens(lane):
            return
        what = f"no node takes {mime_type} here ({lane} lane)"
        if self._sync is not None or (isinstance(source, UploadFile) and source.folder is not None):
            raise NotTaken(what)
        if lane not in self._unheard:
            self._unheard.add(lane)
            self._print_message(f"rrext: {shown(source.path)}: {what}, nothing is done with it")

    def _advance(self, source: SyncItem, nbytes: int) -> None:
        self._bytes_done += nbytes
        done, total = self._bytes_done, self._bytes_total
        share = f"/{size(total)} ({done / total:.0%})" if 0 < total >= done else ""  # a device has no size in advance
        dealt = sum(map(self._counts.__getitem__, OF_SOURCES))
        parts = [f"{dealt}/{len(self._sources)} files", f"{size(done)}{share}"]
        if self._progress.in_place:
            parts.append(pace(done, total, time.monotonic() - self._begun))
        self._progress.show(", ".join([*filter(None, parts), shown(source.path)]))

    def _finish(
        self, source: SyncItem, how: str, error: RrextError | None, result: bytes | dict[str, Any] | None = None
    ) -> None:
        """Count the file and write its line. Raises `OSError`."""
        self._counts[how] += 1
        if how == "failed" and error is not None:
            self._progress.clear()
            print_error(error, shown(source.path))
        if how in ("unchanged", "moved"):
            self._bytes_total -= source.size  # it is not sent
        if how != "unchanged":
            self._write(_line(source, None if self._sync is None else how, error, result))
        self._advance(source, 0)

    def _write(self, line: bytes) -> None:
        if self._writes_lines:
            if self._results.is_terminal:
                self._progress.clear()
            self._results.write_line(line)

    def _print_message(self, text: str) -> None:
        self._progress.clear()
        print(printable(text), file=sys.stderr)


def _begin(reading: Callable[[], IO[bytes]], *, in_pieces: bool) -> tuple[IO[bytes], bytes]:
    """The open file and its first piece, or its whole content if the lane takes it whole. Raises `FrameTooLarge`."""
    file = reading()
    if isinstance(file, RawIOBase) and not in_pieces:
        file = BufferedReader(file)  # which gives all that was asked for
    try:
        piece = file.read(CLIENT_DEFAULTS.write_chunk if in_pieces else DEFAULTS.max_frame + 1)
        if len(piece) > DEFAULTS.max_frame:
            raise FrameTooLarge(f"the lane takes one whole JSON value, of at most max_frame, {DEFAULTS.max_frame} bytes")
        return file, piece
    except BaseException:
        file.close()
        raise


def _line(
    source: SyncItem,
    how: str | None = None,
    error: RrextError | None = None,
    result: bytes | dict[str, Any] | None = None,
    skipped: str | None = None,
) -> bytes:
    """`{path, result}`, `{path, error, result?}` or `{path, skipped}`; for a sync also the change `how`."""
    members = [b'"path":' + msgspec.json.encode(shown(source.path))]
    if how in CHANGES:
        members.append(b'"sync":' + msgspec.json.encode(how))
    if skipped is not None:
        members.append(b'"skipped":' + msgspec.json.encode(skipped))
    if error is not None:
        told = {"code": error.code, "message": error.message, **({"hint": error.hint} if error.hint else {})}
        members.append(b'"error":' + encode(told))
    if result is not None:
        members.append(b'"result":' + (result if isinstance(result, bytes) else encode(result)))
    return b"{" + b",".join(members) + b"}"
