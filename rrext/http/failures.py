"""Failures of an HTTP service as `ToolError`s that people can act on and programs can tell apart.

Each code begins with the family of the service, such as `model`:

| code | when |
|---|---|
| …_unauthorized | 401, 403: no key, or one that the server refuses |
| …_not_found | 404: the server has no such thing, or the address is not that of the API |
| …_rate_limited | 429, also after the retries; `data.retryAfter` has the seconds that the server asks for |
| …_bad_request | any other 4xx: the server does not take the request as it is |
| …_failed | 5xx, also after the retries |
| …_unreachable | no connection, or one that broke before the answer was complete |
| …_timeout | the server was silent, or not done in time |
| …_redirected | 3xx that is not followed, because the key would travel with it |
| …_bad_answer | an answer that is not what this API answers |
| …_answer_too_large | more than the limit |
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, ClassVar, Final, Protocol

import msgspec

from rrext.errors import ToolError
from rrext.http.limits import MAX_SENTENCE

KINDS: Final = {401: "unauthorized", 403: "unauthorized", 404: "not_found", 429: "rate_limited"}


class HttpServer(Protocol):
    """The server behind an address, for failures. As text it is the beginning of a sentence."""

    family: ClassVar[str]
    """The first word of the codes."""
    hints: ClassVar[Mapping[str, str]]
    """The next step of a person, for codes without their family."""

    def hide(self, text: str) -> str:
        """The text without the secrets of the server."""
        ...


def failure(server: HttpServer, kind: str, message: str, data: Mapping[str, Any] | None = None) -> ToolError:
    """The failure of a kind, which is its code without the family; `message` follows the name of the server."""
    return ToolError(f"{server}{message}", code=f"{server.family}_{kind}", hint=server.hints.get(kind), data=data)


def of_status(server: HttpServer, status: int, body: bytes, *, asked: float | None, tries: int) -> ToolError:
    """The failure for a status other than 2xx. `asked` is the server's requested pause in seconds."""
    if 300 <= status < 400:
        kind = "redirected"
    elif status >= 500:
        kind = "failed"
    else:
        kind = KINDS.get(status, "bad_request")
    sentence = sentence_of(body, server.hide)
    data: dict[str, Any] = {"status": status, "tries": tries}
    if asked is not None:
        data["retryAfter"] = asked
    return failure(server, kind, f" answered {status}{f': {sentence}' if sentence else ''}", data)


def broken(server: HttpServer, error: Exception, *, tries: int) -> ToolError:
    """The failure for a connection that could not be made or broke."""
    why = server.hide(" ".join(str(error).split()))[:MAX_SENTENCE] or "no reason was given"
    return failure(server, "unreachable", f": the connection failed: {why}", {"tries": tries})


def late(server: HttpServer, what: str, *, tries: int) -> ToolError:
    """The failure for a timeout; `what` names the slow part and its setting."""
    return failure(server, "timeout", f" {what}", {"tries": tries})


def bad_answer(server: HttpServer, what: str) -> ToolError:
    """The failure for an invalid answer with status 200; `what` completes "… answered "."""
    return failure(server, "bad_answer", f" answered {server.hide(what)}")


def too_large(server: HttpServer, maximum: int) -> ToolError:
    """The failure for an answer that is too large."""
    data = {"limit": "max_answer", "maximum": maximum}
    return failure(server, "answer_too_large", f" answered more than {maximum:,} bytes (max_answer)", data)


def sentence_of(body: bytes, hide: Callable[[str], str] = str) -> str:
    """The server's own message in the body of a failure, on one line and not too long; "" if there is none.

    `hide` gets the whole message: it would not find a key that was cut in two.
    """
    try:
        said: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        said = body.decode("utf-8", "replace")
        if said.lstrip().startswith("<"):
            return ""  # a page for browsers, from a proxy
    text = " ".join(hide(_words(said)).split())
    return text if len(text) <= MAX_SENTENCE else text[: MAX_SENTENCE - 1] + "…"


def _words(said: Any) -> str:
    for _ in range(4):  # servers wrap it: {"error": {"message": …}}
        if isinstance(said, list) and said:
            said = said[0]
        elif isinstance(said, dict):
            said = next((said[key] for key in ("error", "message", "detail", "msg") if said.get(key)), "")
        else:
            break
    return said if isinstance(said, str) else ""


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds of a `Retry-After`, given as a number or as a date; None if it is missing or is neither."""
    said = headers.get("retry-after", "").strip()
    if not said:
        return None
    try:
        seconds = float(said)
    except ValueError:
        from email.utils import parsedate_to_datetime  # ten milliseconds, and servers rarely name a date

        try:
            seconds = parsedate_to_datetime(said).timestamp() - (time.time() if now is None else now)
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if isfinite(seconds) else None
