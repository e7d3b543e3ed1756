"""Permits to call a tool, as the protocol's elicitation: the question, and the answer of the user of a host."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Final, cast

import msgspec

from rrext.errors import RrextError, Unavailable
from rrext.faces.mcp.limits import MAX_SHOWN_ARGUMENTS, MAX_USED_PERMITS
from rrext.faces.mcp.versions import HANDSHAKE_VERSIONS

METHOD: Final = "elicitation/create"
ANSWER: Final = "permit"
"""The name of the question of a call, and of its answer."""
NONCE: Final = 16
"""Bytes that tell one permit from another: as many as nobody guesses."""
HEAD: Final = NONCE + 8
"""Bytes of a permit before its signature: the nonce, and the expiry as a float."""
SIGNATURE: Final = 32
"""Bytes of a signature, and of the key: those of SHA-256."""
WITHOUT: Final = HANDSHAKE_VERSIONS[:2]
"""The versions that know no elicitation."""
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"allow": {"type": "boolean", "title": "Allow this call"}},
    "required": ["allow"],
}


def elicits(capabilities: object, version: object) -> bool:
    """Whether a client of a version with these capabilities shows forms to its user; without a kind of elicitation it does."""
    if version in WITHOUT:
        return False
    elicitation = cast("dict[str, Any]", capabilities).get("elicitation") if isinstance(capabilities, dict) else None
    return isinstance(elicitation, dict) and (not elicitation or "form" in elicitation)


def question(body: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the request for an answer; `body` is that of the event `rrext_permission`."""
    arguments = msgspec.json.encode(body["arguments"]).decode()
    shown, rest = arguments[:MAX_SHOWN_ARGUMENTS], len(arguments) - MAX_SHOWN_ARGUMENTS
    # a character that is not seen could make the arguments look like others
    shown = "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in shown)
    more = f"… (and {rest:,} more characters)" if rest > 0 else ""
    within = f", which {body['within']} wants to call" if "within" in body else ""
    text = f"Allow this call of the tool {body['tool']} of {body['nodeId']}{within}?\n{shown}{more}"
    return {"message": text, "requestedSchema": SCHEMA}


def allows(answer: object) -> bool:
    """Whether the result of such a request allows the call: the form was sent, and says so."""
    given = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    content = cast("dict[str, Any]", found) if isinstance(found := given.get("content"), dict) else {}
    return given.get("action") == "accept" and content.get("allow") is True


class Permits:
    """Permits that hosts give by repeating a call, each for one call: its nonce and its expiry are signed with a key of this
    process, over the user and the call. On the loop's thread.
    """

    def __init__(self, now: Callable[[], float], seconds: float) -> None:
        self._now = now
        self._seconds = seconds
        self._key = b""
        self._used: set[bytes] = set()
        self._expiries: list[tuple[float, bytes, str | None]] = []  # those of the used ones with their users, as a heap
        self._numbers: Counter[str | None] = Counter()  # of the used ones of each user

    def new(self, user: str | None, call: bytes) -> str:
        """The text by which a host names a permit that its user may give for a call."""
        import secrets  # most hosts are never asked

        head = secrets.token_bytes(NONCE) + struct.pack(">d", self._now() + self._seconds)
        return (head + self._signature(head, user, call)).hex()

    def use(self, given: object, user: str | None, call: bytes) -> bool:
        """Whether a text names a permit for this call that is neither used nor too old. From now on it is used.

        Of a user who has used too many, none is good until some of them expire.
        """
        import hmac

        if not isinstance(given, str) or len(given) != 2 * (HEAD + SIGNATURE) or not given.isascii():
            return False
        try:
            permit = bytes.fromhex(given)
        except ValueError:
            return False
        head, now = permit[:HEAD], self._now()
        if not hmac.compare_digest(permit[HEAD:], self._signature(head, user, call)):
            return False
        self._forget(now)
        expiry: float = struct.unpack_from(">d", head, NONCE)[0]
        if expiry <= now or head in self._used or self._numbers[user] >= MAX_USED_PERMITS:
            return False
        self._used.add(head)
        self._numbers[user] += 1
        heappush(self._expiries, (expiry, head, user))
        return True

    def _forget(self, now: float) -> None:
        while self._expiries and self._expiries[0][0] <= now:
            _, head, user = heappop(self._expiries)
            self._used.discard(head)
            self._numbers[user] -= 1
            if not self._numbers[user]:
                del self._numbers[user]

    def _signature(self, head: bytes, user: str | None, call: bytes) -> bytes:
        import hmac
        import secrets

        self._key = self._key or secrets.token_bytes(SIGNATURE)
        return hmac.digest(self._key, head + json.dumps(user).encode() + b"\n" + call, "sha256")


class RepeatedCall:
    """The permit of a call in 2026-07-28, where a server asks nothing: a call that needs an answer ends with the question,
    and is repeated with the answer. `params` are those of the request, `arguments` those of the session's command.

    A tool that another tool calls is denied: the outer tool has begun, and would run twice.
    """

    def __init__(self, permits: Permits, user: str | None, params: dict[str, Any], arguments: dict[str, Any]) -> None:
        self._permits = permits
        self._user = user
        self._state = params.get("requestState")
        self._answers: Any = params.get("inputResponses")
        self._asked = arguments["tool"], arguments["input"]
        self._needed: dict[str, Any] | None = None

    def permit(self, body: dict[str, Any]) -> bool:
        """Whether an answer allows the call; without an answer to a question for this call it is denied, and `needed` has the
        question. Every answer uses its question up.
        """
        if "within" in body:
            return False
        # the input as it came, because that of the body may be redacted; `json` tells every two values apart
        asked = [*self._asked, body["nodeId"], body["tool"]]
        call = json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()
        if isinstance(self._answers, dict) and ANSWER in self._answers and self._permits.use(self._state, self._user, call):
            return allows(self._answers[ANSWER])
        questions = {ANSWER: {"method": METHOD, "params": question(body)}}
        self._needed = {"inputRequests": questions, "requestState": self._permits.new(self._user, call)}
        return False

    def needed(self, error: RrextError) -> dict[str, Any] | None:
        """The question as members of a result, if the call ended for want of an answer."""
        return self._needed if isinstance(error, Unavailable) else None
