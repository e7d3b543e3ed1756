"""The clients that an engine serves, for those who look at the server."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from time import time
from typing import Any, Final, Protocol

from rrext.engine.interface.call import Caller

_NUMBERS: Final = count(1)


class Memory(Protocol):
    """What a connection keeps in the server."""

    @property
    def held_bytes(self) -> int:
        """Its requests that are not answered, and its answers that were not read."""
        ...

    @property
    def is_held_up(self) -> bool:
        """Whether it is not read from, because its user keeps too much."""
        ...


class ConnectedClient:
    """One connection: its caller, its name, and the numbers of its messages.

    `notify` sends it an event, from any thread; False if the event is dropped, because the client reads too slowly.
    """

    __slots__ = (
        "caller",
        "connected_at",
        "last_activity",
        "memory",
        "messages_in",
        "messages_out",
        "name",
        "notify",
        "number",
        "version",
    )  # fmt: skip

    def __init__(self, caller: Caller, notify: Callable[[str, dict[str, Any]], bool] | None = None) -> None:
        self.caller = caller
        self.notify = notify
        self.memory: Memory | None = None
        self.number = next(_NUMBERS)
        self.connected_at = self.last_activity = time()
        self.messages_in = 0
        self.messages_out = 0
        self.name = ""
        self.version = ""

    def row(self) -> dict[str, Any]:
        """The connection as RocketRide's clients read it; no key is in it."""
        user = self.caller.user_id
        return {
            "id": self.number,
            "connectedAt": self.connected_at,
            "lastActivity": self.last_activity,
            "messagesIn": self.messages_in,
            "messagesOut": self.messages_out,
            "heldBytes": 0 if self.memory is None else self.memory.held_bytes,
            "heldUp": self.memory is not None and self.memory.is_held_up,
            "authenticated": True,
            "clientId": self.caller.connection_id,
            "userId": user,
            "userName": user,
            "orgId": None,
            "orgName": None,
            "apikey": "",
            "clientInfo": {"name": self.name, "version": self.version},
            "monitors": [],
            "attachedTasks": [],
        }
