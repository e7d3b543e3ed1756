"""The address of a port: a host of this machine and a number."""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple

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
