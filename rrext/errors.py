"""The error tree. `code` is the contract, classes are for `except`.

RrextError
├── ParseError                parse_error           −32700
├── InvalidRequest            invalid_request       −32600
├── UnknownCommand            unknown_command       −32601
├── InvalidArguments          invalid_arguments     −32602
├── InternalError             internal              −32603
├── Cancelled                 cancelled             −32800
├── NotFound
│   ├── ToolNotFound          tool_not_found        −32010
│   ├── NodeNotFound          node_not_found        −32011
│   └── ProviderNotFound      provider_not_found    −32012
├── PipeError
│   ├── PipeNotOpen           pipe_not_open         −32013
│   ├── PipeFailed            pipe_failed           −32014
│   └── PipeExpired           pipe_expired          −32015
├── ToolError                 tool_failed           −32016  (raised by tool authors too)
├── ToolTimeout               tool_timeout          −32017
├── Unavailable               unavailable           −32018
├── InvalidPipeline           invalid_pipeline      −32019
├── LimitExceeded
│   ├── FrameTooLarge         frame_too_large       −32020
│   ├── ResultTooLarge        result_too_large      −32021
│   └── TooManyRequests       too_many_requests     −32022
├── ShuttingDown              shutting_down         −32023
├── TaskError
│   ├── TaskNotRegistered     TASK_NOT_REGISTERED   −32024
│   ├── TaskAmbiguous         TASK_AMBIGUOUS        −32025
│   └── TaskAlreadyRunning    TASK_ALREADY_RUNNING  −32026
└── ClientError               raised by `rrext.Client` alone, never on the wire
    ├── NotConnected          not_connected
    ├── ServerExited          server_exited
    └── UsageError            usage
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

__all__ = [
    "NUMBERS",
    "Cancelled",
    "ClientError",
    "FrameTooLarge",
    "InternalError",
    "InvalidArguments",
    "InvalidPipeline",
    "InvalidRequest",
    "LimitExceeded",
    "NodeNotFound",
    "NotConnected",
    "NotFound",
    "ParseError",
    "PipeError",
    "PipeExpired",
    "PipeFailed",
    "PipeNotOpen",
    "ProviderNotFound",
    "ResultTooLarge",
    "RrextError",
    "ServerExited",
    "ShuttingDown",
    "TaskAlreadyRunning",
    "TaskAmbiguous",
    "TaskError",
    "TaskNotRegistered",
    "TooManyRequests",
    "ToolError",
    "ToolNotFound",
    "ToolTimeout",
    "Unavailable",
    "UnknownCommand",
    "UsageError",
    "error_from_wire",
    "near_matches",
    "number_of",
]


class RrextError(Exception):
    """Any failure that rrext reports on purpose.

    `code` is stable, `message` is for a person, `hint` says what to do next, and `data` holds JSON values for programs.
    `result` is set by the client alone: what a failed object produced before it failed, as `close` returned it.
    """

    code: str = "internal"
    number: ClassVar[int] = -32603
    result: dict[str, Any] | None = None

    def __init__(self, message: str, *, hint: str | None = None, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.data: dict[str, Any] = dict(data) if data else {}


class ParseError(RrextError):
    """Bytes that are no frame, no UTF-8 or no JSON."""

    code = "parse_error"
    number = -32700


class InvalidRequest(RrextError):
    """An envelope that breaks the dialect's rules."""

    code = "invalid_request"
    number = -32600


class UnknownCommand(RrextError):
    """No command or subcommand of that name."""

    code = "unknown_command"
    number = -32601


class InvalidArguments(RrextError):
    """Arguments or tool input that do not fit; `data["errors"]` lists `{path, message}` with JSON pointers."""

    code = "invalid_arguments"
    number = -32602

    @classmethod
    def at(cls, path: str, message: str, *, hint: str | None = None) -> InvalidArguments:
        """One problem at one JSON pointer."""
        return cls.of([(path, message)], hint=hint)

    @classmethod
    def of(cls, problems: Sequence[tuple[str, str]], *, hint: str | None = None) -> InvalidArguments:
        """Several problems, each a JSON pointer into `arguments` and a message; the first one leads."""
        path, message = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        text = f"{path or '/'}: {message}{more}"
        return cls(text, hint=hint, data={"errors": [{"path": p, "message": m} for p, m in problems]})


class InternalError(RrextError):
    """A bug of rrext itself; the text is in the log, under the request id."""

    code = "internal"
    number = -32603


class Cancelled(RrextError):
    """The call was cancelled, or its connection was lost."""

    code = "cancelled"
    number = -32800

    def __init__(self, message: str = "cancelled", *, hint: str | None = None, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, hint=hint, data=data)


class NotFound(RrextError):
    """A name that this context cannot see; `data["near"]` lists similar ones that it can."""

    @classmethod
    def near(cls, message: str, name: str, known: Iterable[str]) -> NotFound:
        """An error whose message, hint and data name the known names most like `name`."""
        found = near_matches(name, known)
        if not found:
            return cls(message, data={"near": []})
        hint = "Did you mean " + " or ".join(f'"{n}"' for n in found) + "?"
        return cls(f"{message} {hint}", hint=hint, data={"near": found})


class ToolNotFound(NotFound):
    """No node, or not this node, has a tool of that name."""

    code = "tool_not_found"
    number = -32010


