"""The file store of a server: for each user a confined directory with a quota, for each connection its open files.

Files appear whole, when they are closed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from hashlib import sha256
from itertools import count
from threading import Lock
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from rrext.errors import InvalidArguments, RrextError, ToolError, Unavailable
from rrext.files.confinement import MAX_DEPTH, Confinement, FileInfo, explained, read_at, refusal
from rrext.limits import GIB, LAST_CALLS_TIMEOUT, MIB
from rrext.threads import shielded


class FileStoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The directory of a file store, and its limits. `quota`, `file_size` and `names` are those of a user."""

    directory: str
    quota: int = 4 * GIB
    """Bytes of all files, unfinished ones included. `--store-quota`."""
    file_size: int = GIB
    """Bytes of one file; a client that never ends a file cannot fill the quota with it."""
    names: int = 100_000
    """Files and directories; a listing has them all, and counting them at the first use takes about a second."""
    open_files: int = 64
    """Open files of one connection; each is a descriptor of the process."""


READ_PIECE: Final = 4 * MIB
"""What one `fs_read` returns at most, as in RocketRide."""

READ_MANY_PATHS: Final = 256
CONNECTION_JOBS: Final = 4
"""Operations of one connection that use the disk at once; each has a thread."""

STORE_JOBS: Final = 32
"""Operations of all connections that use the disk at once."""

READABLE_USER: Final = 100
"""Characters of a quoted user id that names a folder; file systems take 255 bytes. Longer ones are hashed."""

T = TypeVar("T")
InThread: TypeAlias = Callable[..., Awaitable[Any]]
"""Runs a blocking function on a thread."""

Body: TypeAlias = dict[str, Any]


class FileStore:
    """The files of all users below one directory, and the open files of each connection. On one loop.

    Operations on one open file take effect in the order in which they were begun; others have no order. An operation that
    is cancelled still ends: nothing else uses its file before, and a cancelled write fails the file.
    """

    def __init__(self, settings: FileStoreSettings, in_thread: InThread) -> None:
        self._settings = settings
        self._in_thread = in_thread
        self.serial = count(1)
        """The numbers of handles, which are never used again."""
        self._jobs = asyncio.Semaphore(STORE_JOBS)
        self._users: dict[str, asyncio.Task[UserFiles]] = {}
        self._connections: dict[str, _Connection] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def session(self, connection_id: str, user_id: str | None) -> StoreSession:
        """The store as a user of a connection sees it."""
        connection = self._connections.get(connection_id)
        if connection is None:
            connection = self._connections[connection_id] = _Connection(self._jobs, self._in_thread)
        return StoreSession(self, connection, folder_of(user_id), self._settings)

    def disconnect(self, connection_id: str) -> None:
        """Close the open files of a connection that ended; those that were written are given up."""
        connection = self._connections.pop(connection_id, None)
        if connection is not None:
            connection.is_closed = True
            for opened in connection.opened.values():
                self.discard(opened)
            connection.opened.clear()

    async def aclose(self) -> None:
        """Close every open file, and the directories."""
        for connection_id in list(self._connections):
            self.disconnect(connection_id)
        if self._closing:
            await asyncio.wait(self._closing, timeout=LAST_CALLS_TIMEOUT)
        for opening in self._users.values():
            if opening.done() and not opening.cancelled() and opening.exception() is None:
                opening.result().close()
        self._users.clear()

    async def files_of(self, folder: str, connection: _Connection) -> UserFiles:
        """The files of a user, counted at first use."""
        opening = self._users.get(folder)
        if opening is None:
            opening = self._users[folder] = _begun(connection.run(self._open, folder))
        try:
            return await shielded(opening)
        except (OSError, ToolError) as error:
            self._users.pop(folder, None)
            raise Unavailable(f"The file store cannot be used: {getattr(error, 'strerror', None) or error}") from error

    def _open(self, folder: str) -> UserFiles:
        with Confinement.at(self._settings.directory) as root:
            return UserFiles(root, folder, self._settings)

    def discard(self, opened: _OpenFile) -> None:
        """Close a file that no client can name any more, and remove it if it was being written."""
        closing = _begun(opened.discard())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


