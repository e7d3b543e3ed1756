"""Qdrant's shard while it is open, and its turns between processes. Importing this imports Qdrant."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import msgspec
import qdrant_edge as qe

from rrext.errors import RrextError, ToolError, Unavailable
from rrext.nodes.files.turns import Turns
from rrext.nodes.vectors.edge.folder import FORMAT, WITHOUT_OWNERS, Manifest, StoreFolder
from rrext.nodes.vectors.edge.journal import QDRANT_BATCH, StoreChange
from rrext.nodes.vectors.edge.path_counts import PathCounts
from rrext.nodes.vectors.edge.requests import OBJECT, OWNER, PARENT, create_shard, owner_index, point_of
from rrext.nodes.vectors.store import NOBODYS, VectorSpace, require_language, require_space
from rrext.tools.context import ToolContext

FLUSH_EVERY: Final = 16 * 1024 * 1024
"""The maximum bytes of Qdrant's log before a flush to its files. All of them are read again after a crash."""
WRITTEN_TIMES: Final = 3
"""How many times the bytes of a change are written: in the journal, in Qdrant's log, and in its files."""
WRITE_AGAIN: Final = 0.05
"""Seconds between checks whether a waiting call has been cancelled."""

LOCKED: Final = "WouldBlock"
"""Qdrant's message for a locked log."""


class OpenShard:
    """The shard of a folder that this process has locked. Changes run one after the other; reads run at any time.

    `places` are counted for each owner at their first use, and kept up to date from then on.
    """

    def __init__(self, folder: StoreFolder, manifest: Manifest, shard: qe.EdgeShard, min_free: int) -> None:
        self.folder = folder
        self.manifest = manifest
        self.shard = shard
        self.places: dict[str, PathCounts] | None = None
        self.is_between = False
        """Whether a change was begun and is not done."""
        self.is_empty = True
        """Whether there was no chunk after the last change. Each search asks for the space, so it is not looked up then."""
        self._min_free = min_free
        self._unflushed = 0
        with qdrant_errors():
            facets = shard.facet(qe.FacetRequest(OWNER, limit=2, exact=True)).hits
        self._owners = {str(hit.value) for hit in facets}
        """The owners of what is stored, or was since then; of more than two, two."""

    def is_of(self, owner: str | None) -> bool:
        """Whether nobody but this owner has stored anything. It is false before a chunk of another one can be found."""
        return self._owners <= {owner}

    @property
    def space(self) -> VectorSpace | None:
        """The vector space of the stored vectors; None if the store is empty."""
        return None if self.is_empty else self.manifest.space

    def fits(self, space: VectorSpace, language: str) -> bool:
        """Whether vectors of a space and words of a language can be stored; false if the store is empty and has others.

        Raises `ToolError` if it has others and is not empty.
        """
        if self.is_empty:
            return (self.manifest.space, self.manifest.language) == (space, language)
        require_space(self.manifest.space, space, doing="These documents were embedded")
        require_language(self.manifest.language, language, words_of=f'"{self.folder.shown}"', another="folder")
        return True

    def do(self, change: StoreChange) -> None:
        """Make a change as a whole: once the journal has it, the next process to open the store completes it if necessary."""
        if change.pieces:
            self.folder.require_room(self._min_free, WRITTEN_TIMES * change.size)
        self.is_between = True
        try:
            self.folder.journal.write(change)
        except OSError as error:
            raise self.folder.unusable(error) from error
        self._carry_out(change)

    def resume(self) -> None:
        """Carry out the change of the journal that an ended process left behind, if any."""
        try:
            change = self.folder.journal.read()
        except OSError as error:
            raise self.folder.unusable(error) from error
        if change is not None and change.pieces:
            self.folder.require_room(self._min_free, WRITTEN_TIMES * change.size)
        self._carry_out(change or StoreChange())

    def _carry_out(self, change: StoreChange) -> None:
        places, self.places = self.places, None  # if Qdrant fails, the paths are counted anew
        for piece in change.pieces:
            chunks, vectors = piece.decoded()
            self._owners = self._owners.union(chunk.owner for chunk in chunks)
            points = [point_of(chunk, vector) for chunk, vector in zip(chunks, vectors, strict=True)]
            self._forget(places, [point.id for point in points])
            with qdrant_errors():
                self.shard.update(qe.UpdateOperation.upsert_points(points))
            if places is not None:
                for chunk in chunks:
                    places.setdefault(chunk.owner, PathCounts()).add(chunk.parent, chunk.object_id)
            self._written(piece.size)
        for start in range(0, len(change.gone), QDRANT_BATCH):
            ids = list(change.gone[start : start + QDRANT_BATCH])
            self._forget(places, ids)
            with qdrant_errors():
                self.shard.update(qe.UpdateOperation.delete_points(ids))
        with qdrant_errors():
            self.is_empty = not self.shard.scroll(qe.ScrollRequest(limit=1, with_payload=False))[0]
        self.places = places
        try:
            self.folder.journal.clear()
        except OSError as error:
            raise self.folder.unusable(error) from error
        self.is_between = False

    def _forget(self, places: dict[str, PathCounts] | None, ids: Sequence[Any]) -> None:
        """Subtract those of the points that exist from the counts."""
        if places is not None:
            with qdrant_errors():
                records = self.shard.retrieve(list(ids), qe.PayloadSelector.Include([OWNER, OBJECT, PARENT]), False)
            for payload in (record.payload or {} for record in records):
                places[payload[OWNER]].remove(payload[PARENT], payload[OBJECT])

    def _written(self, size: int) -> None:
        self._unflushed += size
        if self._unflushed >= FLUSH_EVERY:
            self._unflushed = 0
            with qdrant_errors():
                self.shard.flush()

    def is_wanted(self) -> bool:
        """See `turns.Held`."""
        return self.folder.is_wanted()

    def close(self) -> None:
        """Flush and close the shard, and release the folder."""
        try:
            with qdrant_errors():
                self.shard.flush()
                chunks = self.shard.count(qe.CountRequest(exact=True))
                self.shard.close()
            self.folder.save(msgspec.structs.replace(self.manifest, clean=True, chunks=chunks, files=self.folder.files()))
        finally:
            self.folder.release()


