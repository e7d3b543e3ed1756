"""Messages between the server and the process of an embedded store, in frames of `rrext.nodes.child.calls`.

Chunks and answers are JSON inside, as metadata may be any JSON, whole numbers of any length too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from rrext.nodes.child.process import Cancel, ChildRequest
from rrext.nodes.vectors.edge.journal import StagedPiece
from rrext.nodes.vectors.store import SIMPLE, Scope, Search, VectorSpace
from rrext.tools.context import ToolContext

if TYPE_CHECKING:
    from rrext.nodes.vectors.edge.store import EdgeStore


class StoreSettings(msgspec.Struct, frozen=True):
    """The first message: the folder, its name in messages, the free bytes to leave, the seconds that a call waits for other
    processes, the server's process id, the language of a new store."""

    path: str
    shown: str
    min_free: int
    wait: float
    owner: int
    language: str = SIMPLE


class StoreRequest(ChildRequest, frozen=True, tag=True):
    """A call of a `method` of `EdgeStore`, with the fields as its arguments.

    `in_turn`: the request waits for earlier writes, because it writes or counts.
    """

    method: ClassVar[str]
    in_turn: ClassVar[bool] = False

    def call(self, store: EdgeStore, ctx: ToolContext) -> Any:
        """Run the call on the store. Raises the errors of the store."""
        return getattr(store, self.method)(**{name: getattr(self, name) for name in self.__struct_fields__}, ctx=ctx)


class FindSpace(StoreRequest, frozen=True, tag=True):
    method = "space"


class Stage(StoreRequest, frozen=True, tag=True):
    """Sends a piece of a request, which `Upsert` stores. Pieces arrive in their order."""

    method = "stage"
    request: int
    piece: StagedPiece


class Unstage(StoreRequest, frozen=True, tag=True):
    """Discards the pieces of a request."""

    method = "unstage"
    request: int


class Upsert(StoreRequest, frozen=True, tag=True):
    """Stores the pieces of a request."""

    method, in_turn, changes = "upsert_staged", True, True
    request: int
    space: VectorSpace
    replace: dict[str, frozenset[int]]
    owner: str


class Delete(StoreRequest, frozen=True, tag=True):
    method, in_turn, changes = "delete", True, True
    scope: Scope


class Move(StoreRequest, frozen=True, tag=True):
    method, in_turn, changes = "move", True, True
    object_id: str
    to: str
    parent: str | None
    owner: str


class Query(StoreRequest, frozen=True, tag=True):
    """A search, whose vector is a list."""

    method = "search"
    search: Search


class List(StoreRequest, frozen=True, tag=True):
    method, in_turn = "list", True
    prefix: str | None
    offset: int
    limit: int
    owner: str
    after: tuple[str, str]


class Get(StoreRequest, frozen=True, tag=True):
    method = "get"
    object_id: str
    offset: int
    limit: int
    owner: str
    after: int


class FindVersions(StoreRequest, frozen=True, tag=True):
    method, in_turn = "versions", True
    object_ids: list[str]
    owner: str


class Stats(StoreRequest, frozen=True, tag=True):
    method, in_turn = "stats", True
    owner: str


Request = FindSpace | Stage | Unstage | Upsert | Delete | Move | Query | List | Get | FindVersions | Stats
Message = Request | Cancel
