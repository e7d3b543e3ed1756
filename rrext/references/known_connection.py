"""`KnownConnection`: the public facts of a connection, for the check and the editor of pipelines."""

from __future__ import annotations

import msgspec


class KnownConnection(msgspec.Struct, frozen=True):
    """The name, provider and integration of a connection. `reason` is the obstacle to its use; empty if there is none."""

    name: str
    provider: str
    integration: str = ""
    reason: str = ""