class ShardTurns:
    """The shard of a folder for all readers and writers of this process, in turns with other processes.

    `folder` makes the folder when the store is opened; it may fail, because a path may lead out of its root. `wait` is
    in seconds, `language` that of the words in a new store.
    """

    def __init__(self, folder: Callable[[], StoreFolder], *, min_free: int, wait: float, language: str) -> None:
        self.language = language
        self._find_folder = folder
        self._min_free = min_free
        self._wait = wait
        self._turns: Turns[OpenShard] = Turns(self._open, refusal=_refusal)
        self._writing = threading.Lock()

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
            manifest = folder.manifest()
            # From here on Qdrant may change files, so the manifest's checksums are no longer valid.
            folder.save(msgspec.structs.replace(manifest, clean=False))
            try:
                shard = _loaded(folder, manifest)
            except ToolError:
                folder.save(manifest)
                raise
            try:
                if manifest.format == WITHOUT_OWNERS:
                    manifest = _with_owners(folder, manifest, shard)
                opened = OpenShard(folder, manifest, shard, self._min_free)
                opened.resume()
            except BaseException:
                shard.close()
                raise
        except BaseException:
            folder.release()
            raise
        return opened


def _refusal() -> Unavailable:
    return Unavailable("This vector store is closed: its pipeline ends")


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


def _with_owners(folder: StoreFolder, manifest: Manifest, shard: qe.EdgeShard) -> Manifest:
    """Make everything in a store without owners nobody's. A process that is killed meanwhile leaves it to the next one."""
    unowned = qe.Filter(must=[qe.IsEmptyCondition(OWNER)])
    with qdrant_errors():
        shard.update(qe.UpdateOperation.create_field_index(OWNER, owner_index()))
        shard.update(qe.UpdateOperation.set_payload_by_filter(unowned, {OWNER: NOBODYS}))
        shard.flush()
    manifest = msgspec.structs.replace(manifest, format=FORMAT, clean=False)
    folder.save(manifest)
    return manifest


@contextmanager
def qdrant_errors() -> Iterator[None]:
    """Turns Qdrant's exceptions and the panics of its Rust code into `ToolError` (`store_failed`)."""
    try:
        yield
    except (ToolError, Unavailable):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        sentence = str(error).strip().partition("\n")[0] or "Qdrant failed without a word"
        raise ToolError(sentence, code="store_failed") from error
