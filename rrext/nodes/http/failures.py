"""Failures of a model server as `ToolError`s that people can act on and programs can tell apart.

| code | when |
|---|---|
| model_unauthorized | 401, 403: no key, or one that the server refuses |
| model_not_found | 404: no such model, or the address is not that of the API |
| model_rate_limited | 429, also after the retries; `data.retryAfter` has the seconds that the server asks for |
| model_bad_request | any other 4xx: the server does not take the request as it is |
| model_failed | 5xx, also after the retries |
| model_unreachable | no connection, or one that broke before the answer was complete |
| model_timeout | the server was silent, or not done in time |
| model_redirected | 3xx: redirects are not followed, because the key would travel with them |
| model_bad_answer | an answer that is not what this API answers |
| model_answer_too_large | more than the limit |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from rrext.errors import ToolError
from rrext.nodes.http.limits import MAX_SENTENCE, SHORTEST_SECRET

HIDDEN: Final = "•••"

CODES: Final = {401: "model_unauthorized", 403: "model_unauthorized", 404: "model_not_found", 429: "model_rate_limited"}
HINTS: Final = {
    "model_unauthorized": 'Check "apikey" in the settings of the node.',
    "model_not_found": "Check the address and the model in the settings of the node.",
    "model_rate_limited": "Ask less often, or see what the account of this key may use.",
    "model_unreachable": "Check that the server runs and that the address in the settings of the node is right.",
    "model_redirected": "Put the address that the server really has into the settings of the node.",
}


class ServerName(msgspec.Struct, frozen=True):
    """The node and the address of its server, for failures; and the key, which no text may show."""

    node_id: str
    address: str
    secret: str = ""

    def hide(self, text: str) -> str:
        """The text without the key."""
        return text.replace(self.secret, HIDDEN) if len(self.secret) >= SHORTEST_SECRET else text

    def __str__(self) -> str:
        return f'Model server {self.address} of node "{self.node_id}"'

    def __repr__(self) -> str:
        return f"<ServerName {self.node_id} {self.address}>"


def of_status(server: ServerName, status: int, body: bytes, *, asked: float | None, tries: int) -> ToolError:
    """The failure for a status other than 2xx. `asked` is the server's requested pause in seconds."""
    if 300 <= status < 400:
        code = "model_redirected"
    elif status >= 500:
        code = "model_failed"
    else:
        code = CODES.get(status, "model_bad_request")
    sentence = sentence_of(body, server.hide)
    data: dict[str, Any] = {"status": status, "tries": tries}
    if asked is not None:
        data["retryAfter"] = asked
    return ToolError(
        f"{server} answered {status}{f': {sentence}' if sentence else ''}", code=code, hint=HINTS.get(code), data=data
    )


def broken(server: ServerName, error: Exception, *, tries: int) -> ToolError:
    """The failure for a connection that could not be made or broke."""
    why = server.hide(" ".join(str(error).split()))[:MAX_SENTENCE] or "no reason was given"
    return ToolError(
        f"{server}: the connection failed: {why}",
        code="model_unreachable",
        hint=HINTS["model_unreachable"],
        data={"tries": tries},
    )


def late(server: ServerName, what: str, *, tries: int) -> ToolError:
    """The failure for a timeout; `what` names the slow part and its setting."""
    return ToolError(f"{server} {what}", code="model_timeout", data={"tries": tries})


def bad_answer(server: ServerName, what: str) -> ToolError:
    """The failure for an invalid answer with status 200; `what` completes "… answered "."""
    return ToolError(
        f"{server} answered {server.hide(what)}",
        code="model_bad_answer",
        hint="Check that the address in the settings is that of an OpenAI-compatible API, most often with /v1 at its end.",
    )


def too_large(server: ServerName, maximum: int) -> ToolError:
    """The failure for an answer that is too large."""
    return ToolError(
        f"{server} answered more than {maximum:,} bytes (max_answer)",
        code="model_answer_too_large",
        data={"limit": "max_answer", "maximum": maximum},
    )


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
