"""`store_qdrant_edge`: a vector store in a folder, without a server. The store is in a process of its own."""

from __future__ import annotations

import builtins
import itertools
import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, Literal

import msgspec

from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.nodes.child.process import NodeProcess, module_command
from rrext.nodes.child.supervisor import Supervisor
from rrext.nodes.vectors.edge.messages import (
    QDRANT_BATCH,
    Delete,
    FindSpace,
    FindVersions,
    Get,
    List,
    Move,
    Query,
    Request,
    Stage,
    Stats,
    StoreSettings,
    Unstage,
    Upsert,
    pieces_of,
)
from rrext.nodes.vectors.node import VectorSettings, VectorStoreNode
from rrext.nodes.vectors.store import (
    FIRST_OBJECT,
    NOBODYS,
    SIMPLE,
    Chunk,
    ChunkPage,
    Deleted,
    Hit,
    Listing,
    ObjectVersion,
    Scope,
    Search,
    StoreStats,
    VectorSpace,
)
from rrext.tools.context import ToolContext

MIB = 1024 * 1024
Language = Literal[
    "simple", "arabic", "armenian", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian",
    "italian", "norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil", "turkish",
]  # fmt: skip
"""The languages whose word forms Qdrant knows."""


class QdrantEdgeNode(VectorStoreNode):
    """Keeps chunks of documents in a folder and finds them by vectors, by words, or by both.

    The folder is made when the first chunk is stored, and in it a partition for each owner of content, with its own
    statistics of words, vector space and journal: nothing that others store changes a score, an order or the time of a
    search. Processes take turns with a partition: its holder gives it to a waiting process when the holder is idle, or
    after a second. The partitions that were used last stay open. Answered requests survive a kill of the
    process; a request without an answer is stored as a whole or not at all. A folder that is damaged, or that holds
    something else, is refused and left as it is.

    Every search compares its vector with all that are stored (in 4 bits per number, the best ones then in full): that
    is fast for some hundred thousand chunks and in proportion slower for more, for which a server is the better place.
    The first call to a partition reads the words of all its chunks, about a second for 100,000.

    Qdrant works in a process of its own, which the first call starts and which ends with the pipeline: nothing else
    waits for it, and if it breaks, its calls fail with `store_crashed`, and the next one starts it again.
    """

    provider = "store_qdrant_edge"
    title = "Vector store (embedded)"

    paths = {"path": "folder"}

    class Config(VectorSettings):
        path: Annotated[
            str, "The folder of the store. A relative one begins at --root, or else at the folder of the pipeline's file."
        ] = "vectors"
        min_free_bytes: Annotated[
            int, "With less room on the disk nothing is stored: a full disk would end the store's process, not one call."
        ] = 256 * MIB
        language: Annotated[
            Language,
            "The language of the texts: other forms of a word are found too. `simple` finds words as they are, and fits all "
            "languages. A store keeps the one it began with.",
        ] = "simple"
        wait: Annotated[
            float, msgspec.Meta(ge=0, le=3600), "Seconds that a call waits for other processes that use the folder."
        ] = 10.0

    @classmethod
    def unavailable(cls) -> str | None:
        """The packages that are missing, if any."""
        return missing_packages("vector", "qdrant_edge")

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[ProcessStore]:
        """Make the store without opening it. Its end flushes all data and lets another process open the folder."""

        shown = ctx.shown(config.path)
        store = ProcessStore(
            lambda: (ctx.path(config.path), shown),
            min_free=config.min_free_bytes,
            wait=ctx.wait(config.wait),
            language=config.language,
        )
        try:
            yield store
        finally:
            await ctx.in_thread(store.close)


CLOSING_TIMEOUT: Final = 10.0
"""Seconds for the process to close the store in order. Qdrant's log has all answered changes already."""

CLOSED: Final = "This vector store is closed: its pipeline ends"
_WHAT_NOW: Final = (
    "Call again: another one is started. Whatever was answered is still stored. SIGBUS means a full disk, SIGKILL often that "
    "memory was short; its own words are in the server's log."
)


def started(path: str, shown: str, min_free: int, wait: float, language: str = SIMPLE) -> NodeProcess:
    """Start a process with the store of one folder. Raises `Unavailable` if the start fails."""
    command = module_command("rrext.nodes.vectors.edge.worker")
    settings = StoreSettings(path, shown, min_free, wait, os.getpid(), language)
    return NodeProcess(
        command, settings, what=f'the vector store in "{shown}"', crash=("store_crashed", _WHAT_NOW), closed=CLOSED
    )


