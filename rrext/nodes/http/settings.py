"""The address of a server's API, its key, and the limits of time."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import msgspec

from rrext.errors import Unavailable
from rrext.nodes.http.retries import Retries

MIB: Final = 1024 * 1024


class EndpointSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The address of an API, and its limits of time. Times are seconds, sizes bytes."""

    address: str
    apikey: str = ""
    silence: float = 120.0
    total: float = 600.0
    retries: Retries = Retries()
    max_answer: int = 32 * MIB

    def __repr__(self) -> str:
        return f"<EndpointSettings {self.address}>"


def checked_address(address: str, node_id: str) -> str:
    """The address without spaces and slashes at its end. Raises `Unavailable` for an invalid one."""
    address = address.strip().rstrip("/")
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
        parts = urlsplit("")
    if not usable or parts.query or parts.fragment:
        raise no_address(node_id)
    if parts.username is not None or parts.password is not None:
        raise Unavailable(f'The address of node "{node_id}" holds a password', hint='Put the key into "apikey" instead.')
    return address


def no_address(node_id: str) -> Unavailable:
    """The failure of a node with an invalid address."""
    return Unavailable(
        f'Node "{node_id}" has no address of a model server',
        hint='Set "base_url" to the address of its API, such as http://localhost:11434/v1',
    )


def checked_key(apikey: str, node_id: str) -> str:
    """The key without spaces around it. Raises `Unavailable` for a key that no header can carry."""
    apikey = apikey.strip()
    if not (apikey.isascii() and apikey.isprintable()):
        raise Unavailable(f'"apikey" of node "{node_id}" holds characters that no key has')
    return apikey
