"""The settings of a worker: its first message, because arguments and variables of a process are no place for secrets."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec

from rrext.limits import GIB, Limits

MAX_ANY: Final = 64 * GIB
"""A limit of a worker's connection that the sessions of the clients enforce."""

HEADER: Final = struct.Struct("!Q")
ROUTE: Final = "@"
"""The argument of a request: its caller, the id that the client gave it, the seconds left for it, and whether its answer goes
into an outbox."""


class Listening(msgspec.Struct, frozen=True):
    """Where a worker listens for the server on another machine, the certificate and the key that it has there, and the
    certificate of that server. It gets its settings over that connection."""

    address: str
    certificate: str
    key: str
    client: str

    def __repr__(self) -> str:
        return f"<Listening at {self.address}>"


class WorkerSettings(msgspec.Struct, kw_only=True):
    """What a worker has to know before it serves.

    One that `is_elsewhere` has none of the server's files: no node uses a path, but for those in a root that all machines
    share, if it `shares_root`.

    `number` and `mark` are its own. `values` and `names` are those of the environment of pipelines, `nodes` the modules with
    nodes of the operator, `node_texts` the contents of those that are files of another machine, `connections` is a file of
    them, with the values of its `variables`, `packages` those that programs may import. `modules` is the path on which Python
    looks for modules. A worker with `tells_sources` tells the server the files of code that it loads. With `listening` a worker
    gets all of this from the server for whose connection it waits.
    """

    number: int
    limits: Limits
    mark: int = 0
    root: str | None = None
    wait: float | None = None
    values: dict[str, str] = {}
    names: list[str] = []
    nodes: list[str] = []
    node_texts: dict[str, str] = {}
    is_elsewhere: bool = False
    shares_root: bool = False
    connections: str | None = None
    packages: list[str] = []
    variables: dict[str, str] = {}
    log_level: str = "warning"
    log_file: str | None = None
    modules: list[str] = []
    tells_sources: bool = False
    listening: Listening | None = None

    @property
    def first_message(self) -> bytes:
        """The bytes that a worker reads first."""
        body = msgspec.json.encode(self)
        return HEADER.pack(len(body)) + body


def read_settings(read: Callable[[int], bytes]) -> WorkerSettings | None:
    """Read the settings from what waits for bytes, and returns at most that many; None if the server has gone."""
    header = _read(read, HEADER.size)
    if len(header) < HEADER.size:
        return None
    (size,) = HEADER.unpack(header)
    body = _read(read, size)
    return msgspec.json.decode(body, type=WorkerSettings) if len(body) == size else None


def _read(read: Callable[[int], bytes], size: int) -> bytes:
    pieces: list[bytes] = []
    while size > 0 and (piece := read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


@lru_cache(2)
def without_limits(limits: Limits) -> Limits:
    """The limits of the connection between server and worker: the sessions of clients have enforced theirs."""
    names = ("max_frame", "max_length", "max_name", "max_result", "max_inflight", "max_waiting_opens", "max_inflight_bytes")
    lifted: dict[str, Any] = dict.fromkeys((*names, "outbox_bytes"), MAX_ANY)
    return msgspec.structs.replace(limits, **lifted)