class _Connection:
    """The open files of one connection, by handle, and its share of the threads."""

    def __init__(self, jobs: asyncio.Semaphore, in_thread: InThread) -> None:
        self.opened: dict[str, _OpenFile] = {}
        self.is_closed = False
        self._own, self._all = asyncio.Semaphore(CONNECTION_JOBS), jobs
        self._in_thread = in_thread

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Run a blocking function in its turn. The places come back when it has returned, also after a cancel."""
        return await shielded(_begun(self._run(function, *args)))

    async def _run(self, function: Callable[..., T], *args: Any) -> T:
        async with self._own, self._all:
            return await self._in_thread(function, *args)


class _OpenFile:
    """An open file with the line of its operations."""

    def __init__(self, connection: _Connection, folder: str, file: ReadHandle | WriteHandle) -> None:
        self.folder = folder
        self.file = file
        self._connection = connection
        self._line = asyncio.Lock()

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Run a blocking function after those that were begun before it, also if its caller waits no longer."""
        return await shielded(_begun(self._run(function, *args)))

    async def _run(self, function: Callable[..., T], *args: Any) -> T:
        async with self._line:
            return await self._connection.run(function, *args)

    async def discard(self) -> None:
        """Close the file, and remove it if it was being written."""
        with suppress(RrextError, OSError):
            await self.run(self.file.discard)


class StoreSession:
    """The operations of one user on one connection. Their bodies are those of protocol.md §13. They raise `RrextError`."""

    def __init__(self, store: FileStore, connection: _Connection, folder: str, settings: FileStoreSettings) -> None:
        self._store, self._connection, self._folder, self._settings = store, connection, folder, settings

    async def open(self, path: str, mode: str) -> Body:
        """Open a file to read it or to write it: its handle, which belongs to this user of this connection."""
        if mode not in ("r", "w"):
            raise InvalidArguments.at("/mode", 'expected "r" or "w"')
        self._check_room()
        files = await self._files()
        opening = _begun(self._connection.run(files.reader if mode == "r" else files.writer, path))
        try:
            file: ReadHandle | WriteHandle = await shielded(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._drop)
            raise
        opened = _OpenFile(self._connection, self._folder, file)
        try:
            self._check_room()  # again: other files may have been opened meanwhile
        except ToolError:
            self._store.discard(opened)
            raise
        handle = f"h{next(self._store.serial)}"
        self._connection.opened[handle] = opened
        return {"handle": handle, "size": file.size} if isinstance(file, ReadHandle) else {"handle": handle}

    async def read(self, handle: str, offset: int, length: int) -> bytes:
        """At most `length` bytes of a file that is open for reading."""
        if offset < 0:
            raise InvalidArguments.at("/offset", "expected at least 0")
        if length < 0:
            raise InvalidArguments.at("/length", "expected at least 0")
        opened = self._opened(handle)
        if not isinstance(opened.file, ReadHandle):
            raise InvalidArguments.at("/handle", "this file is open for writing")
        return await opened.run(opened.file.read, offset, min(length, READ_PIECE))

    async def write(self, handle: str, data: bytes) -> Body:
        """Append to a file that is open for writing."""
        opened = self._opened(handle)
        file = opened.file
        if not isinstance(file, WriteHandle):
            raise InvalidArguments.at("/handle", "this file is open for reading")
        try:
            await opened.run(file.write, data, self._settings.file_size)
        except asyncio.CancelledError:
            file.failure = ToolError("a write was cancelled", code="write_cancelled")
            raise
        return {"bytesWritten": len(data)}

    async def close(self, handle: str, *, discard: bool) -> Body:
        """Close a file; what was written appears at its path, or goes. The handle is gone, also after a failure."""
        opened = self._opened(handle)
        del self._connection.opened[handle]
        await opened.run(opened.file.discard if discard else opened.file.close)
        return {}

    async def stat(self, path: str) -> Body:
        """The entry at a path, if there is one."""
        info = await self._run(UserFiles.info, path)
        return {"exists": False} if info is None else {"exists": True, **_facts(info)}

    async def list_directory(self, path: str) -> Body:
        """The names in a directory."""
        found = await self._run(UserFiles.entries, path)
        return {"entries": [{"name": each.name, **_facts(each)} for each in found], "count": len(found)}

    async def delete(self, path: str) -> Body:
        """Remove a file."""
        await self._run(UserFiles.delete, path)
        return {}

    async def make_directory(self, path: str) -> Body:
        """Make a directory and those above it."""
        await self._run(UserFiles.make_directory, path)
        return {}

    async def remove_directory(self, path: str, *, recursive: bool) -> Body:
        """Remove a directory."""
        files = await self._files()
        await self._connection.run(lambda: files.remove_directory(path, recursive=recursive))
        return {}

    async def rename(self, path: str, new_path: str) -> Body:
        """Give a file or a directory another path."""
        await self._run(UserFiles.rename, path, new_path)
        return {}

    async def read_many(self, paths: list[str]) -> tuple[Body, bytes]:
        """Small files, each with its length in one frame."""
        if len(paths) > READ_MANY_PATHS:
            raise InvalidArguments.at("/paths", f"expected at most {READ_MANY_PATHS} paths")
        entries, frame = await self._run(UserFiles.read_many, paths)
        return {"entries": entries}, frame

    async def _files(self) -> UserFiles:
        return await self._store.files_of(self._folder, self._connection)

    async def _run(self, function: Callable[..., T], *args: Any) -> T:
        return await self._connection.run(function, await self._files(), *args)

    def _opened(self, handle: str) -> _OpenFile:
        opened = self._connection.opened.get(handle)
        if opened is None or opened.folder != self._folder:
            raise ToolError("No file is open with this handle", code="handle_not_open", hint="It ends with its connection.")
        return opened

    def _drop(self, opening: asyncio.Future[ReadHandle | WriteHandle]) -> None:
        """Close a file that nobody waits for."""
        if not opening.cancelled() and opening.exception() is None:
            self._store.discard(_OpenFile(self._connection, self._folder, opening.result()))

    def _check_room(self) -> None:
        most = self._settings.open_files
        if self._connection.is_closed or len(self._connection.opened) >= most:
            message = f"This connection has {most} open files (open_files): close some of them first"
            raise ToolError(message, code="too_many_handles")