class ProcessStore:
    """A store in a folder, which the first call opens, in a process that ends with `close` or with this process.

    Qdrant blocks its interpreter while it works, for seconds when it opens a large store, and some of its failures
    end its process. A process of its own keeps that from the server: calls in progress then fail with
    `store_crashed`, and the next call starts another process.

    `wait`: seconds that a call waits for other processes that use the folder. `language`: that of the words in a new store.
    `place` returns the folder and its name in messages; it is called at each start of a process and may raise.
    """

    def __init__(
        self,
        place: Callable[[], tuple[str, str]],
        *,
        min_free: int,
        wait: float,
        language: str = SIMPLE,
        patience: float = CLOSING_TIMEOUT,
    ) -> None:
        self._supervisor = Supervisor(lambda: started(*place(), min_free, wait, language), closed=CLOSED)
        self._patience = patience
        self._requests = itertools.count()

    @property
    def process_id(self) -> int | None:
        """The id of the process that has the store open; None if there is none."""
        process = self._supervisor.running
        return None if process is None else process.id

    def space(self, ctx: ToolContext, owner: str = NOBODYS) -> VectorSpace | None:
        return msgspec.json.decode(self._ask(FindSpace(owner), ctx), type=VectorSpace | None)

    def upsert(
        self,
        chunks: Sequence[Chunk],
        vectors: Sequence[Sequence[float]],
        space: VectorSpace,
        ctx: ToolContext,
        replace: Mapping[str, Collection[int]] | None = None,
        owner: str = NOBODYS,
    ) -> int:
        """See `VectorStore`. Sends the chunks to the process in pieces; the process stores them after the last one."""
        ctx.check()
        process, request = self._supervisor.process(), next(self._requests)
        kept = {object_id: frozenset(chunk_ids) for object_id, chunk_ids in (replace or {}).items()}
        try:
            for number, piece in enumerate(pieces_of(chunks, vectors), 1):
                process.ask(Stage(request, piece), ctx)
                ctx.progress(min(number * QDRANT_BATCH, len(chunks)), len(chunks), "chunks sent to the store")
            return msgspec.json.decode(process.ask(Upsert(request, space, kept, owner), ctx), type=int)
        except BaseException:
            process.notify(Unstage(request))
            raise

    def move(self, object_id: str, to: str, parent: str | None, ctx: ToolContext, owner: str = NOBODYS) -> int:
        return msgspec.json.decode(self._ask(Move(object_id, to, parent, owner), ctx), type=int)

    def delete(self, scope: Scope, ctx: ToolContext) -> Deleted:
        return msgspec.json.decode(self._ask(Delete(scope), ctx), type=Deleted)

    def search(self, search: Search, ctx: ToolContext) -> builtins.list[Hit]:
        return msgspec.json.decode(self._ask(Query(_sendable(search)), ctx), type=builtins.list[Hit])

    def list(
        self,
        prefix: str | None,
        offset: int,
        limit: int,
        ctx: ToolContext,
        owner: str = NOBODYS,
        after: tuple[str, str] = FIRST_OBJECT,
    ) -> Listing:
        return msgspec.json.decode(self._ask(List(prefix, offset, limit, owner, after), ctx), type=Listing)

    def get(
        self, object_id: str, offset: int, limit: int, ctx: ToolContext, owner: str = NOBODYS, after: int = -1
    ) -> ChunkPage:
        return msgspec.json.decode(self._ask(Get(object_id, offset, limit, owner, after), ctx), type=ChunkPage)

    def versions(self, object_ids: Sequence[str], ctx: ToolContext, owner: str = NOBODYS) -> builtins.list[ObjectVersion]:
        answer = self._ask(FindVersions(list(object_ids), owner), ctx)
        return msgspec.json.decode(answer, type=builtins.list[ObjectVersion])

    def stats(self, ctx: ToolContext, owner: str = NOBODYS) -> StoreStats:
        """See `VectorStore`. The details name the process for monitoring."""
        found = msgspec.json.decode(self._ask(Stats(owner), ctx), type=StoreStats)
        return msgspec.structs.replace(found, details={**found.details, "process": self.process_id})

    def close(self) -> None:
        """See `VectorStore`. Waits for the requests in progress; kills a process that does not end."""
        self._supervisor.close(self._patience)

    def _ask(self, request: Request, ctx: ToolContext) -> bytes:
        ctx.check()
        return self._supervisor.process().ask(request, ctx)


def _sendable(search: Search) -> Search:
    """The search with its vector as a list."""
    return search if search.vector is None else msgspec.structs.replace(search, vector=list(search.vector))
