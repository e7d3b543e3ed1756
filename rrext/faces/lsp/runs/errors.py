"""Errors of runs from an editor, besides those of the engine."""

from __future__ import annotations

from typing import Any

from rrext.errors import (
    Cancelled,
    InvalidArguments,
    NotConnected,
    RrextError,
    ServerExited,
    ShuttingDown,
    UsageError,
)

TRUST_HINT = 'set "trusted": true in initializationOptions if you would run this pipeline on the command line too'


class NotTrusted(RrextError, code="not_trusted", number=-32016):
    """A workspace without trust wants to run code."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} runs code, and this workspace is not trusted", hint=TRUST_HINT)


class EngineEnded(RrextError, code="engine_ended", number=-32016):
    """The engine process ended or could not start; `data` has `exit_code` and the tail of `stderr`, if it ran."""


class InputNeeded(InvalidArguments):
    """A tool, its input, a file or a question is missing, and the user provided none."""

    def __init__(self, path: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(f"{path}: {message}", hint=hint, data={"errors": [{"path": path, "message": message}]})


class FilesFailed(RrextError, code="files_failed", number=-32016):
    """Some of several files failed; `result` has the outcome of each."""


def as_editor_error(error: RrextError, *, has_ended: bool = False) -> RrextError:
    """The error in the words of an editor, which knows an engine and no server behind it.

    The last errors of an engine that `has_ended` are not the reason of the failure.
    """
    data: dict[str, Any] = error.data
    if isinstance(error, ShuttingDown) or (has_ended and isinstance(error, Cancelled)):
        error = NotConnected(error.message)
    if isinstance(error, ServerExited):
        return EngineEnded(error.message.replace("The server", "The engine", 1), hint="the next run starts it again", data=data)
    if isinstance(error, NotConnected):
        return EngineEnded("The engine was ended while this ran", hint="run it again")
    if isinstance(error, UsageError) and "arguments cannot be sent" in error.message:
        return InvalidArguments.at("", error.message)
    if isinstance(error, UsageError):
        return EngineEnded(error.message.replace("the server", "the engine", 1))
    return error
