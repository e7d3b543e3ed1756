"""What the server and the process of an embedded store say to each other, in frames of `rrext.nodes.child.calls`.

Chunks and answers are JSON inside, as metadata may be any JSON, whole numbers of any length too. Vectors are numbers of
four bytes, one after the other.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from rrext.nodes.child.engine import Cancel
from rrext.nodes.child.engine import EngineRequest as ChildRequest
from rrext.nodes.vectors.edge.journal import Piece, numbers_of
from rrext.nodes.vectors.store import Mode, Scope, Search, Space
from rrext.tools.context import ToolContext

if TYPE_CHECKING:
    from rrext.nodes.vectors.edge.store import EdgeStore


class StoreSettings(msgspec.Struct, frozen=True):
    """What a process is told first: its folder, how messages name it, the free bytes it leaves, the seconds that a call waits
    for other processes, the server's process id."""

    path: str
    shown: str
    min_free: int
    wait: float
    owner: int


class Call(ChildRequest, frozen=True, tag=True):
    """A call of a store; base of all requests.

    `in_turn`: it waits for the writes before it anyway, as it writes or counts. `changes`: what became of it must be known
    also when nobody waits for it any more.
    """

    in_turn: ClassVar[bool] = False

    def call(self, store: EdgeStore, ctx: ToolContext) -> Any:
        """Do it. Raises what the store raises."""
        raise NotImplementedError


class FindSpace(Call, frozen=True, tag=True):
    """`VectorStore.space`."""

    def call(self, store: EdgeStore, ctx: ToolContext) -> Any:
        return store.space(ctx)


class Stage(Call, frozen=True, tag=True):
    """A piece of a request, which `Upsert` stores. Pieces arrive in their order."""

    request: int
    piece: Piece

    def call(self, store: EdgeStore, ctx: ToolContext) -> Any:
        store.stage(self.request, self.piece)


class Unstage(Call, frozen=True, tag=True):
    """The pieces of a request are not to be stored."""

    request: int

    def call(self, store: EdgeStore, ctx: ToolContext) -> Any:
        store.unstage(self.request)


class Upsert(Call, frozen=True, tag=True):
    """`VectorStore.upsert` of what was staged."""

    request: int
    space: Space
    replace: dict[str, frozenset[int]]

    in_turn = True
    changes = True

    def call(self, store: EdgeStore, ctx: ToolContext) -> Any:
        return store.upsert_staged(self.request, self.space, self.replace, ctx)


class Delete(Call, frozen=True, tag=True):
    """`VectorStore.delete`."""

    scope: Scope

    in_turn = True
    changes = True

    def call(self, store: EdgeStore, ctx: ToolContext) -> Any:
        return store.delete(self.scope, ctx)


class Query(Call, frozen=True, tag=True):
    """`VectorStore.search`, with the fields of `Search`."""

    mode: Mode
    top_k: int
    text: str
    vector: bytes | None
    scope: Scope

    @classmethod
    def of(cls, search: Search) -> Query:
        """The message for a search."""
        vector = None if search.vector is None else array("f", search.vector).tobytes()
        return cls(search.mode, search.top_k, search.text, vector, search.scope)

    def call(self, store: EdgeStore, ctx: ToolContext) -> Any:
        vector = None if self.vector is None else numbers_of(self.vector)
        return store.search(Search(self.mode, self.top_k, self.text, vector, self.scope), ctx)


class List(Call, frozen=True, tag=True):
    """`VectorStore.list`."""

    prefix: str | None
    offset: int
    limit: int

    in_turn = True

    def call(self, store: EdgeStore, ctx: ToolContext) -> Any:
        return store.list(self.prefix, self.offset, self.limit, ctx)


class Get(Call, frozen=True, tag=True):
    """`VectorStore.get`."""

    object_id: str
    offset: int
    limit: int

    def call(self, store: EdgeStore, ctx: ToolContext) -> Any:
        return store.get(self.object_id, self.offset, self.limit, ctx)


class FindVersions(Call, frozen=True, tag=True):
    """`VectorStore.versions`."""

    object_ids: list[str]

    in_turn = True

    def call(self, store: EdgeStore, ctx: ToolContext) -> Any:
        return store.versions(self.object_ids, ctx)


class Stats(Call, frozen=True, tag=True):
    """`VectorStore.stats`."""

    in_turn = True

    def call(self, store: EdgeStore, ctx: ToolContext) -> Any:
        return store.stats(ctx)


Request = FindSpace | Stage | Unstage | Upsert | Delete | Query | List | Get | FindVersions | Stats
"""What the server asks for."""
Message = Request | Cancel
"""What the server sends."""
