"""Messages between the server and the process of an embedded store, and the journal, which is a message kept in a file.

Messages are frames of `rrext.nodes.child.worker`. Chunks and answers are JSON inside, as metadata may be any JSON, whole
numbers of any length too.

The journal is the pending change of a store: an interrupted request is completed when the store is opened again. Qdrant
takes some dozens of points at a time. A complete journal is carried out to its end, if need be by the process that opens
the store next; an incomplete journal is ignored. So a request takes effect as a whole or not at all.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import UUID
from zlib import crc32

import msgspec

from rrext.nodes.child.process import Cancel, ChildRequest
from rrext.nodes.vectors.store import SIMPLE, Chunk, Scope, Search, VectorSpace
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
    owner: str


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

QDRANT_BATCH: Final = 64
"""Points that are written or deleted in one call of Qdrant: about 5 ms, during which its process does nothing else."""

HEAD: Final = struct.Struct("<8sQI")
"""Mark, length and checksum of the rest of the file; written last."""

MARK: Final = b"rrextjn1"
FRAME: Final = struct.Struct("<Q")


class StagedPiece(msgspec.Struct, frozen=True):
    """Some chunks in transport form: a JSON list, because metadata may be any JSON, and the numbers of their vectors."""

    chunks: bytes
    vectors: bytes

    def decoded(self) -> tuple[list[Chunk], list[Sequence[float]]]:
        """The chunks and their vectors."""
        chunks = msgspec.json.decode(self.chunks, type=list[Chunk])
        numbers = numbers_of(self.vectors)
        size = len(numbers) // len(chunks)
        return chunks, [numbers[start : start + size] for start in range(0, len(numbers), size)]

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self.chunks) + len(self.vectors)


class StoreChange(msgspec.Struct, frozen=True):
    """The change of a request: store the chunks of the pieces, at most `QDRANT_BATCH` each, and delete the points of `gone`."""

    pieces: Sequence[StagedPiece] = ()
    gone: Sequence[Any] = ()

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        return sum(piece.size for piece in self.pieces) + 16 * len(self.gone)


class Journal:
    """The journal file. Methods raise `OSError`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, change: StoreChange) -> None:
        """Write a change to the journal. Once this returns, the change will be carried out."""
        length = check = 0
        with open(self._path, "wb") as file:
            file.write(bytes(HEAD.size))
            for frame in _frames(change):
                check = crc32(frame, check)
                length += file.write(frame)
            file.flush()
            file.seek(0)
            file.write(HEAD.pack(MARK, length, check))

    def read(self) -> StoreChange | None:
        """Read the last change, which may not have been carried out; None if there is no complete one."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        if len(data) < HEAD.size:
            return None
        mark, length, check = HEAD.unpack_from(data)
        body = memoryview(data)[HEAD.size :]
        if mark != MARK or len(body) != length or crc32(body) != check:
            return None
        return _change_of(body)

    def clear(self) -> None:
        """Clear the journal of a change that was carried out or is incomplete."""
        self._path.unlink(missing_ok=True)


def pieces_of(chunks: Sequence[Chunk], vectors: Sequence[Sequence[float]]) -> Iterator[StagedPiece]:
    """Split chunks and their vectors into pieces of at most `QDRANT_BATCH`."""
    for start in range(0, len(chunks), QDRANT_BATCH):
        some = slice(start, start + QDRANT_BATCH)
        numbers = b"".join(array("f", vector).tobytes() for vector in vectors[some])
        yield StagedPiece(msgspec.json.encode(chunks[some]), numbers)


def numbers_of(data: bytes) -> Sequence[float]:
    """Decode the numbers of transported vectors."""
    numbers = array("f")
    numbers.frombytes(data)
    return numbers


def _frames(change: StoreChange) -> Iterator[bytes]:
    """The ids to delete, then the chunks and vectors of each piece, each with a length prefix."""
    ids = b"".join(UUID(str(point)).bytes for point in change.gone)
    for data in (ids, *(part for piece in change.pieces for part in (piece.chunks, piece.vectors))):
        yield FRAME.pack(len(data)) + data


def _change_of(body: memoryview) -> StoreChange:
    parts: list[bytes] = []
    place = 0
    while place < len(body):
        (length,) = FRAME.unpack_from(body, place)
        place += FRAME.size
        parts.append(bytes(body[place : place + length]))
        place += length
    ids = parts[0]
    gone = [UUID(bytes=ids[start : start + 16]) for start in range(0, len(ids), 16)]
    return StoreChange([StagedPiece(*parts[n : n + 2]) for n in range(1, len(parts), 2)], gone)