def _begun(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task that goes on to its end although nobody may wait for it; then its failure concerns nobody."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    return task


def folder_of(user_id: str | None) -> str:
    """The folder of a user: another one for each user, and a single name that leads nowhere else."""
    if user_id is None:
        return "anonymous"
    quoted = quote(user_id, safe="", errors="surrogatepass").replace(".", "%2E").replace("~", "%7E")
    if len(quoted) <= READABLE_USER:
        return f"user-{quoted}"
    return f"hash-{sha256(user_id.encode(errors='surrogatepass')).hexdigest()}"


def _facts(info: FileInfo) -> Body:
    size: Final = {"size": info.size} if info.type == "file" else {}
    addressable = {} if info.addressable else {"addressable": False}
    return {"type": info.type, **size, "modified": info.modified, **addressable}


READ_MANY_BYTES: Final = 32 * MIB
"""What one `fs_read_many` takes and returns at most, as in RocketRide."""

ABANDONED: Final = 86_400.0
"""Age of an unfinished file that a server left when it was killed; a younger one may be another server's."""

_SERIAL: Final = count()


class UserFiles:
    """Reads and changes the files of one user. Every method blocks, may be called from any thread, and raises `ToolError`.

    Files that are being written stand in a folder of their own beside the user's, so that nobody sees half of one. Their
    bytes count as used; so does the file that one replaces, until it does.
    """

    def __init__(self, root: Confinement, folder: str, settings: FileStoreSettings) -> None:
        root.make_directory(f"{folder}/files")
        root.make_directory(f"{folder}/unfinished")
        self._settings = settings
        self._unfinished = root.beneath(f"{folder}/unfinished")
        self._files = root.beneath(f"{folder}/files")
        _remove_abandoned(self._unfinished)
        self._changes = Lock()
        """Held while names change, so that checks before a change stay true."""
        self._counts = Lock()
        used = self._files.size_of(".")
        self._bytes, self._entries = used.size, used.entries

    def close(self) -> None:
        """Close the descriptors of the directories."""
        self._files.close()
        self._unfinished.close()

    # looking

    def reader(self, path: str) -> ReadHandle:
        """Open a file to read it."""
        return ReadHandle(path, *self._files.open_file(path))

    def info(self, path: str) -> FileInfo | None:
        """The info of a path; None if nothing is there."""
        try:
            return self._files.info(path)
        except ToolError as error:
            if error.code == "not_a_directory":  # a file has the name of a folder on the way
                return None
            raise

    def entries(self, path: str) -> list[FileInfo]:
        """Everything in a directory, by name."""
        most = self._settings.names
        found = self._files.listing(path or ".", limit=most + 1)
        if len(found) > most:
            raise refusal(path, "too_many_entries", f"has more than {most} names (names)")
        return found

    def read_many(self, paths: list[str]) -> tuple[list[dict[str, Any]], bytes]:
        """Read small files: an entry for each path, and a frame with the length and the bytes of each, none of failed ones."""
        entries: list[dict[str, Any]] = []
        pieces: list[bytes] = []
        room = READ_MANY_BYTES
        for path in paths:
            data = b""
            try:
                data, size = self._files.read(path, limit=room + 1)
                if size > room:
                    data = b""
                    raise refusal(
                        path, "file_too_large", f"does not fit: one call reads at most {READ_MANY_BYTES} bytes in all"
                    )
                entries.append({"path": path, "ok": True})
            except ToolError as error:
                entries.append({"path": path, "ok": False, "error": error.message, "code": error.code})
            room -= len(data)
            pieces += (len(data).to_bytes(4, "big"), data)
        return entries, b"".join(pieces)

    # changing

    def writer(self, path: str) -> WriteHandle:
        """Begin a file, which appears when it is closed. Makes the folders above it."""
        with self._changes:
            info = self.info(path)
            if info is not None and info.type != "file":
                raise refusal(path, "not_a_file", "is not a regular file")
            self._make(_folder(path), more=info is None)
            name = f"{os.getpid()}-{next(_SERIAL)}-{os.urandom(4).hex()}"
            return WriteHandle(self, path, name, self._unfinished.create(name))

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it."""
        with self._changes:
            self._make(path)

    def delete(self, path: str) -> None:
        """Remove a file."""
        with self._changes:
            info = self.info(path)
            self._files.delete(path)
            self._release(0 if info is None else info.size, 1)

    def remove_directory(self, path: str, *, recursive: bool) -> None:
        """Remove a directory, which must be empty unless `recursive`."""
        with self._changes:
            before = self._files.size_of(path) if recursive else None
            try:
                self._files.remove_directory(path, recursive=recursive)
            except ToolError:
                if before is not None:  # a part of it may be gone
                    self._recount()
                raise
            if before is None:
                self._release(0, 1)
            else:
                self._release(before.size, before.entries + 1)

    def rename(self, path: str, new_path: str) -> None:
        """Give a file or directory another path, at which nothing may be. Makes the folders above it."""
        with self._changes:
            info = self.info(path)
            if info is None:
                raise refusal(path, "path_not_found", "does not exist")
            old, new = _names(path), _names(new_path)
            if old == new[: len(old)]:
                raise refusal(new_path, "path_exists" if old == new else "path_invalid", "is, or lies in, what is renamed")
            if info.type == "dir" and len(new) + self._files.size_of(path).depth > MAX_DEPTH:
                raise refusal(new_path, "path_invalid", f"would be more than {MAX_DEPTH} directories deep")
            if self.info(new_path) is not None:
                raise refusal(new_path, "path_exists", "exists already")
            self._make(_folder(new_path))
            self._files.rename(path, new_path)

    # the writers' side

    def reserve(self, size: int) -> None:
        """Count bytes that are about to be written."""
        with self._counts:
            quota = self._settings.quota
            if self._bytes + size > quota:
                raise ToolError(
                    f"The store is full: {self._bytes} of {quota} bytes (--store-quota) are used, {size} more do not fit",
                    code="quota_exceeded",
                    hint="Delete files first.",
                )
            self._bytes += size

    def finish(self, path: str, name: str) -> None:
        """Put an unfinished file in its place."""
        with self._changes:
            before = self.info(path)
            self._make(_folder(path), more=before is None)
            replaced = self._files.take_in(path, self._unfinished, name)
            if replaced is None:
                self._count(entries=1)
            else:
                self._release(replaced.size, 0)

    def discard(self, name: str, size: int) -> None:
        """Remove an unfinished file."""
        self._release(size, 0)
        with suppress(ToolError):
            self._unfinished.delete(name)

    # counting

    def _make(self, path: str, *, more: bool = False) -> None:
        """Make a directory and those above it, if there is room for their names, and for one more if asked."""
        missing = self._files.missing(path)
        most = self._settings.names
        if missing + more and self._entries + missing + more > most:
            raise ToolError(
                f"The store is full: it has {self._entries} of {most} files and directories (names)",
                code="quota_exceeded",
                hint="Delete files first.",
            )
        self._count(entries=self._files.make_directory(path))

    def _count(self, *, entries: int) -> None:
        with self._counts:
            self._entries += entries

    def _release(self, size: int, entries: int) -> None:
        with self._counts:
            self._bytes -= size
            self._entries -= entries

    def _recount(self) -> None:
        now, waiting = self._files.size_of("."), self._unfinished.size_of(".")
        with self._counts:
            self._bytes, self._entries = now.size + waiting.size, now.entries


class ReadHandle:
    """An open file of a user, as it was when it was opened: one that replaces it is another one."""

    is_writer: Final = False

    def __init__(self, path: str, fd: int, size: int) -> None:
        self._path, self._fd = path, fd
        self.size = size

    def read(self, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset`; none at the end of the file."""
        with explained(self._path):
            return read_at(self._fd, offset, length)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    discard = close


class WriteHandle:
    """A file that is being written. `close` puts it in its place, `discard` removes it. One thread at a time uses it."""

    is_writer: Final = True

    def __init__(self, files: UserFiles, path: str, name: str, fd: int) -> None:
        self._files, self._path, self._name, self._fd = files, path, name, fd
        self._size = 0
        self.failure: ToolError | None = None
        """The reason why the file lacks bytes: it is not put in its place."""

    def write(self, data: bytes, limit: int) -> None:
        """Append bytes; `limit` is the largest size of a file."""
        self._check()
        try:
            if self._size + len(data) > limit:
                raise refusal(self._path, "file_too_large", f"would have more than {limit} bytes (file_size)")
            self._files.reserve(len(data))
            self._size += len(data)
            with explained(self._path):
                view = memoryview(data)
                while view:
                    view = view[os.write(self._fd, view) :]
        except ToolError as error:
            self.failure = error.again()
            raise

    def close(self) -> None:
        """Put the file in its place, whole or not at all."""
        try:
            self._check()
            with explained(self._path):
                os.fsync(self._fd)
            self._files.finish(self._path, self._name)
        except BaseException:
            self.discard()
            raise
        os.close(self._fd)

    def discard(self) -> None:
        """Close and remove the file."""
        os.close(self._fd)
        self._files.discard(self._name, self._size)

    def _check(self) -> None:
        if self.failure is not None:
            failure = self.failure
            raise ToolError(f"Nothing of the file is kept: {failure.message}", code=failure.code, hint=failure.hint)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _folder(path: str) -> str:
    return "/".join(_names(path)[:-1])


def _remove_abandoned(unfinished: Confinement) -> None:
    """Remove what servers left that were killed while a client wrote."""
    now = time.time()
    for info in unfinished.listing(".", limit=10_000):
        if now - info.modified > ABANDONED:
            with suppress(ToolError):
                unfinished.delete(info.name)
