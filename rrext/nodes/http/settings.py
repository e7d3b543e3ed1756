"""The address of a server's API, its key, the limits of time, and the retries."""

from __future__ import annotations

import random
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec

from rrext.errors import Unavailable

MIB: Final = 1024 * 1024


Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]


class Retries(msgspec.Struct, frozen=True):
    """The number of attempts of a request and the pauses between them."""

    count: int = 2
    """Retries after the first attempt."""
    delay: float = 0.5
    """Seconds before the first retry; each further one waits twice as long."""
    longest: float = 20.0
    """The longest such pause: a person would not wait longer."""
    longest_asked: float = 60.0
    """The longest pause of a `Retry-After` that is obeyed; a longer one is reported instead."""

    def pause(self, tried: int, asked: float | None) -> float | None:
        """Seconds until the next try, after `tried` tries failed; None: do not try again.

        `asked` is the pause that the server asked for. Otherwise the pause grows, and a random part of up to a half is left
        out, so that callers that failed together do not come back together.
        """
        if tried > self.count:
            return None
        if asked is not None:
            return asked if asked <= self.longest_asked else None
        longest = min(self.longest, self.delay * 2 ** (tried - 1))
        return random.uniform(longest / 2, longest)


class ApiSettings:
    """The settings of a model behind an OpenAI-compatible API. The base of the `Config` of nodes that use one."""

    model: Annotated[str, "The model's name, as its server knows it; stores remember it with vectors."] = ""
    base_url: Annotated[str, "Address of the API, such as http://localhost:11434/v1; empty: the one that the node knows."] = ""
    serverbase: Annotated[str, "Another name of base_url."] = ""
    apikey: Annotated[str, "The key, best as ${ROCKETRIDE_…}; a server without keys needs none."] = ""
    timeout: Annotated[Seconds, "Seconds that the server may be silent; a model thinks before its first word."] = 120.0
    totalTimeout: Annotated[Seconds, "Seconds for one request, retries included. The caller's deadline may end it earlier."] = (
        600.0
    )
    retries: Annotated[
        int, msgspec.Meta(ge=0, le=10), "Repetitions after a failure that may pass: 429, 5xx, no connection."
    ] = 2
    retryDelay: Annotated[Seconds, "Seconds before the first repetition; it doubles, up to 20."] = 0.5
    modelTotalTokens: Annotated[int | None, "Accepted from RocketRide's files; the server keeps its own limit."] = None
    modelSource: Annotated[str | None, "Accepted from RocketRide's files."] = None


def endpoint_settings(config: Any, address: str, node_id: str) -> EndpointSettings:
    """The endpoint of a node's `ApiSettings`; `address` is the API's if the settings name none. Raises `Unavailable`."""
    if not config.model.strip():
        raise Unavailable(f'Node "{node_id}" names no model', hint='Set "model" to the name that its server knows.')
    return EndpointSettings(
        address=config.base_url or config.serverbase or address,
        apikey=config.apikey,
        silence=config.timeout,
        total=config.totalTimeout,
        retries=Retries(count=config.retries, delay=config.retryDelay),
    )


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
