"""`filesys`: the source whose objects are files of folders, which a call of its tool sends through the pipeline."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase, translate
from itertools import islice
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict, TypeVar

import msgspec
from msgspec.structs import replace

from rrext.errors import InvalidArguments, RrextError, ToolError, Unavailable
from rrext.files.confinement import MAX_DEPTH, Confinement, FileInfo
from rrext.files.naming import mime_type_of, shown, url_of
from rrext.limits import MIB
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.basic.sources import SourceNode
from rrext.nodes.files.offered_files import LIST_MAX, OFFERED_DEFAULT, open_root
from rrext.threads import shielded
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

T = TypeVar("T")

PIECE: Final = MIB
"""Bytes of a file that are read and written at a time, as clients do."""

MAX_FILES: Final = 1_000_000
"""Files of one call: their names take some hundred megabytes."""

MAX_TOLD: Final = 100
"""Failures and skipped files that an answer names; all are counted."""

RESULTS_MAX: Final = 8 * MIB
"""Bytes of results that an answer has: an answer has a limit, and files have none."""

NOTHING_TO_READ: Final = ("document_unsupported", "document_empty")
"""Codes of failures that mean: such files are not read here, or have no text."""

SYSTEM_NAMES: Final = frozenset(
    (
        ".DS_Store", ".Spotlight-V100", ".TemporaryItems", ".Trashes", ".fseventsd", "$RECYCLE.BIN", "Desktop.ini", "RECYCLER",
        "System Volume Information", "Thumbs.db", "__MACOSX", "desktop.ini", "lost+found", "pagefile.sys", "swapfile.sys",
    )
)  # fmt: skip
"""Files and folders that systems keep for themselves, left out by `excludeEnableGlobal`."""

WILD: Final = re.compile(r"[*?\[]")


class IncludedPath(TypedDict):
    """A folder, a file or a pattern. The other keys are RocketRide's, and change nothing here."""

    path: str
    signing: NotRequired[bool]
    permissions: NotRequired[bool]
    index: NotRequired[bool]
    classify: NotRequired[bool]
    ocr: NotRequired[bool]
    vectorize: NotRequired[bool]


class ExcludedPath(TypedDict):
    """A folder, a file or a pattern that is left out."""

    path: str


class FoundFile(msgspec.Struct, frozen=True):
    """A file of the settings: `below` a `folder`, whose `real` path has no links. `size` is in bytes, `modified` in seconds
    since 1970. `problem` says why it cannot be read, `skipped` why it need not be.
    """

    folder: str
    real: str
    below: str
    size: int = 0
    modified: float = 0.0
    problem: str = ""
    skipped: str = ""

    @property
    def path(self) -> str:
        """Its path as the settings begin it."""
        return os.path.normpath(os.path.join(self.folder, self.below))

    @property
    def identity(self) -> str:
        """Its real path."""
        return os.path.join(self.real, self.below)


