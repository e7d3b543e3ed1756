"""The partitions of an embedded store: one shard for each owner, opened when it is used, in turns with other processes.
Importing this imports Qdrant.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import msgspec
import qdrant_edge as qe

from rrext.errors import RrextError, ToolError, Unavailable
from rrext.nodes.files.turns import Turns
from rrext.nodes.vectors.edge.folder import (
    FORMAT,
    WITHOUT_FACTS,
    WITHOUT_OWNERS,
    Manifest,
    StoreFolder,
)
from rrext.nodes.vectors.edge.messages import StoreChange, pieces_of
from rrext.nodes.vectors.edge.open_shard import (
    CHUNK,
    OpenShard,
    create_shard,
    fact_index,
    qdrant_errors,
    records,
    vector_of,
)
from rrext.nodes.vectors.points import EXTRA, FACTS, OWNER, chunk_of, facts_of
from rrext.nodes.vectors.store import NOBODYS, Chunk, VectorSpace
from rrext.tools.context import ToolContext

OPEN_PARTITIONS: Final = 16
"""Partitions that stay open when no call uses them. To open one takes a tenth of a second, and then it has eight threads, a
megabyte of memory, and 130 MB of files, mostly empty, in the cache of the system, which takes it back when it needs it."""

MOVED_AT_ONCE: Final = 1000
"""Chunks of an owner that are brought to a partition in one change."""

WRITE_AGAIN: Final = 0.05
"""Seconds between checks whether a waiting call has been cancelled."""

LOCKED: Final = "WouldBlock"
"""Qdrant's message for a locked log."""

log: Final = logging.getLogger("rrext.store_qdrant_edge")


class Partitions:
    """The partitions of the store in a folder. Of those that no call uses, the last `OPEN_PARTITIONS` stay open.

    The arguments are those of `ShardTurns`, for all partitions.
    """

    def __init__(self, folder: Callable[[], StoreFolder], *, min_free: int, wait: float, language: str) -> None:
        self.language = language
        self._find_folder = folder
        self._min_free = min_free
        self._wait = wait
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        """Those that are in use or open, in the order of their last uses."""
        self._is_present = False
        self._is_closed = False

    @contextmanager
    def of(self, owner: str, ctx: ToolContext) -> Iterator[ShardTurns]:
        """The partition of an owner, for a call."""
        if owner != NOBODYS and not self._is_present:
            self._bring_up_to_date(ctx)
        with self._lock:
            if self._is_closed:
                raise _refusal()
            kept = self._kept.pop(owner, None) or _Kept(self._turns(owner))
            self._kept[owner] = kept
            kept.users += 1
        try:
            yield kept.turns
        finally:
            for turns in self._surplus(kept):
                try:
                    turns.rest_if_idle()
                except RrextError:
                    log.exception("A partition was not closed in order")
            self._forget_closed()

    def close(self) -> None:
        """Close all partitions for good."""
        with self._lock:
            self._is_closed = True
            kept = list(self._kept.values())
        failures: list[RrextError] = []
        for one in kept:
            try:
                one.turns.close()
            except RrextError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _surplus(self, kept: _Kept) -> list[ShardTurns]:
        """End a use; the partitions that are not to stay open."""
        with self._lock:
            kept.users -= 1
            idle = [one.turns for one in self._kept.values() if not one.users and not one.turns.is_closed]
            return idle[: max(len(idle) - OPEN_PARTITIONS, 0)]

    def _forget_closed(self) -> None:
        with self._lock:
            for owner, one in list(self._kept.items()):
                if not one.users and one.turns.is_closed:
                    del self._kept[owner]

    def _turns(self, owner: str) -> ShardTurns:
        def folder() -> StoreFolder:
            whole = self._find_folder()
            if owner == NOBODYS:
                return whole
            whole.has_store()  # raises if the folder is something else
            return whole.partition(owner)

        return ShardTurns(folder, min_free=self._min_free, wait=self._wait, language=self.language)

    def _bring_up_to_date(self, ctx: ToolContext) -> None:
        """Open a store of an earlier version, in which all owners' chunks are together."""
        if self._find_folder().is_of_earlier_version():
            with self.of(NOBODYS, ctx) as turns, turns.use(ctx):
                pass
        self._is_present = True


