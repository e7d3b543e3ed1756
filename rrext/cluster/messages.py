"""The messages of a control connection, and what both ends of it say of themselves."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from rrext.limits import Limits
from rrext.server.commands import PROTOCOL_VERSION
from rrext.tasks.families import Excess
from rrext.version import __version__


class Versions(msgspec.Struct, frozen=True):
    """What both ends have to have the same of."""

    rrext: str
    python: str
    protocol: int

    def __str__(self) -> str:
        return f"rrext {self.rrext} (protocol {self.protocol}) with Python {self.python}"


def own_versions() -> Versions:
    """Those of this process. Two releases of one Python, such as 3.13.1 and 3.13.2, are the same."""
    return Versions(__version__, ".".join(platform.python_version_tuple()[:2]), PROTOCOL_VERSION)


def hashes_of_modules(names: Iterable[str]) -> dict[str, str]:
    """Module with nodes → the hash of its file; "" for one that is not found. None of them is imported, but for
    the packages that a module is in."""
    from importlib.util import find_spec

    found: dict[str, str] = {}
    for name in names:
        try:
            spec = find_spec(name)
            with open(spec.origin if spec is not None and spec.origin else "", "rb") as file:
                found[name] = hashlib.sha256(file.read()).hexdigest()
        except Exception:  # a package of the operator may raise any
            found[name] = ""
    return found


class Greeting(msgspec.Struct, tag="greeting", frozen=True):
    """The first message of each end: its versions, the hashes of the modules with nodes of the operator, the versions of the
    installed packages with nodes, and from the server the limits that its workers have."""

    versions: Versions
    nodes: dict[str, str] = {}
    packages: dict[str, str] = {}
    limits: Limits | None = None


class Start(msgspec.Struct, tag="start", frozen=True):
    """Start a worker, whose memory may be so many bytes; 0 for any number."""

    worker: int
    memory: int = 0


class Signal(msgspec.Struct, tag="signal", frozen=True):
    """Send a signal to a worker with its descendants."""

    worker: int
    number: int


class Limit(msgspec.Struct, tag="limit", frozen=True):
    """Bound the memory of a worker: its pipeline says what it needs."""

    worker: int
    memory: int


class Look(msgspec.Struct, tag="look", frozen=True):
    """Tell whether a worker is stopped."""

    worker: int


class End(msgspec.Struct, tag="end", frozen=True):
    """End the host with all its workers."""


class Started(msgspec.Struct, tag="started", frozen=True):
    """A worker listens at a port, with a certificate in PEM."""

    worker: int
    pid: int
    port: int
    certificate: str


class StartFailed(msgspec.Struct, tag="failed", frozen=True):
    """A worker could not be started."""

    worker: int
    why: str


class Looked(msgspec.Struct, tag="looked", frozen=True):
    """Whether a worker is stopped."""

    worker: int
    is_stopped: bool


class Wrote(msgspec.Struct, tag="wrote", frozen=True):
    """A worker wrote to stderr."""

    worker: int
    text: bytes


class Exceeded(msgspec.Struct, tag="exceeded", frozen=True):
    """A worker is killed for its use of memory."""

    worker: int
    excess: Excess


class Ended(msgspec.Struct, tag="ended", frozen=True):
    """A worker has ended."""

    worker: int
    exit_code: int | None
    how: str


class Ping(msgspec.Struct, tag="ping", frozen=True):
    """The other end lives."""


ToHost: TypeAlias = Greeting | Start | Signal | Limit | Look | End | Ping
FromHost: TypeAlias = Greeting | Started | StartFailed | Looked | Wrote | Exceeded | Ended | Ping
