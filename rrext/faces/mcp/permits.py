"""Permits to call a tool, as the protocol's elicitation: the question, and the answer of the user of a host."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from rrext.errors import RrextError, Unavailable
from rrext.faces.mcp.limits import MAX_SHOWN_ARGUMENTS
from rrext.faces.mcp.versions import HANDSHAKE_VERSIONS

METHOD: Final = "elicitation/create"
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


class RepeatedCall:
    """The permits of a call in 2026-07-28, where a server asks nothing: a call that needs an answer ends with the question,
    and is repeated with the answer. `answers` are the `inputResponses` of the request.

    A tool that another tool calls is denied: the outer tool has begun, and would run twice.
    """

    def __init__(self, answers: object) -> None:
        self._answers = cast("dict[str, Any]", answers) if isinstance(answers, dict) else {}
        self._questions: dict[str, Any] = {}

    def permit(self, body: dict[str, Any]) -> bool:
        """Whether an answer allows the call; without an answer it is denied, and `needed` has the question."""
        if "within" in body:
            return False
        from hashlib import sha256  # most hosts are never asked

        # an answer is for one tool and its arguments alone
        asked = msgspec.json.encode([body["tool"], body["nodeId"], body["arguments"]], order="deterministic")
        key = f"permit-{sha256(asked).hexdigest()[:32]}"
        if key not in self._answers:
            self._questions[key] = {"method": METHOD, "params": question(body)}
        return allows(self._answers.get(key))

    def needed(self, error: RrextError) -> dict[str, Any] | None:
        """The questions as members of a result, if the call ended for want of an answer."""
        return {"inputRequests": self._questions} if self._questions and isinstance(error, Unavailable) else None
