"""`KnownConnection`: what may be told of a connection where a pipeline is written or checked."""

from __future__ import annotations

import msgspec


class KnownConnection(msgspec.Struct, frozen=True):
    """The name of a connection and what it is for, without its settings. `reason` says why it cannot be used, if so."""

    name: str
    provider: str
    integration: str = ""
    reason: str = ""