class _Kept:
    """A partition, and the number of calls that use it."""

    def __init__(self, turns: ShardTurns) -> None:
        self.turns = turns
        self.users = 0


class ShardTurns:
    """The shard of one owner for all readers and writers of this process, in turns with other processes.

    `folder` makes its folder when it is opened; it may fail, because a path may lead out of its root. `wait` is in seconds,
    `language` that of the words in a new shard.
    """

    def __init__(self, folder: Callable[[], StoreFolder], *, min_free: int, wait: float, language: str) -> None:
        self.language = language
        self._find_folder = folder
        self._min_free = min_free
        self._wait = wait
        self._turns: Turns[OpenShard] = Turns(self._open, refusal=_refusal)
        self._writing = threading.Lock()

    @property
    def is_closed(self) -> bool:
        """Whether the shard is closed, and no thread opens or closes it just now."""
        return self._turns.is_closed

    def rest_if_idle(self) -> None:
        """Close the shard unless a call uses it; the next call opens it again."""
        self._turns.rest_if_idle()

    @contextmanager
    def use(self, ctx: ToolContext) -> Iterator[OpenShard | None]:
        """Open the shard if necessary, for the block; None if there is no store yet."""
        ctx.check()
        with self._turns.use(ctx.check) as opened:
            yield opened

    @contextmanager
    def writing(self, ctx: ToolContext) -> Iterator[OpenShard | None]:
        """The shard for one writer at a time. A failed change is repeated when the store is next opened."""
        while not self._writing.acquire(timeout=WRITE_AGAIN):
            ctx.check()
        opened = None
        try:
            with self.use(ctx) as opened:
                yield opened
        finally:
            if opened is not None and opened.is_between:
                with suppress(RrextError):
                    self._turns.rest(lambda: None)
            self._writing.release()

    def make(self, space: VectorSpace, ctx: ToolContext) -> None:
        """Create the store, unless there is one that holds chunks or has the same space and language."""

        def check() -> None:
            ctx.check()
            self._turns.require_open()

        self._turns.rest(check)
        folder = self._find_folder()
        folder.acquire(self._wait, check)
        try:
            if folder.has_store():
                manifest = folder.manifest()
                same = (manifest.space, manifest.language) == (space, self.language)
                if not manifest.clean or manifest.chunks or same:
                    return
            folder.require_room(self._min_free)
            with qdrant_errors():
                folder.begin(space, self.language, lambda path: create_shard(path, space.size, self.language))
        finally:
            folder.release()

    def close(self) -> None:
        """Close the store for good."""
        self._turns.close()

    def _open(self, check: Callable[[], object]) -> OpenShard | None:
        folder = self._find_folder()
        if not folder.has_store():
            return None
        folder.acquire(self._wait, check)
        try:
            return _opened(folder, self._min_free)
        except BaseException:
            folder.release()
            raise


def _refusal() -> Unavailable:
    return Unavailable("This vector store is closed: its pipeline ends")


def _opened(folder: StoreFolder, min_free: int) -> OpenShard:
    """Open the shard of a folder that is locked, and finish what an ended process left unfinished."""
    manifest = folder.manifest()
    # From here on Qdrant may change files, so the manifest's checksums are no longer valid.
    folder.save(msgspec.structs.replace(manifest, clean=False))
    try:
        shard = _loaded(folder, manifest)
    except ToolError:
        folder.save(manifest)
        raise
    try:
        opened = OpenShard(folder, manifest, shard, min_free)
        opened.resume()
        if manifest.format != FORMAT:
            _renew(opened, min_free)
    except BaseException:
        shard.close()
        raise
    return opened


