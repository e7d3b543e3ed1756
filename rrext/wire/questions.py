"""Events that ask the client of a call, and the commands that answer them."""

from __future__ import annotations

from typing import Any, Final

QUESTIONS: Final = frozenset(("rrext_permission", "rrext_question"))
"""The events."""


def number_of(event: str, body: dict[str, Any]) -> int:
    """The number of the question of an event."""
    number: int = body[event.removeprefix("rrext_")]
    return number


def answering(event: str, number: int, given: Any) -> tuple[str, dict[str, Any]]:
    """The command that answers, and its arguments: of whether a call is allowed, or of `{action, content?}` of the user."""
    if event == "rrext_permission":
        return "rrext_permit", {"permission": number, "allow": given}
    return "rrext_answer", {"question": number, **given}
