"""The key in the header `Authorization` of a request over HTTP."""

from __future__ import annotations

from starlette.requests import Request

from rrext.faces.http.door import arrival_of, found_by_key
from rrext.faces.http.tokens import UserTokens
from rrext.faces.ws.authentication import LOCAL_USER


def key_of(request: Request) -> str:
    """The key of a request, with or without the word `Bearer`; empty without one."""
    kind, _, key = request.headers.get("authorization", "").strip().partition(" ")
    return key.strip() if kind.lower() == "bearer" else kind if not key else ""


async def user_of(request: Request, keys: UserTokens | None) -> str:
    """The user of a request. Raises `NotAuthenticated` without a known key on a server with keys, and `TooManyRequests`."""
    if keys is not None:
        return await found_by_key(request.scope, key_of(request), keys.user_of)
    arrival_of(request.scope).knows_client()
    return LOCAL_USER
