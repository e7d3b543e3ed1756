"""Questions to the user of a host during a call, as the protocol's elicitation: for permits, and those of servers outside.

After a handshake they are requests to the host. In 2026-07-28 a server sends none: the call is answered with its questions and
a state, waits, and goes on when the host repeats it with that state and the answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from rrext.errors import InvalidArguments, TooManyRequests
from rrext.faces.mcp.protocol import HANDSHAKE_VERSIONS

MAX_SHOWN_ARGUMENTS: Final = 4000
"""Characters of the arguments of a call in the question for a permit; more fit no window in which a person decides."""
MAX_SUSPENDED: Final = 256
"""Calls of a user that wait for the host to come again with answers; a person is asked few things at once."""

METHOD: Final = "elicitation/create"
STATE: Final = 16
"""Bytes of a state: as many as nobody guesses."""
MODES: Final = {"form": HANDSHAKE_VERSIONS[:2], "url": HANDSHAKE_VERSIONS[:3]}
"""What a user can be shown → the versions that do not know it."""
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"allow": {"type": "boolean", "title": "Allow this call"}},
    "required": ["allow"],
}


def modes_of(capabilities: object, version: object) -> list[str]:
    """The kinds of questions that a client with these capabilities shows its user; forms, if it names no kind."""
    elicitation = cast("dict[str, Any]", capabilities).get("elicitation") if isinstance(capabilities, dict) else None
    if not isinstance(elicitation, dict):
        return []
    named = cast("dict[str, Any]", elicitation) or {"form": {}}
    return [mode for mode, without in MODES.items() if mode in named and version not in without]


def can_ask(modes: list[str]) -> dict[str, Any]:
    """The arguments by which a call says that its user can be asked."""
    permits = {"permits": True} if "form" in modes else {}
    return {**permits, "questions": modes} if modes else permits


def question(event: str, body: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the request for an answer to an event of the session: those of a server outside unchanged."""
    if event == "rrext_question":
        params: dict[str, Any] = body["params"]
        return params
    arguments = msgspec.json.encode(body["arguments"]).decode()
    shown, rest = arguments[:MAX_SHOWN_ARGUMENTS], len(arguments) - MAX_SHOWN_ARGUMENTS
    # a character that is not seen could make the arguments look like others
    shown = "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in shown)
    more = f"… (and {rest:,} more characters)" if rest > 0 else ""
    within = f", which {body['within']} wants to call" if "within" in body else ""
    text = f"Allow this call of the tool {body['tool']} of {body['nodeId']}{within}?\n{shown}{more}"
    return {"message": text, "requestedSchema": SCHEMA}


def answer(event: str, result: object) -> Any:
    """The answer to an event of the session, of the result of such a request: `{action, content?}`, or whether a call is
    allowed. What is no result, as an error, is that of a user who cancels.
    """
    given = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
    action, content = given.get("action"), given.get("content")
    if event == "rrext_permission":
        return action == "accept" and isinstance(content, dict) and content.get("allow") is True
    if action not in ("accept", "decline"):
        return {"action": "cancel"}
    return {"action": action, "content": content} if isinstance(content, dict) and action == "accept" else {"action": action}


class SuspendableCall:
    """A call of a host of 2026-07-28 whose user can be asked. `questions` are those without an answer: their events and their
    parameters, by number. `nbytes` is the size of the call.
    """

    def __init__(self, user: str | None, arguments: Mapping[str, Any], nbytes: int) -> None:
        self.user = user
        self.nbytes = nbytes
        self.asked: Any = (arguments["tool"], arguments["input"])
        self.questions: dict[int, tuple[str, dict[str, Any]]] = {}
        self.state: str | None = None
        """The state that the host has, while the call is suspended."""

    @property
    def needed(self) -> dict[str, Any]:
        """The members of the result that asks."""
        asked = {str(number): {"method": METHOD, "params": params} for number, (_, params) in self.questions.items()}
        return {"inputRequests": asked, "requestState": self.state}

    def take_answers(self, given: object) -> list[tuple[int, str, object]]:
        """The questions that the `inputResponses` of a request answer, which have no further one: number, event, result."""
        responses = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        numbers = [number for number in self.questions if str(number) in responses]
        return [(number, self.questions.pop(number)[0], responses[str(number)]) for number in numbers]


class SuspendedCalls:
    """The calls that wait for their hosts to come again, by the states. Each is good once, for one user, tool and input. Those
    of a user have at most `max_bytes` together.
    """

    def __init__(self, max_bytes: int) -> None:
        self._calls: dict[str, SuspendableCall] = {}
        self._max_bytes = max_bytes

    def suspend(self, call: SuspendableCall) -> dict[str, Any]:
        """Suspend a call; the members of the result that asks. Raises `TooManyRequests`."""
        import secrets  # most hosts are never asked

        sizes = [other.nbytes for other in self._calls.values() if other.user == call.user]
        if len(sizes) >= MAX_SUSPENDED:
            raise TooManyRequests(f"more than {MAX_SUSPENDED} calls of a user wait for its answers")
        if sum(sizes) + call.nbytes > self._max_bytes:
            raise TooManyRequests(
                f"calls of a user with more than {self._max_bytes} bytes wait for its answers (max_inflight_bytes)"
            )
        call.state = secrets.token_hex(STATE)
        self._calls[call.state] = call
        return call.needed

    def resume(self, state: object, user: str | None, arguments: Mapping[str, Any]) -> SuspendableCall:
        """The call that goes on. Raises `InvalidArguments` if there is none: nothing runs a second time for an old state."""
        call = self._calls.get(state) if isinstance(state, str) else None
        if call is None or call.user != user or call.asked != (arguments["tool"], arguments["input"]):
            text = "no call with this input waits for answers under this state: call anew, without it"
            raise InvalidArguments.at("/requestState", text)
        self.forget(call)
        return call

    def forget(self, call: SuspendableCall) -> None:
        """The call is not suspended any more."""
        if call.state is not None:
            self._calls.pop(call.state, None)
            call.state = None
