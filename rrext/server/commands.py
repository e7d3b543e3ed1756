"""The command table: command name → operation."""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec

from rrext.engine.interface.operations import (
    Close,
    Execute,
    ListTasks,
    ListTools,
    Open,
    Operation,
    Services,
    TaskStatus,
    Terminate,
    Tool,
    Validate,
    Write,
)
from rrext.errors import InvalidArguments, UnknownCommand

SUBCOMMANDS: dict[str, type[Operation]] = {
    "open": Open,
    "write": Write,
    "close": Close,
    "tool": Tool,
    "tools": ListTools,
}
"""Subcommand of `rrext_process` -> operation."""

ENGINE_COMMANDS: dict[str, type[Operation]] = {
    "execute": Execute,
    "terminate": Terminate,
    "tools": ListTools,
    "rrext_validate": Validate,
    "rrext_services": Services,
    "rrext_get_tasks": ListTasks,
    "rrext_get_task_status": TaskStatus,
}
"""Command -> engine operation, for commands that are one operation each."""

COMMANDS: tuple[str, ...] = (
    "initialize",
    "rrext_process",
    *ENGINE_COMMANDS,
    "rrext_ping",
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


class CancelArguments(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Cancel a request of this connection. → `{cancelled}`: whether it was still running"""

    request_id: int | str


def operation_for(command: str, arguments: dict[str, Any]) -> type[Operation]:
    """Decode a command to its operation. Raises `UnknownCommand` and `InvalidArguments`."""
    if command == "rrext_process":
        subcommand = arguments.get("subcommand")
        if isinstance(subcommand, str) and subcommand in SUBCOMMANDS:
            return SUBCOMMANDS[subcommand]
        if subcommand is None:
            names = ", ".join(SUBCOMMANDS)
            raise InvalidArguments.at("/subcommand", f"subcommand is required: one of {names}")
        if not isinstance(subcommand, str):
            raise InvalidArguments.at("/subcommand", "expected a string")
        _unknown(f"Invalid subcommand {subcommand[:100]}.", subcommand, SUBCOMMANDS)
    shape = ENGINE_COMMANDS.get(command)
    if shape is None:
        _unknown(f"Invalid command: {command[:100]}.", command, COMMANDS)
    return shape


def _unknown(message: str, name: str, known: Any) -> NoReturn:
    from rrext.errors import near_matches

    found = near_matches(name[:100], known)
    hint = "Did you mean " + " or ".join(f'"{n}"' for n in found) + "?" if found else None
    raise UnknownCommand(f"{message} {hint}" if hint else message.rstrip("."), hint=hint, data={"near": found})
