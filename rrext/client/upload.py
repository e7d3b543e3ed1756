"""Files and folders through a pipeline: a bounded number at a time, each in pieces, one result for each file."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from inspect import isawaitable
from typing import IO, TypeAlias

import anyio
import msgspec
from anyio.to_thread import run_sync

from rrext.client.endpoint import Body
from rrext.client.pipe import Pipe
from rrext.errors import RrextError, UsageError
from rrext.files.naming import mime_type_of
from rrext.limits import CLIENT_DEFAULTS
from rrext.sync.upload_files import UploadFile, find_files, goes_whole


class FileResult(msgspec.Struct, frozen=True):
    """The outcome of one file. `result` is the result body of the pipeline, a partial one if the object failed.

    `skipped` says why nothing was done with a file, though nothing failed: it is a link out of its folder, comes twice, or is
    in a folder and of a kind that is not read here.
    """

    path: str
    size: int
    result: Body | None = None
    error: Exception | None = None
    skipped: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the whole file went through the pipeline without a failure."""
        return self.error is None and self.skipped is None


class UploadProgress(msgspec.Struct, frozen=True):
    """The progress of an upload. The totals count the files that were found before it began."""

    files_done: int
    files_total: int
    bytes_done: int
    bytes_total: int
    path: str
    """The file that moved on."""
    finished: FileResult | None = None
    """Its result, if it is done."""


UploadCallback: TypeAlias = Callable[[UploadProgress], Awaitable[object] | object]
PipeMaker: TypeAlias = Callable[[Body, str], Pipe]
"""Makes a pipe from the description of an object and its MIME type."""


class Upload:
    """One run of `send_files`."""

    def __init__(
        self,
        pipe: PipeMaker,
        *,
        jobs: int,
        mimetype: str | None,
        progress: UploadCallback | None,
        exclude: Sequence[str] = (),
        root_name: str | None = None,
    ) -> None:
        if jobs < 1:
            raise UsageError(f"jobs must be at least 1, not {jobs}")
        self._find = partial(find_files, exclude=exclude, root_name=root_name)
        self._pipe = pipe
        self._jobs = jobs
        self._mimetype = mimetype
        self._progress = progress
        self._files_total = self._bytes_total = self._files_done = self._bytes_done = 0
        self._tasks = anyio.create_task_group()
        self._failure: Exception | None = None
        """The exception of the progress callback."""

    async def run(self, paths: Iterable[str | os.PathLike[str]]) -> list[FileResult]:
        """Send all files; results are in the order in which they were found.

        Raises only the exceptions of the callback, and `UsageError` for patterns and names that cannot be used.
        """
        sources = await run_sync(self._find, [os.fspath(path) for path in paths])
        self._files_total = len(sources)
        self._bytes_total = sum(source.size for source in sources)
        results: dict[int, FileResult] = {}
        numbered = iter(enumerate(sources))
        async with self._tasks as tasks:
            for _ in range(min(self._jobs, len(sources))):
                tasks.start_soon(self._work, numbered, results)
        if self._failure is not None:
            raise self._failure
        return [results[index] for index in range(len(sources))]

    async def _work(self, numbered: Iterator[tuple[int, UploadFile]], results: dict[int, FileResult]) -> None:
        for index, source in numbered:
            results[index] = outcome = await self._send(source)
            self._files_done += 1
            await self._report(source, 0, outcome)

    async def _send(self, source: UploadFile) -> FileResult:
        if source.skipped is not None:
            return FileResult(source.path, source.size, skipped=source.skipped)
        try:
            if source.problem is not None:
                raise UsageError(f"{source.path}: {source.problem}")
            result = await self._stream(source)
        except Exception as error:  # any failure is that of this file, and the others go on
            if isinstance(error, RrextError) and source.skips(error):
                return FileResult(source.path, source.size, skipped=error.message)
            return FileResult(source.path, source.size, getattr(error, "result", None), error)
        return FileResult(source.path, source.size, result)

    async def _stream(self, source: UploadFile) -> Body | None:
        mimetype = self._mimetype or mime_type_of(source.path)
        most = CLIENT_DEFAULTS.whole_write if goes_whole(mimetype) else CLIENT_DEFAULTS.write_chunk
        file, piece = await run_sync(_start_reading, source, most)
        with file:
            async with self._pipe(source.about, mimetype) as pipe:
                while piece:
                    await pipe.write(piece)
                    await self._report(source, len(piece))
                    piece = await run_sync(file.read, most)
        return pipe.result

    async def _report(self, source: UploadFile, nbytes: int, finished: FileResult | None = None) -> None:
        self._bytes_done += nbytes
        if self._progress is None:
            return
        progress = UploadProgress(
            self._files_done, self._files_total, self._bytes_done, self._bytes_total, source.path, finished
        )
        try:
            answer = self._progress(progress)
            if isawaitable(answer):
                await answer
        except Exception as error:  # it ends the upload, and is raised unchanged
            self._failure = self._failure or error
            self._tasks.cancel_scope.cancel()


def _start_reading(source: UploadFile, most: int) -> tuple[IO[bytes], bytes]:
    """The open file and its first piece of at most so many bytes: one visit to a worker thread is enough for a small file."""
    file = source.reading()
    try:
        return file, file.read(most)
    except BaseException:
        file.close()
        raise