class NodeNotFound(NotFound):
    """The pipeline has no node of that id."""

    code = "node_not_found"
    number = -32011


class ProviderNotFound(NotFound):
    """No installed node has that provider name."""

    code = "provider_not_found"
    number = -32012


class PipeError(RrextError):
    """A pipe that cannot be used."""


class PipeNotOpen(PipeError):
    """Never opened on this connection, or closed."""

    code = "pipe_not_open"
    number = -32013


class PipeFailed(PipeError):
    """An earlier operation on this pipe failed; `close` still returns what was collected."""

    code = "pipe_failed"
    number = -32014


class PipeExpired(PipeError):
    """The pipe was idle for too long and was reclaimed."""

    code = "pipe_expired"
    number = -32015


class ToolError(RrextError):
    """A tool that failed. Authors raise it to choose what the caller sees; `code` may be a name of their own."""

    code = "tool_failed"
    number = -32016

    def __init__(
        self, message: str, *, code: str | None = None, hint: str | None = None, data: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, hint=hint, data=data)
        if code is not None:
            if code in NUMBERS and code != "tool_failed":
                raise ValueError(f'"{code}" is a code of rrext itself: choose another name for a tool\'s own error')
            self.code = code


class ToolTimeout(RrextError):
    """The call did not finish before its deadline."""

    code = "tool_timeout"
    number = -32017


class Unavailable(RrextError):
    """It exists, but not in this context or not on this machine; the message names what is missing."""

    code = "unavailable"
    number = -32018


class InvalidPipeline(RrextError):
    """A pipeline that cannot be loaded; `data["problems"]` has them all."""

    code = "invalid_pipeline"
    number = -32019


class LimitExceeded(RrextError):
    """A named limit was passed; the message names it."""


class FrameTooLarge(LimitExceeded):
    """A frame over `max_frame`."""

    code = "frame_too_large"
    number = -32020


class ResultTooLarge(LimitExceeded):
    """A result over `max_result`."""

    code = "result_too_large"
    number = -32021

    @classmethod
    def of(cls, size: int, maximum: int, what: str = "The result") -> ResultTooLarge:
        """A result of `size` bytes where `max_result` allows `maximum`; `what` begins the message."""
        return cls(
            f"{what} has {size:,} bytes: max_result is {maximum:,}",
            hint="ask for less, or let the tool be a generator and call it with `stream: true`",
            data={"limit": "max_result", "maximum": maximum, "size": size},
        )


class TooManyRequests(LimitExceeded):
    """More requests in flight than `max_inflight`."""

    code = "too_many_requests"
    number = -32022


class ShuttingDown(RrextError):
    """The server ends; the call was not finished."""

    code = "shutting_down"
    number = -32023


class TaskError(RrextError):
    """A pipeline that is not there, or not the only one."""


class TaskNotRegistered(TaskError):
    """No running pipeline has that token."""

    code = "TASK_NOT_REGISTERED"
    number = -32024


class TaskAmbiguous(TaskError):
    """Several pipelines run, and the request names none."""

    code = "TASK_AMBIGUOUS"
    number = -32025


class TaskAlreadyRunning(TaskError):
    """That pipeline runs already."""

    code = "TASK_ALREADY_RUNNING"
    number = -32026


class ClientError(RrextError):
    """A failure on the client's own side; it never travels."""

    code = "client_error"


class NotConnected(ClientError):
    """A call before there is a connection or after its end, or nobody to connect to."""

    code = "not_connected"


class ServerExited(ClientError):
    """The server process ended; `data` has `exit_code` and `stderr`, the tail of what it wrote there."""

    code = "server_exited"


class UsageError(ClientError):
    """A call that can never be right, refused before anything is sent."""

    code = "usage"


def _wire_classes(root: type[RrextError]) -> dict[str, type[RrextError]]:
    found: dict[str, type[RrextError]] = {}
    for cls in root.__subclasses__():
        if cls is ClientError:
            continue
        if "code" in vars(cls):
            found[cls.code] = cls
        found.update(_wire_classes(cls))
    return found


_BY_CODE = _wire_classes(RrextError)
NUMBERS: dict[str, int] = {code: cls.number for code, cls in _BY_CODE.items()}
"""Code → JSON-RPC error number. A code that is not here is a tool author's own and travels as −32016."""


def number_of(code: str) -> int:
    """The JSON-RPC number of a code; a tool author's own code has `tool_failed`'s."""
    return NUMBERS.get(code, ToolError.number)


def near_matches(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The known names most like `name`, best first: equal but for case, `_` and `-` first, then by similarity."""
    from difflib import get_close_matches  # a millisecond that a start without mistakes need not pay

    names = list(dict.fromkeys(known))
    folded = fold(name)
    same = [n for n in names if fold(n) == folded and n != name]
    close = get_close_matches(name, names, n=limit, cutoff=0.6)
    return list(dict.fromkeys([*same, *close]))[:limit]


def fold(name: str) -> str:
    """A name without what people mix up: case, `_` and `-`."""
    return name.replace("_", "").replace("-", "").lower()


def error_from_wire(code: str, message: str, hint: str | None, data: Mapping[str, Any] | None) -> RrextError:
    """The exception for an error answer; an unknown code becomes a `ToolError` that keeps it."""
    cls = _BY_CODE.get(code)
    if cls is None:
        return ToolError(message, code=code, hint=hint, data=data)
    return cls(message, hint=hint, data=data)
