"""The settings of a worker: its first message, because arguments and variables of a process are no place for secrets."""

from __future__ import annotations

import os
import struct
from typing import Any, Final

import msgspec

from rrext.limits import GIB, Limits

MAX_ANY: Final = 64 * GIB
"""A limit of a worker's connection that the sessions of the clients enforce."""

HEADER: Final = struct.Struct("!Q")
ROUTE: Final = "@"
"""The argument of a request: its caller, the id that the client gave it, the seconds left for it, and whether its answer goes
into an outbox."""


class WorkerSettings(msgspec.Struct, kw_only=True):
    """What a worker has to know before it serves.

    `number` and `mark` are its own. `values` and `names` are those of the environment of pipelines, `nodes` the modules with
    nodes of the operator, `connections` is a file of them, with the values of its `variables`, `packages` those that programs
    may import. `modules` is the path on which Python looks for modules.
    """

    number: int
    limits: Limits
    mark: int = 0
    root: str | None = None
    wait: float | None = None
    values: dict[str, str] = {}
    names: list[str] = []
    nodes: list[str] = []
    connections: str | None = None
    packages: list[str] = []
    variables: dict[str, str] = {}
    log_level: str = "warning"
    log_file: str | None = None
    modules: list[str] = []

    @property
    def first_message(self) -> bytes:
        """The bytes that a worker reads first."""
        body = msgspec.json.encode(self)
        return HEADER.pack(len(body)) + body


def read_settings(fd: int) -> WorkerSettings | None:
    """Read the settings from a descriptor that blocks; None if the server has gone."""
    header = _read(fd, HEADER.size)
    if len(header) < HEADER.size:
        return None
    (size,) = HEADER.unpack(header)
    body = _read(fd, size)
    return msgspec.json.decode(body, type=WorkerSettings) if len(body) == size else None


def _read(fd: int, size: int) -> bytes:
    pieces: list[bytes] = []
    while size > 0 and (piece := os.read(fd, size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def without_limits(limits: Limits) -> Limits:
    """The limits of the connection between server and worker: the sessions of clients have enforced theirs."""
    names = ("max_frame", "max_length", "max_name", "max_result", "max_inflight", "max_waiting_opens", "max_inflight_bytes")
    lifted: dict[str, Any] = dict.fromkeys((*names, "outbox_bytes"), MAX_ANY)
    return msgspec.structs.replace(limits, **lifted)
