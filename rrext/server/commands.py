"""Commands: their table, the arguments that become an operation, and the commands that a session answers itself.

msgspec converts arguments, because it is strict, fast and loaded anyway: cattrs turns `true` into 1 and `"12"` into 12, and
would add a quarter to the time of a start. Errors have JSON pointers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeVar

import msgspec

from rrext.engine.interface import operations
from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Operation
from rrext.errors import InvalidArguments, InvalidRequest, Unavailable, UnknownCommand, fold
from rrext.limits import MAX_AUTHORIZATION, MAX_SHOWN_NAME, Limits
from rrext.wire.messages import Request

if TYPE_CHECKING:
    from rrext.server.session import Session


SUBCOMMANDS: dict[str, type[operations.Operation]] = {
    "open": operations.Open,
    "write": operations.Write,
    "close": operations.Close,
    "tool": operations.Tool,
    "tools": operations.ListTools,
    "stores": operations.ListStores,
}
"""Subcommand of `rrext_process` -> operation."""

ENGINE_COMMANDS: dict[str, type[operations.Operation]] = {
    "execute": operations.Execute,
    "terminate": operations.Terminate,
    "tools": operations.ListTools,
    "rrext_tools_resolve": operations.ResolveTools,
    "rrext_tools_call": operations.CallTool,
    "restart": operations.Restart,
    "rrext_validate": operations.Validate,
    "rrext_services": operations.Services,
    "rrext_resolve_config": operations.ResolveConfig,
    "rrext_get_token": operations.GetToken,
    "rrext_get_pipeline": operations.GetPipeline,
    "rrext_get_tasks": operations.ListTasks,
    "rrext_get_task_status": operations.TaskStatus,
    "rrext_monitor": operations.Monitor,
    "rrext_dashboard": operations.Dashboard,
    "rrext_list_connections": operations.ListConnections,
    "rrext_list_tasks": operations.ListTaskRows,
}
"""Command -> engine operation, for commands that are one operation each."""

USUAL: dict[tuple[str, str | None], type[operations.Operation]] = {
    **{("rrext_process", name): operation for name, operation in SUBCOMMANDS.items()},
    ("rrext_tools_call", None): operations.CallTool,
}
"""Command and subcommand → the operation, of the commands that clients send most."""

PROFILE_COMMANDS: tuple[str, ...] = tuple(
    f"rrext_cprofile_{name}" for name in ("start", "stop", "status", "report", "report_tree", "threads")
)
"""The commands of the profiler."""

COMMANDS: tuple[str, ...] = (
    "initialize",
    "rrext_process",
    *ENGINE_COMMANDS,
    "rrext_log",
    *PROFILE_COMMANDS,
    "rrext_public_probe",
    "rrext_identify",
    "rrext_store",
    "rrext_ping",
    "rrext_permit",
    "rrext_answer",
    "cancel",
    "shutdown",
    "disconnect",
)
"""Every command, as `initialize` lists them."""


class InitializeArguments(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Announce the client and its capabilities. → `{server, protocol, capabilities, limits, commands}`"""

    client_name: str | None = None
    client_version: str | None = None
    raw_tail: bool | None = None
    context: dict[str, Any] | None = None


