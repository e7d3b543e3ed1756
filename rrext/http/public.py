"""Requests to public addresses alone, for addresses that a client on a network, or a model, chose."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

import anyio
import httpx2

from rrext.errors import ToolError
from rrext.http import MAX_CONNECTIONS

NAT64: Final = IPv6Network("64:ff9b::/96")
"""Addresses that stand for those of IPv4, which are their last bits."""

UNICAST: Final = IPv6Network("2000::/3")
"""All that IANA gave out of IPv6 as addresses of the internet. `is_global` is true outside of it too, as for old forms of
addresses of IPv4 (`::127.0.0.1`, `::ffff:0:7f00:1`), sites (`fec0::1`) and translators of one network (`64:ff9b:1::`)."""


class PublicTransport(httpx2.AsyncHTTPTransport):
    """Resolves the host of each request once, and connects to its first address if all of them are public.

    A name may mean another address a moment later, so the address is checked that is connected to. A name with a private
    address beside public ones is refused, whatever their order, which changes from answer to answer. The certificate of the
    server is checked for the name. `who` may not connect to other addresses, and `hint` says who may change that.
    """

    def __init__(
        self,
        *,
        who: str = "no pipeline may connect that came over a network",
        hint: str = "The server may be started with --trust-clients.",
        keep: int = MAX_CONNECTIONS,
    ) -> None:
        """Keeps at most `keep` idle connections. They belong to an address, not to a name: with several hosts keep none."""
        super().__init__(limits=httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=keep))
        self._who = who
        self._hint = hint

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        found = await _resolved(host, request.url.port or 443)
        if not all(map(is_public, found)):
            raise ToolError(f"{host} is a private address, to which {self._who}", code="private_address", hint=self._hint)
        request.extensions = {**request.extensions, "sni_hostname": host}
        request.url = request.url.copy_with(host=str(found[0]))
        return await super().handle_async_request(request)


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is one of the public internet: none of a private network, of this machine, or with special meaning."""
    if not address.is_global or address.is_multicast:
        return False
    if isinstance(address, IPv4Address):
        return True
    teredo = None if address.teredo is None else address.teredo[1]
    behind = address.ipv4_mapped or address.sixtofour or teredo
    if address in NAT64:
        behind = IPv4Address(int(address) & 0xFFFFFFFF)
    return address in UNICAST if behind is None else is_public(behind)


async def _resolved(host: str, port: int) -> list[IPv4Address | IPv6Address]:
    try:
        return [ip_address(host)]
    except ValueError:
        pass
    try:
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpx2.ConnectError(f"{host} cannot be found: {getattr(error, 'strerror', None) or error}") from None
    return [ip_address(str(place[0]).partition("%")[0]) for *_, place in found]
