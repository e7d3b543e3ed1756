"""The commands that a session answers itself, without the engine."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rrext.errors import InvalidRequest
from rrext.server.arguments import caller_of, decode
from rrext.server.commands import (
    COMMANDS,
    AnswerArguments,
    CancelArguments,
    IdentifyArguments,
    InitializeArguments,
    PermitArguments,
)
from rrext.wire.messages import Request

if TYPE_CHECKING:
    from rrext.server.session import Session


PROTOCOL_VERSION = 1

CAPABILITIES: Final = {"rawTail": True, "progress": True, "stream": True, "events": True, "cancel": True, "tools": True}

log: Final = logging.getLogger("rrext.session")


def _initialize(session: Session, request: Request) -> None:
    if session.is_initialized:
        raise InvalidRequest("initialize was received already")
    given = decode(request.arguments, InitializeArguments, session.limits)
    session.caller = caller_of(session.caller, given.context, session.limits)
    session.is_initialized = True
    session.client.caller = session.caller
    session.client.name, session.client.version = given.client_name or "", given.client_version or ""
    from rrext.version import __version__

    body = {
        "server": {"name": "rrext", "version": __version__},
        "protocol": PROTOCOL_VERSION,
        "capabilities": CAPABILITIES,
        "limits": session.limits.as_json(),
        "commands": list(COMMANDS),
    }
    session.answer_own(request, body)
    connection = session.connection
    connection.raw_tail = bool(given.raw_tail) and connection.has_tails


def _identify(session: Session, request: Request) -> None:
    session.client.name = decode(request.arguments, IdentifyArguments, session.limits).client_name
    session.answer_own(request, {})


def _probe(session: Session, request: Request) -> None:
    session.answer_own(request, probe_body())


def probe_body() -> dict[str, Any]:
    """What anybody may know of the server, as RocketRide's clients ask for it before they show a key."""
    from rrext.version import __version__

    return {
        "version": __version__,
        "capabilities": ["oss"],
        "platform": sys.platform,
        "apps": [],
        "endpoints": {"api": "origin", "ui": "origin"},
    }


def _ping(session: Session, request: Request) -> None:
    session.answer_own(request, {"pong": True})


def _cancel(session: Session, request: Request) -> None:
    """Cancel a request. An unknown id is no error, because the answer may have crossed the cancel."""
    given = decode(request.arguments, CancelArguments, session.limits)
    was_running = session.cancel(given.request_id)
    if not was_running:
        log.debug("cancel of request %s, which is not in flight", given.request_id)
    session.answer_own(request, {"cancelled": was_running})


def _permit(session: Session, request: Request) -> None:
    """Answer a question for a permit. A late answer is no error, because the call may have ended meanwhile."""
    given = decode(request.arguments, PermitArguments, session.limits)
    session.answer_own(request, {"answered": session.questions.answer("rrext_permission", given.permission, given.allow)})


def _answer(session: Session, request: Request) -> None:
    """Answer a question for input of the user, as `_permit` does."""
    given = decode(request.arguments, AnswerArguments, session.limits)
    session.answer_own(request, {"answered": session.questions.answer("rrext_question", given.question, given.answer)})


def _shutdown(session: Session, request: Request) -> None:
    session.begin_end(request)


OWN_COMMANDS: dict[str, Callable[[Session, Request], None]] = {
    "initialize": _initialize,
    "rrext_public_probe": _probe,
    "rrext_identify": _identify,
    "rrext_ping": _ping,
    "rrext_permit": _permit,
    "rrext_answer": _answer,
    "cancel": _cancel,
    "shutdown": _shutdown,
    "disconnect": _shutdown,
}
"""Command → its handler. A handler raises `RrextError` to answer with an error."""

NEVER_HELD: Final = frozenset(("rrext_permit", "rrext_answer", "cancel", "shutdown", "disconnect"))
"""Commands that run at once although answers wait for a slow reader: they end calls, or let them go on."""
