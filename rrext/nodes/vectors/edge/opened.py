"""The engine's shard while it is open: opened at first use, flushed now and then, closed in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
import qdrant_edge as qe

from rrext.errors import ToolError, Unavailable
from rrext.nodes.vectors.edge.folder import FORMAT, Manifest, StoreFolder
from rrext.nodes.vectors.edge.reindex import index_words
from rrext.nodes.vectors.edge.requests import create_shard
from rrext.nodes.vectors.store import Space
from rrext.tools.context import ToolContext

__all__ = ["OpenShard", "engine_errors"]

FLUSH_EVERY: Final = 16 * 1024 * 1024
"""Bytes that wait in the engine's log at most before they go to their places. All of them are read again after a crash."""

INDEXES: Final = "/payload_index/"
"""Where the engine has files that go when an index goes."""
LOCKED: Final = "WouldBlock"
"""What the engine says of a log that is locked."""


class OpenShard:
    """The shard of a folder. `lock` is held by whoever writes; reading needs it only to open the shard.

    `folder` names the folder when the store is opened, which may fail, as a path may lead out of where it may.
    """

    __slots__ = ("_closed", "_find_folder", "_min_free", "_shard", "_unflushed", "folder", "lock", "manifest")

    def __init__(self, folder: Callable[[], StoreFolder], *, min_free: int) -> None:
        self.lock = threading.RLock()
        self.folder: StoreFolder | None = None
        self.manifest: Manifest | None = None
        self._find_folder = folder
        self._min_free = min_free
        self._shard: qe.EdgeShard | None = None
        self._unflushed = 0
        self._closed = False

    @property
    def space(self) -> Space | None:
        """The space of the open store; None if there is none."""
        return self.manifest.space if self.manifest is not None else None

    def get(self, ctx: ToolContext) -> qe.EdgeShard | None:
        """The shard, opened if it has to be; None if there is no store yet."""
        ctx.check()
        shard = self._shard
        if shard is not None:
            return shard
        with self.lock:
            self._require_not_closed()
            if self._shard is None:
                folder = self._find_folder()
                if folder.has_store():
                    self._open(folder)
            return self._shard

    def create(self, space: Space) -> qe.EdgeShard:
        """Make the store, unless it is there, and open it. The lock is held."""
        self._require_not_closed()
        folder = self._find_folder()
        folder.acquire()
        try:
            if not folder.has_store():
                folder.require_room(self._min_free)
                with engine_errors():
                    folder.begin(space, lambda path: create_shard(path, space.size))
        finally:
            folder.release()
        return self._open(folder)

    def _open(self, folder: StoreFolder) -> qe.EdgeShard:
        folder.acquire()
        try:
            manifest = folder.manifest()
            # From here on the engine may change files: what was noted of them holds no more.
            folder.save(msgspec.structs.replace(manifest, clean=False))
            try:
                shard = _loaded(folder, manifest)
            except ToolError:
                folder.save(manifest)
                raise
            if manifest.format != FORMAT:
                manifest = self._renewed(folder, manifest, shard)
        except BaseException:
            folder.release()
            raise
        self.folder, self.manifest, self._shard, self._unflushed = folder, manifest, shard, 0
        return shard

    def _renewed(self, folder: StoreFolder, manifest: Manifest, shard: qe.EdgeShard) -> Manifest:
        """Make a store of an older format one of today's. It stays the older one until that is done."""
        try:
            folder.require_room(self._min_free)
            kept = {name: file for name, file in manifest.files.items() if INDEXES not in name}
            folder.save(msgspec.structs.replace(manifest, clean=False, files=kept))
            with engine_errors():
                index_words(shard)
        except BaseException:
            shard.close()
            raise
        renewed = msgspec.structs.replace(manifest, format=FORMAT, clean=False, files=folder.files())
        folder.save(renewed)
        return renewed

    def require_room(self) -> None:
        """Raise `ToolError` (`store_full`) if the disk is nearly full."""
        if self.folder is not None:
            self.folder.require_room(self._min_free)

    def written(self, size: int) -> None:
        """So many bytes were written. The lock is held."""
        self._unflushed += size
        if self._unflushed >= FLUSH_EVERY and self._shard is not None:
            self._unflushed = 0
            with engine_errors():
                self._shard.flush()

    def close(self) -> None:
        """Flush and close, and let others have the folder."""
        with self.lock:
            self._closed = True
            shard, self._shard = self._shard, None
            if shard is None or self.folder is None or self.manifest is None:
                return
            try:
                with engine_errors():
                    shard.flush()
                    chunks = shard.count(qe.CountRequest(exact=True))
                    shard.close()
                noted = msgspec.structs.replace(self.manifest, clean=True, chunks=chunks, files=self.folder.files())
                self.folder.save(noted)
            finally:
                self.folder.release()

    def _require_not_closed(self) -> None:
        if self._closed:
            raise Unavailable("This vector store is closed: its pipeline ends")

    def __repr__(self) -> str:
        return f"<OpenShard {self.folder or 'closed'}>"


def _loaded(folder: StoreFolder, manifest: Manifest) -> qe.EdgeShard:
    try:
        with engine_errors():
            shard = qe.EdgeShard.load(folder.shard)
            chunks = shard.count(qe.CountRequest(exact=True))
    except ToolError as error:
        if LOCKED in error.message:  # the engine's own lock: a child that was forked while the store was open has it too
            raise folder.in_use("a process that was forked from one that had it open") from error
        raise folder.corrupt(error.message) from error
    if manifest.clean and chunks != manifest.chunks:
        shard.close()
        raise folder.corrupt(f"it had {manifest.chunks} chunks when it was closed, and {chunks} can be read")
    return shard


@contextmanager
def engine_errors() -> Iterator[None]:
    """Turns what the engine raises into `ToolError` (`store_failed`): plain exceptions, and panics of its Rust code."""
    try:
        yield
    except (ToolError, Unavailable):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        sentence = str(error).strip().partition("\n")[0] or "The engine failed without a word"
        raise ToolError(sentence, code="store_failed") from error
