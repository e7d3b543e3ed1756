"""`KeyedTransport`: puts the secrets into requests below the client, whose log lines and exceptions then show none.

Imports the HTTP client: load this module where that is wanted.
"""

from __future__ import annotations

from typing import Final

import httpx2

from rrext.http.limits import MAX_CONNECTIONS

SECRETS: Final = "rrext.secrets"
"""The extension of a request with its secret headers, and the secret part of its query."""


class KeyedTransport(httpx2.AsyncBaseTransport):
    """Sends requests with their secrets."""

    def __init__(self) -> None:
        limits = httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS)
        self._inner = httpx2.AsyncHTTPTransport(limits=limits, trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a copy of the request."""
        headers, query = request.extensions[SECRETS]
        url = str(request.url)
        if query and query not in url.partition("?")[2]:
            url += ("&" if "?" in url else "?") + query
        extensions = {name: value for name, value in request.extensions.items() if name != SECRETS}
        keyed = httpx2.Request(
            request.method, url, headers={**request.headers, **headers}, stream=request.stream, extensions=extensions
        )
        return await self._inner.handle_async_request(keyed)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()
