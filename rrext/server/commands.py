"""The command table: command name → operation."""

from __future__ import annotations

from typing import Any, Literal, NoReturn

import msgspec

from rrext.engine.interface import operations
from rrext.errors import InvalidArguments, UnknownCommand

SUBCOMMANDS: dict[str, type[operations.Operation]] = {
    "open": operations.Open,
    "write": operations.Write,
    "close": operations.Close,
    "tool": operations.Tool,
    "tools": operations.ListTools,
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
    """Cancel a request of this connection. → `{cancelled}`: whether it was still running"""

    request_id: int | str


def operation_for(command: str, arguments: dict[str, Any]) -> type[operations.Operation]:
    """Decode a command to its operation. Raises `UnknownCommand` and `InvalidArguments`."""
    if command == "rrext_process":
        subcommand = arguments.get("subcommand")
        shape = SUBCOMMANDS.get(subcommand) if type(subcommand) is str else None
        return shape or _of_subcommand(arguments, SUBCOMMANDS)
    if command == "rrext_store":
        from rrext.engine.interface.store_operations import STORE_SUBCOMMANDS  # few clients keep files

        return _of_subcommand(arguments, STORE_SUBCOMMANDS)
    if command == "rrext_log":
        from rrext.engine.interface.log_operations import LOG_SUBCOMMANDS

        return _of_subcommand(arguments, LOG_SUBCOMMANDS)
    if command in PROFILE_COMMANDS:
        from rrext.engine.interface import profile_operations  # few clients profile

        return profile_operations.PROFILE_COMMANDS[command]
    shape = ENGINE_COMMANDS.get(command)
    if shape is None:
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
