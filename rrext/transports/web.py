"""The addresses of WebSockets, and connections to them."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from rrext.errors import NotConnected, UsageError

if TYPE_CHECKING:
    import ssl

SCHEMES: Final = ("ws", "wss")
DEFAULT_PORT: Final = 5565
DEFAULT_PATH: Final = "/task/service"
"""Where RocketRide's servers have it; ours takes any path."""


class WebAddress(NamedTuple):
    """Where a WebSocket is."""

    host: str
    port: int
    path: str
    is_tls: bool

    @classmethod
    def of(cls, text: str) -> WebAddress:
        """Read `ws://HOST:PORT` or `wss://HOST:PORT`. Raises `UsageError`."""
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError:
            parts, host, port = urlsplit(""), None, None
        path = parts.path if parts.path.strip("/") else DEFAULT_PATH
        is_plain = all(letter.isascii() and letter.isprintable() and letter != " " for letter in f"{host}{path}{parts.query}")
        if parts.scheme not in SCHEMES or not host or parts.fragment or not is_plain:
            raise UsageError(f"{text!r} is no address: it is unix:PATH of a socket, or ws://HOST:PORT or wss://HOST:PORT")
        if parts.username is not None or parts.password is not None:
            raise UsageError("a key does not belong into an address, which others may see")
        if parts.query:
            path += f"?{parts.query}"
        return cls(host, port or DEFAULT_PORT, path, parts.scheme == "wss")

    def __str__(self) -> str:
        return f"{'wss' if self.is_tls else 'ws'}://{self.host_header}"

    @property
    def host_header(self) -> str:
        """The value of the header `Host`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def connect(self, timeout: float) -> socket.socket:
        """A connection, also through TLS, that blocks. Raises `NotConnected`."""
        try:
            end = socket.create_connection((self.host, self.port), timeout)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return end if not self.is_tls else self.tls().wrap_socket(end, server_hostname=self.host)
        except OSError as error:
            raise self.refused(error) from None

    def tls(self) -> ssl.SSLContext:
        """The settings of TLS: certificates are always checked."""
        import ssl

        return ssl.create_default_context()

    def refused(self, error: OSError) -> NotConnected:
        """The error of a connection that did not come about."""
        if isinstance(error, ConnectionRefusedError):
            return NotConnected(f"nobody listens at {self}", hint=f"start a server with `rrext serve --ws {self.host_header}`")
        if isinstance(error, TimeoutError):
            return NotConnected(f"nobody answers at {self}")
        reason = getattr(error, "verify_message", "") or getattr(error, "reason", "") or error.strerror or str(error)
        return NotConnected(f"cannot connect to {self}: {reason}")