class IdentifyArguments(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Name the client of this connection anew. → `{}`"""

    client_name: str


class PermitArguments(msgspec.Struct, frozen=True, kw_only=True):
    """Answer the question of an `rrext_permission` event. → `{answered}`: whether the call still waited for it"""

    permission: int
    allow: bool


class AnswerArguments(msgspec.Struct, frozen=True, kw_only=True):
    """Answer the question of an `rrext_question` event for the user. → `{answered}`: whether the call still waited for it"""

    question: int
    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None

    @property
    def answer(self) -> dict[str, Any]:
        """`{action, content?}`."""
        return {"action": self.action} if self.content is None else {"action": self.action, "content": self.content}


class CancelArguments(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Cancel a request of this connection, or one of the calls within it, by its number in `rrext_call`. → `{cancelled}`:
    whether the request was still running"""

    request_id: int | str
    call: int | None = None


def operation_for(command: str, arguments: dict[str, Any]) -> type[operations.Operation]:
    """Decode a command to its operation. Raises `UnknownCommand`, `InvalidArguments`, and `Unavailable` for deployments."""
    if command == "rrext_process":
        subcommand = arguments.get("subcommand")
        shape = SUBCOMMANDS.get(subcommand) if type(subcommand) is str else None
        return shape or _of_subcommand(arguments, SUBCOMMANDS)
    if command == "rrext_store":
        from rrext.engine.interface.rare_operations import STORE_SUBCOMMANDS  # few clients keep files

        return _of_subcommand(arguments, STORE_SUBCOMMANDS)
    if command == "rrext_log":
        from rrext.engine.interface.rare_operations import LOG_SUBCOMMANDS

        return _of_subcommand(arguments, LOG_SUBCOMMANDS)
    if command in PROFILE_COMMANDS:
        from rrext.engine.interface import rare_operations  # few clients profile

        return rare_operations.PROFILE_COMMANDS[command]
    shape = ENGINE_COMMANDS.get(command)
    if shape is None:
        if f"{command}_".startswith("rrext_deploy_"):
            message = f"rrext has no deployments, so there is no {command}: `rrext serve FILE.pipe` keeps a pipeline loaded"
            raise Unavailable(message, hint="name the file when the server starts: rrext serve --ws HOST:PORT FILE.pipe")
        _unknown(f"Invalid command: {command[:100]}.", command, COMMANDS)
    return shape


def _of_subcommand(arguments: dict[str, Any], known: dict[str, type[operations.Operation]]) -> type[operations.Operation]:
    subcommand = arguments.get("subcommand")
    if isinstance(subcommand, str) and subcommand in known:
        return known[subcommand]
    if subcommand is None:
        raise InvalidArguments.at("/subcommand", f"subcommand is required: one of {', '.join(known)}")
    if not isinstance(subcommand, str):
        raise InvalidArguments.at("/subcommand", "expected a string")
    _unknown(f"Invalid subcommand {subcommand[:100]}.", subcommand, known)


def _unknown(message: str, name: str, known: Any) -> NoReturn:
    from rrext.errors import near_matches

    found = near_matches(name[:100], known)
    hint = "Did you mean " + " or ".join(f'"{n}"' for n in found) + "?" if found else None
    raise UnknownCommand(f"{message} {hint}" if hint else message.rstrip("."), hint=hint, data={"near": found})


T = TypeVar("T", bound=msgspec.Struct)


def decode(arguments: dict[str, Any], shape: type[T], limits: Limits, *, also: frozenset[str] = frozenset()) -> T:
    """Convert the arguments to `shape`. Raises `InvalidArguments`.

    Unknown arguments are ignored, so that newer clients work, unless one differs from a known one in case, `_` or `-` only.
    `also` names arguments of the command that are not in the shape.
    """
    known = _known(shape)
    if not arguments.keys() <= known:
        _refuse_misspelt(arguments, known | also)
    try:
        decoded = msgspec.convert(arguments, shape)
    except msgspec.ValidationError as error:
        raise _invalid(str(error), arguments) from None
    if isinstance(decoded, Operation) and decoded.timeout is not None:
        _check_timeout(decoded.timeout, limits)
    return decoded


_ENVELOPE = frozenset(("subcommand", "context", "_meta"))


@cache
def _known(shape: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(shape.__struct_encode_fields__) | _ENVELOPE


def _refuse_misspelt(arguments: dict[str, Any], known: frozenset[str]) -> None:
    folded = {fold(name): name for name in known}
    wrong = [(name, folded[fold(name)]) for name in arguments if name not in known and fold(name) in folded]
    if wrong:
        problems = [(f"/{_escaped(name)}", f'unknown argument; did you mean "{right}"?') for name, right in wrong]
        raise InvalidArguments.of(problems, hint=f'use "{wrong[0][1]}"')


def _invalid(text: str, arguments: dict[str, Any]) -> InvalidArguments:
    """Translate msgspec's error, with its path as a JSON pointer. The message names types and fields, never values."""
    message, _, path = text.partition(" - at `")
    pointer = _pointer(path.rstrip("`"))
    if message.startswith("Object missing required field `"):
        field = message.split("`")[1]
        return InvalidArguments(
            f"{field} is required", data={"errors": [{"path": f"{pointer}/{field}", "message": "is required"}]}
        )
    message = message.replace("`", "").replace(" | null", "").replace("Expected", "expected")
    return InvalidArguments.at(pointer, message)


def _pointer(path: str) -> str:
    """`$.object.name` → `/object/name`; msgspec writes `[...]` for a key that it does not name."""
    parts = path.removeprefix("$").replace("[", ".").replace("]", "").split(".")
    return "".join(f"/{_escaped(part)}" for part in parts if part)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _check_timeout(timeout: float, limits: Limits) -> None:
    if not (isfinite(timeout) and 0 < timeout <= limits.max_timeout):
        raise InvalidArguments.at("/timeout", f"expected seconds above 0 and at most {limits.max_timeout:g} (max_timeout)")


_NAMES: Final = (
    "subcommand", "tool", "nodeId", "token", "provider", "mimeType", "service", "source", "name", "requestId",
    "clientName", "clientVersion", "userId", "spaceId", "format", "call_ref",
)  # fmt: skip


def refuse_long_names(request: Request, limits: Limits) -> None:
    """Raise `UnknownCommand` or `InvalidArguments` for a name that is too long to be searched for or repeated."""
    most = limits.max_name
    if len(request.command) > most:
        raise UnknownCommand(f"Invalid command: {cut_short(request.command, most)}: it is over max_name, {most} characters")
    context = request.arguments.get("context")
    for path, given in ("", request.arguments), ("/context", context if isinstance(context, dict) else {}):
        for name in given:
            if len(name) > most:
                raise InvalidArguments.at(
                    f"{path}/{_escaped(cut_short(name, most))}", f"its name is over max_name, {most} characters"
                )
        for name in _NAMES:
            value = given.get(name)
            if isinstance(value, str) and len(value) > most:
                raise InvalidArguments.at(f"{path}/{name}", f"expected at most {most} characters (max_name)")


def cut_short(name: str, most: int) -> str:
    """Shorten a name of more than `most` characters, so that a message may repeat it."""
    return name if len(name) <= most else f"{name[:MAX_SHOWN_NAME]}…"


def refuse_tail() -> NoReturn:
    """Raise `InvalidArguments` for raw bytes with a command that takes none."""
    raise InvalidArguments.at("/data", "this command takes no raw tail (Json-Length)")


class _Context(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    user_id: str | None = None
    space_id: str | None = None
    authorization: str | None = None


def caller_of(caller: Caller, context: Any, limits: Limits, path: str = "/context") -> Caller:
    """Read the caller from a request's `context`, which replaces the connection's as a whole. Raises `InvalidArguments`."""
    if context is None:
        return caller
    if not isinstance(context, Mapping):
        raise InvalidArguments.at(path, "expected an object")
    try:
        given = decode(dict(context), _Context, limits)
    except InvalidArguments as error:
        problems = [(path + e["path"], e["message"]) for e in error.data["errors"]]
        raise InvalidArguments.of(problems, hint=error.hint) from None
    secret = given.authorization
    if secret is not None and not (secret.isascii() and secret.isprintable() and 0 < len(secret) <= MAX_AUTHORIZATION):
        raise InvalidArguments.at(f"{path}/authorization", f"expected 1 to {MAX_AUTHORIZATION} printable ASCII characters")
    if not caller.is_keyed:
        return msgspec.structs.replace(caller, user_id=given.user_id, space_id=given.space_id, authorization=secret)
    if given.user_id not in (None, caller.user_id):
        raise InvalidArguments.at(f"{path}/userId", "the user is that of the connection's key here")
    return msgspec.structs.replace(caller.claiming(given.space_id, f"{path}/spaceId"), authorization=secret)


PROTOCOL_VERSION = 1

CAPABILITIES: Final = {"rawTail": True, "progress": True, "stream": True, "events": True, "cancel": True, "tools": True}


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
    was_running = session.cancel(given.request_id) if given.call is None else session.cancel_inner(given.request_id, given.call)
    if not was_running:
        from logging import getLogger  # commands of clients import this module, and log nothing

        getLogger("rrext.session").debug("cancel of request %s, which is not in flight", given.request_id)
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
