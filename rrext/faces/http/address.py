"""Addresses: of a port, of pages (origins), and of clients behind proxies, with the way in which they are counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from rrext.errors import UsageError


class Address(NamedTuple):
    """Where a port listens."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Address:
        """Read `HOST:PORT`. Raises `UsageError`."""
        host, colon, port = text.rpartition(":")
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if not colon or not bare or not port.isdecimal() or int(port) > 65535 or (":" in bare and bare == host):
            raise UsageError(f"{text!r} is no address: it is HOST:PORT, as in 127.0.0.1:8080 or [::1]:8080")
        return cls(bare, int(port))

    def __str__(self) -> str:
        return f"{self.written_host}:{self.port}"

    @property
    def written_host(self) -> str:
        """The host as it stands in a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def is_local(self) -> bool:
        """Whether only programs of this machine can connect."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def reachable(self) -> str:
        """The address as a client of this machine writes it. Raises `UsageError` for port 0, which stands for a free one."""
        if not self.port:
            raise UsageError("the settings of a host need a port: port 0 is another one at each start")
        return f"localhost:{self.port}" if self.host in ("0.0.0.0", "::") else str(self)

    def require_tokens(self, *, is_behind: bool = False) -> None:
        """Raise `UsageError` if programs of other machines can connect, be it by a proxy: each user needs a token for that."""
        if is_behind or not self.is_local:
            raise UsageError(
                f"every machine that can reach {self} could call the tools: clients need tokens there",
                hint="give --tokens FILE, or listen at 127.0.0.1",
            )


def checked_origin(text: str) -> str:
    """An origin of `--allow-origin`. Raises `ValueError`."""
    parts = urlsplit(text)
    if not parts.scheme or not parts.netloc or f"{parts.scheme}://{parts.netloc}" != text:
        raise ValueError(f"{text!r} is no origin: it is scheme://host[:port], as in https://example.org")
    return text


SITE: Final = 64
"""How many bits of an IPv6 address name one site: its owner has all addresses below."""


def _read(text: str) -> IPv4Address | IPv6Address | None:
    """An address, without its port, brackets and zone; None for any other text."""
    text = text.strip()
    if text.startswith("["):
        text, bracket, port = text[1:].partition("]")
        if not bracket or (port and not (port[0] == ":" and port[1:].isdecimal())):
            return None
    elif text.count(":") == 1:
        text, _, port = text.partition(":")
        if not port.isdecimal():
            return None
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


@lru_cache(maxsize=1024)
def counted(address: str) -> str:
    """The name under which an address is counted: an IPv4 address, the site of an IPv6 address, or the text itself."""
    found = _read(address)
    if isinstance(found, IPv6Address):
        return address if found.is_loopback else str(IPv6Network((found, SITE), strict=False))
    return address if found is None else str(found)


class Proxies:
    """The proxies whose words are taken: addresses and networks, as `--behind-proxy` names them. Raises `UsageError`."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._networks = [_network(text.strip()) for given in texts for text in given.split(",")]

    def __bool__(self) -> bool:
        return bool(self._networks)

    def trusts(self, address: str) -> bool:
        """Whether a connection from an address is one of a proxy."""
        found = _read(address)
        return found is not None and any(found in network for network in self._networks)

    def client_of(self, peer: str, told: Sequence[str]) -> str:
        """The address of the client behind a peer, by the lines of `X-Forwarded-For` of its request.

        Each proxy adds the address that it sees at the end, so that the last one which is no proxy is the client; what stands
        before that, the client may have written itself. A proxy that tells no address is taken for the client.
        """
        client = peer
        for text in reversed(",".join(told).split(",")):
            if not self.trusts(client) or (found := _read(text)) is None:
                break
            client = str(found)
        return client

    def apply(self, scope: Any) -> bool:
        """Put the client and the scheme that a proxy tells into a scope; False if its peer is no proxy."""
        client = scope["client"]
        if not self._networks or client is None or not self.trusts(client[0]):
            return False
        lines = {name: [value.decode("latin-1") for key, value in scope["headers"] if key == name] for name in (FOR, PROTO)}
        address = self.client_of(client[0], lines[FOR])
        if address != client[0]:
            scope["client"] = address, 0
        schemes = {text.strip().lower() for text in ",".join(lines[PROTO]).split(",")}
        if schemes in ({"http"}, {"https"}):
            scheme = schemes.pop()
            scope["scheme"] = scheme.replace("http", "ws") if scope["type"] == "websocket" else scheme
        return True


FOR: Final = b"x-forwarded-for"
PROTO: Final = b"x-forwarded-proto"


def _network(text: str) -> Any:
    try:
        return ip_network(text)
    except ValueError as error:
        raise UsageError(
            f"--behind-proxy {text!r}: expected an address or a network, as 10.0.0.7 or 10.0.0.0/24 ({error})"
        ) from None
