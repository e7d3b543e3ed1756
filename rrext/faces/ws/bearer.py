"""The key in the header `Authorization` of a request over HTTP."""

from __future__ import annotations

from starlette.requests import Request

from rrext.faces.http.tokens import UserTokens
from rrext.faces.ws.authentication import LOCAL_USER


def key_of(request: Request) -> str:
    """The key of a request, with or without the word `Bearer`; empty without one."""
    kind, _, key = request.headers.get("authorization", "").strip().partition(" ")
    return key.strip() if kind.lower() == "bearer" else kind if not key else ""


def user_of(request: Request, keys: UserTokens | None) -> str | None:
    """The user of a request; None without a known key, on a server with keys."""
    return LOCAL_USER if keys is None else keys.user_of(key_of(request))