def _loaded(folder: StoreFolder, manifest: Manifest) -> qe.EdgeShard:
    try:
        with qdrant_errors():
            shard = qe.EdgeShard.load(folder.shard)
            chunks = shard.count(qe.CountRequest(exact=True))
    except ToolError as error:
        if LOCKED in error.message:  # Qdrant's own lock: a child that was forked while the store was open holds it too
            raise folder.in_use("a process that was forked from one that had it open") from error
        raise folder.corrupt(error.message) from error
    if manifest.clean and chunks != manifest.chunks:
        shard.close()
        raise folder.corrupt(f"it had {manifest.chunks} chunks when it was closed, and {chunks} can be read")
    return shard


def _renew(opened: OpenShard, min_free: int) -> None:
    """Bring a store of an earlier format to the present one. A process that is killed meanwhile leaves it to the next one."""
    format, shard = opened.manifest.format, opened.shard
    if format <= WITHOUT_OWNERS:
        with qdrant_errors():
            unowned = qe.Filter(must=[qe.IsEmptyCondition(OWNER)])
            shard.update(qe.UpdateOperation.set_payload_by_filter(unowned, {OWNER: NOBODYS}))
    else:
        _part(opened, min_free)
    if format <= WITHOUT_FACTS:
        _add_facts(shard)
    with qdrant_errors():
        shard.flush()
    opened.manifest = msgspec.structs.replace(opened.manifest, format=FORMAT, clean=False)
    opened.folder.save(opened.manifest)


def _part(opened: OpenShard, min_free: int) -> None:
    """Move the chunks of all owners but nobody to their partitions: each owner's are there before they are deleted here.

    The index of owners stays: the manifest names its files until the store is closed, and would miss them.
    """
    manifest, shard = opened.manifest, opened.shard
    owners = {(one.payload or {})[OWNER] for one in records(shard, None, _go_on, qe.PayloadSelector.Include([OWNER]))}
    for owner in sorted(owners - {NOBODYS}):
        theirs = qe.Filter(must=[qe.FieldCondition(OWNER, match=qe.MatchValue(owner))])
        folder = opened.folder.partition(owner)
        folder.acquire(0, _go_on)
        try:
            if not folder.has_store():
                with qdrant_errors():
                    folder.begin(
                        manifest.space,
                        manifest.language,
                        lambda path: create_shard(path, manifest.vector_size, manifest.language),
                    )
            partition = _opened(folder, min_free)
        except BaseException:
            folder.release()
            raise
        try:
            _copy(records(shard, theirs, _go_on, CHUNK, vectors=True), partition)
        finally:
            partition.close()
        with qdrant_errors():
            shard.update(qe.UpdateOperation.delete_points_by_filter(theirs))
    with qdrant_errors():
        opened.is_empty = not shard.count(qe.CountRequest(exact=True))


def _copy(found: Iterator[qe.Record], partition: OpenShard) -> None:
    chunks: list[Chunk] = []
    vectors: list[Sequence[float]] = []

    def store() -> None:
        partition.do(StoreChange(list(pieces_of(chunks, vectors))))
        chunks.clear()
        vectors.clear()

    for one in found:
        chunks.append(chunk_of(one.payload or {}))
        vectors.append(vector_of(one))
        if len(chunks) == MOVED_AT_ONCE:
            store()
    store()


def _go_on() -> None:
    """For what no call may cancel: it would begin anew with the next one, again and again."""


def _add_facts(shard: qe.EdgeShard) -> None:
    """Give all points the fields by which metadata is filtered."""
    with qdrant_errors():
        shard.update(qe.UpdateOperation.create_field_index(FACTS, fact_index()))
    for record in records(shard, None, _go_on, qe.PayloadSelector.Include([EXTRA])):
        facts = facts_of(msgspec.json.decode((record.payload or {})[EXTRA]))
        with qdrant_errors():
            shard.update(qe.UpdateOperation.set_payload([record.id], facts))