class FilesysNode(SourceNode):
    """Begins a pipeline with the files of folders, which `send_source_files` sends through it, as raw bytes.

    `include` names folders, files and patterns, `exclude` what is left out of them. A relative path begins at --root, or else
    at the folder of the pipeline's file. In a pattern, `*` stands for any characters, `/` too; a path that is there is no
    pattern. Links are never followed. A file is the same object as with `rrext send`: sent again, it replaces itself in a
    store. Loading the pipeline sends nothing.
    Clients may send data of their own too.
    """

    provider = "filesys"
    title = "Local file system"
    class_types = ("source",)
    capabilities = ("filesystem", "noremote", "security", "nosaas")
    lanes = {"_source": ("tags",)}
    accepts = ("send",)

    paths = {"include": "folder"}
    paths_may_be_shared = True
    shared: FileWork

    class Config(SourceNode.Config):
        include: Annotated[Sequence[IncludedPath], "What is sent: a folder with all below it, a file, or a pattern."] = ()
        exclude: Annotated[
            Sequence[ExcludedPath],
            "What is left out: a path, with all below it, or a pattern; a word without / is a name in any folder.",
        ] = ()
        parameters: Annotated[
            Mapping[str, Any],
            "excludeEnableGlobal (true): leave out what systems keep for themselves, such as Thumbs.db. Others change nothing.",
        ] = {}
        jobs: Annotated[int, msgspec.Meta(ge=1, le=64), "Files at a time."] = 4
        key: Annotated[str, "For RocketRide's editor."] = ""
        name: Annotated[str, "For RocketRide's editor."] = ""
        sync: Annotated[bool, "For RocketRide's editor."] = False
        actions: Annotated[Mapping[str, Any], "For RocketRide's editor."] = {}
        estimation: Annotated[Mapping[str, Any], "For RocketRide's editor."] = {}

    config: Config

    @classmethod
    def missing(cls, config: Any, path: Callable[[str], str]) -> Iterable[tuple[str, str]]:
        for one in config.include:
            base, _ = _split(one["path"], path)
            if not os.path.exists(path(base)):
                yield "include", f'There is no folder or file "{base}".'

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[FileWork]:
        """Threads that read folders and files."""
        yield FileWork(ctx)

    @tool_function(group="files", annotations={"readOnlyHint": True, "openWorldHint": False})
    def list_source_files(
        self,
        after: str = "",
        maxEntries: Annotated[int, msgspec.Meta(ge=1, le=LIST_MAX)] = OFFERED_DEFAULT,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """List the files that `send_source_files` would send, in its order. Nothing is sent.

        Answers `{files: [{path, size, modified}], total, next}`. `size` is in bytes, `modified` in seconds since 1970.
        `next` is null at the end, else there are more: call again with it as `after`. `total` counts all files; it is null
        with `after`, as only the folders behind that path are read.

        Args:
            after: List only files that stand behind this path.
            maxEntries: How many are listed at most.
        """
        found = (one for one in self._files(ctx.check, after) if not (one.problem or one.skipped))
        page = list(islice(found, maxEntries))
        rest = sum(1 for _ in (islice(found, 1) if after else found))
        files = [{"path": shown(one.path), "size": one.size, "modified": one.modified} for one in page]
        return {"files": files, "total": None if after else len(page) + rest, "next": page[-1].path if rest else None}

    @tool_function(group="files", annotations={"readOnlyHint": False, "openWorldHint": False})
    async def send_source_files(self, results: bool = False, *, ctx: ToolContext) -> dict[str, Any]:
        """Send all files of the settings through the pipeline, `jobs` at a time.

        Answers `{sent, skipped, failed, bytes, stored, failures, skips}`. `skipped` are files of a kind that is not read here,
        or without text; `stored` says how many chunks each store has of these files; `failures` and `skips` name the first 100
        with their reasons. If a file fails, the others are sent all the same, and the call fails at the end with
        `files_failed`, whose `data` is this answer.

        Args:
            results: Whether the answer has the result of each file: `results: [{path, result}]`, up to 8 MiB of them.
        """
        found = await self.shared.in_thread(self._found, ctx)
        sending = _Sending(self, ctx, found, keeps_results=results)
        try:
            await sending.run(self.config.jobs)
        finally:
            ctx.so_far(sending.answer())
        answer = sending.answer()
        if answer["failed"]:
            first = answer["failures"][0]
            raise ToolError(
                f"{answer['failed']} of {len(found)} files failed, the first: {first['path']}: {first['message']}",
                code="files_failed",
                hint="`data.failures` names them; the other files were sent.",
                data=answer,
            )
        return answer

    def _found(self, ctx: ToolContext) -> list[FoundFile]:
        """The files of the settings, each once. Raises `ToolError` and `Unavailable` for paths that cannot be read."""
        found = list(islice(self._files(ctx.check), MAX_FILES + 1))
        if len(found) > MAX_FILES:
            raise ToolError(f"These are more than {MAX_FILES:,} files", code="too_many_files", hint="Name fewer folders.")
        return found

    def _files(self, check: Callable[[], None], after: str = "") -> Iterator[FoundFile]:
        """The files of the settings, or those behind a path of them, each once. Raises as `_found`, and `InvalidArguments`."""
        config = self.config
        if not config.include:
            hint = 'Set "include": [{"path": "FOLDER"}] in its settings.'
            raise ToolError(f'Node "{self.node_id}" names no files', code="no_files", hint=hint)
        left_out = _Excluded(
            [self.whole(one["path"]) if "/" in one["path"] else one["path"] for one in config.exclude],
            leaves_system=bool(config.parameters.get("excludeEnableGlobal", True)),
        )
        included = [_Included(self, one["path"], left_out) for one in config.include]
        first, behind = _place_of(after, included) if after else (0, [])
        for n, one in enumerate(included[first:], first):
            for file in one.files(check, behind if n == first else []):
                if not any(earlier.has_real(file.identity) for earlier in included[:n]):
                    yield file

    def whole(self, path: str) -> str:
        """A path of the settings from the root of the file system."""
        return os.path.normpath(os.path.join(self.directory or os.getcwd(), path))


class _Included:
    """A path of `include`: a folder, and a file or a pattern in it, or all."""

    def __init__(self, node: FilesysNode, path: str, left_out: _Excluded) -> None:
        base, pattern = _split(path, node.whole)
        self.folder, self._name = base, ""
        if os.path.isfile(node.whole(base)):
            self.folder, self._name = os.path.dirname(base) or ".", os.path.basename(base)
        self._node = node
        self._left_out = left_out
        self._fits = re.compile(translate(pattern or "*")).match
        self._whole = node.whole(self.folder)
        self._real = os.path.realpath(self._whole)

    def files(self, check: Callable[[], None], after: Sequence[str]) -> Iterator[FoundFile]:
        """Its files, or those behind the names of a path below the folder."""
        with open_root(self._node, self.folder) as files:
            if self._name:
                info = None if after else files.info(self._name)
                yield from () if info is None else _entry(self.folder, self._real, self._name, info)
                return
            for file in _walk(files, FoundFile(self.folder, self._real, ""), self._whole, self._left_out, check, after):
                if self._fits(file.below):
                    yield file

    def has(self, below: str) -> bool:
        """Whether a path below the folder is one of its files, if it is there."""
        if self._name:
            return below == self._name
        names = below.split("/")
        paths = ("/".join(names[:n]) for n in range(1, len(names) + 1))
        return (
            len(names) <= MAX_DEPTH
            and {"", ".", ".."}.isdisjoint(names)
            and self._fits(below) is not None
            and not any(self._left_out.has(os.path.join(self._whole, path), path) for path in paths)
        )

    def has_real(self, path: str) -> bool:
        """Whether a path without links is one of its files."""
        folder = os.path.join(self._real, "")
        if path == folder:  # a folder that cannot be read is told once
            return not self._name
        return path.startswith(folder) and self.has(path[len(folder) :])


def _place_of(path: str, included: Sequence[_Included]) -> tuple[int, list[str]]:
    """The number of the first include that has a file, by the path that it has in a listing, and its names below the folder."""
    for n, one in enumerate(included):
        folder = os.path.join(os.path.normpath(one.folder), "").removeprefix("./")
        below = path.removeprefix(folder)
        if path.startswith(folder) and one.has(below):
            return n, below.split("/")
    raise InvalidArguments.at("/input/after", "is no path of this listing")


def _walk(
    files: Confinement,
    at: FoundFile,
    whole: str,
    left_out: _Excluded,
    check: Callable[[], None],
    behind: Sequence[str] = (),
) -> Iterator[FoundFile]:
    """The files below a folder, folder by folder, and what cannot be read there; `whole` is the path of the first folder.
    `behind`: only those behind a path in this folder, by its names.
    """
    try:
        after = behind[0] if behind else ""
        if len(behind) > 1:
            begun = FoundFile(at.folder, at.real, os.path.join(at.below, after))
            yield from _walk(files, begun, whole, left_out, check, behind[1:])
        while names := files.listing(at.below, limit=LIST_MAX, after=after, check=check):
            after = names[-1].name
            for info in names:
                below = os.path.join(at.below, info.name)
                if left_out.has(os.path.join(whole, below), below):
                    continue
                if info.type != "dir" or not info.addressable:
                    yield from _entry(at.folder, at.real, below, info)
                elif below.count("/") + 2 > MAX_DEPTH:
                    yield FoundFile(at.folder, at.real, below, problem=f"is deeper than {MAX_DEPTH} folders")
                else:
                    yield from _walk(files, FoundFile(at.folder, at.real, below), whole, left_out, check)
    except ToolError as error:
        if error.code != "path_not_found" or not at.below:  # removed meanwhile
            yield replace(at, problem=error.message)


def _entry(folder: str, real: str, below: str, info: FileInfo) -> Iterator[FoundFile]:
    file = FoundFile(folder, real, below, info.size, info.modified)
    if not info.addressable:
        yield replace(file, problem="its name is not UTF-8")
    elif info.type == "file":
        yield file
    else:
        yield replace(file, skipped="is a link, and none is followed" if info.type == "symlink" else "is no regular file")


def _split(path: str, whole: Callable[[str], str]) -> tuple[str, str]:
    """The folder or file that a path begins with, and the pattern below it; "" without one, also if a file has that name."""
    wild = WILD.search(path)
    if wild is None or os.path.lexists(whole(path)):
        return path, ""
    end = path.rfind("/", 0, wild.start()) + 1
    return path[:end] or ".", path[end:]


class _Excluded:
    """What is left out of folders."""

    def __init__(self, rules: Sequence[str], *, leaves_system: bool) -> None:
        self._rules = rules
        self._names = SYSTEM_NAMES if leaves_system else frozenset[str]()

    def has(self, whole: str, below: str) -> bool:
        """Whether a file is left out, by its whole path and the one below the folder that is read."""
        names = below.split("/")
        if not self._names.isdisjoint(names):
            return True
        for rule in self._rules:
            if "/" not in rule:
                if any(name == rule or fnmatchcase(name, rule) for name in names):
                    return True
            elif whole == rule or fnmatchcase(whole, rule) or whole.startswith(rule.rstrip("/") + "/"):
                return True
        return False


class FileWork:
    """Threads for what may block."""

    def __init__(self, ctx: SetupContext) -> None:
        self._ctx = ctx

    async def in_thread(self, function: Callable[..., T], *args: Any) -> T:
        """Run a function that reads folders or files on a thread of its own."""
        return await self._ctx.in_thread(function, *args)


class _Sending:
    """One call of `send_source_files`."""

    def __init__(self, node: FilesysNode, ctx: ToolContext, files: Sequence[FoundFile], *, keeps_results: bool) -> None:
        self._node = node
        self._ctx = ctx
        self._files = files
        self._results: list[dict[str, Any]] | None = [] if keeps_results else None
        self._results_size = 0
        self._is_cut = False
        self._counts = {"sent": 0, "skipped": 0, "failed": 0, "bytes": 0}
        self._stored: dict[str, int] = {}
        self._told: dict[str, list[dict[str, Any]]] = {"failures": [], "skips": []}

    async def run(self, jobs: int) -> None:
        """Send all files. A cancel ends those that are on their way."""
        waiting = iter(self._files)
        tasks = [asyncio.ensure_future(self._work(waiting)) for _ in range(min(jobs, len(self._files)))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def answer(self) -> dict[str, Any]:
        """What was done so far."""
        answer: dict[str, Any] = {**self._counts, "stored": dict(self._stored), **self._told}
        if self._results is not None:
            answer |= {"results": self._results, "resultsCut": self._is_cut}
        return answer

    async def _work(self, waiting: Iterator[FoundFile]) -> None:
        for file in waiting:
            await self._deal_with(file)
            counts = self._counts
            dealt = counts["sent"] + counts["skipped"] + counts["failed"]
            self._ctx.progress(dealt, len(self._files), shown(file.path))

    async def _deal_with(self, file: FoundFile) -> None:
        """Send a file, and note what became of it. Raises `Unavailable`, as the next file could not be sent either."""
        if file.problem:
            self._note("failed", file, "unreadable", file.problem)
        elif file.skipped:
            self._note("skipped", file, "not_a_file", file.skipped)
        else:
            try:
                result = await self._send(file)
            except OSError as error:
                self._note("failed", file, "unreadable", error.strerror or str(error))
            except Unavailable:
                raise
            except RrextError as error:
                self._ctx.check()
                self._note("skipped" if error.code in NOTHING_TO_READ else "failed", file, error.code, error.message)
            else:
                self._done(file, result)

    async def _send(self, file: FoundFile) -> dict[str, Any]:
        about = {
            "name": shown(os.path.basename(file.below)),
            "path": shown(file.path),
            "size": file.size,
            "url": url_of(file.identity),
            "metadata": {"source": shown(os.path.basename(file.real)), "modified": file.modified},
        }
        opening = asyncio.ensure_future(self._node.shared.in_thread(self._open, file))
        try:
            fd = await shielded(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close)
            raise
        try:
            return await self._ctx.send_object(about, self._pieces(fd), mime_type=mime_type_of(file.below))
        finally:
            os.close(fd)

    def _open(self, file: FoundFile) -> int:
        with open_root(self._node, file.folder) as files:
            return files.open_file(file.below)[0]

    async def _pieces(self, fd: int) -> AsyncIterator[bytes]:
        offset = 0
        while piece := await self._node.shared.in_thread(os.pread, fd, PIECE, offset):
            yield piece
            offset += len(piece)
            self._counts["bytes"] += len(piece)

    def _done(self, file: FoundFile, result: dict[str, Any]) -> None:
        self._counts["sent"] += 1
        for store, chunks in result.get("stored", {}).items():
            self._stored[store] = self._stored.get(store, 0) + chunks
        if self._results is not None and not self._is_cut:
            self._results_size += len(msgspec.json.encode(result))
            self._is_cut = self._results_size > RESULTS_MAX
            if not self._is_cut:
                self._results.append({"path": shown(file.path), "result": result})

    def _note(self, what: Literal["failed", "skipped"], file: FoundFile, code: str, message: str) -> None:
        self._counts[what] += 1
        told = self._told["failures" if what == "failed" else "skips"]
        if len(told) < MAX_TOLD:
            told.append({"path": shown(file.path), "code": code, "message": message})


def _close(opening: asyncio.Future[int]) -> None:
    """Close what was opened for a call that was cancelled meanwhile."""
    if not opening.cancelled() and opening.exception() is None:
        os.close(opening.result())
