"""The key of a client: its user, by WebSocket or in the header `Authorization` over HTTP, and the commands for clients without
a key.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.requests import Request

from rrext.errors import NotAuthenticated
from rrext.faces.http.door import arrival_of, found_by_key
from rrext.faces.http.tokens import ShownToken, UserTokens
from rrext.version import __version__

MAX_ATTEMPTS: Final = 5
"""Wrong keys of one connection; a further one ends it."""

LOCAL_USER: Final = "local"
"""The user of all clients of a server without keys, and of the one key in `ROCKETRIDE_APIKEY`."""

PROBE: Final = "rrext_public_probe"
COMMANDS: Final = frozenset(("auth", "deauth", PROBE))
"""The commands of this transport, which need no key."""


class AuthArguments(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Show a key. → `{userId, displayName, organizations, serverVersion, capabilities}`"""

    auth: str | None = None
    client_name: str | None = None
    client_version: str | None = None


class Authentication:
    """The user of a connection's client, once a key is accepted, and the number of refused keys.

    Without `keys` every client is the local user from the beginning.
    """

    def __init__(self, keys: UserTokens | None) -> None:
        self._keys = keys
        self.user: str | None = LOCAL_USER if keys is None else None
        self.attempts = 0
        self._shown: ShownToken | None = None

    @property
    def is_valid(self) -> bool:
        """Whether the key of the user still is that of the user."""
        return self._keys is None or self.user is None or (self._shown is not None and self._keys.holds(self._shown))

    @property
    def is_exhausted(self) -> bool:
        """Whether the client showed too many wrong keys, so that its connection ends."""
        return self.attempts > MAX_ATTEMPTS

    def show(self, given: AuthArguments) -> str | None:
        """The user of a key; None for no key, with which a client may only probe. Raises `NotAuthenticated`."""
        if self._keys is None:
            return LOCAL_USER
        if not given.auth:
            return None
        found = None if self.is_exhausted else self._keys.find(given.auth)
        if found is None:
            self.attempts += 1
            raise NotAuthenticated("Too many authentication attempts" if self.is_exhausted else "Invalid API key")
        self.attempts = 0
        self._shown = found
        return found.user

    def leave(self) -> bool:
        """Whether the client may sign off; on a server without keys it stays who it is."""
        return self._keys is not None


def welcome(user: str | None) -> dict[str, Any]:
    """The body of the answer to `auth`, in the fields that RocketRide clients read."""
    place = {"id": LOCAL_USER, "name": LOCAL_USER, "permissions": []}
    return {
        "userId": user or "",
        "displayName": user or "",
        "organizations": [] if user is None else [{**place, "teams": [place]}],
        "serverVersion": __version__,
        "capabilities": ["oss"],
    }


def key_of(request: Request) -> str:
    """The key of a request, with or without the word `Bearer`; empty without one."""
    kind, _, key = request.headers.get("authorization", "").strip().partition(" ")
    return key.strip() if kind.lower() == "bearer" else kind if not key else ""


async def user_of(request: Request, keys: UserTokens | None) -> str:
    """The user of a request. Raises `NotAuthenticated` without a known key on a server with keys, and `TooManyRequests`."""
    if keys is not None:
        return await found_by_key(request.scope, key_of(request), keys.user_of)
    arrival_of(request.scope).accept_client()
    return LOCAL_USER
