"""The error tree. Programs on the wire rely on `code`; the classes are for `except`.

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
│   ├── ProviderNotFound      provider_not_found    −32012
│   └── ConnectionUnknown     connection_unknown    −32027
├── PipeError
│   ├── PipeNotOpen           pipe_not_open         −32013
│   ├── PipeFailed            pipe_failed           −32014
│   └── PipeExpired           pipe_expired          −32015
├── ToolError                 tool_failed           −32016  (raised by tool authors too)
├── ToolTimeout               tool_timeout          −32017
├── Unavailable               unavailable           −32018
│   ├── ConnectionInactive    connection_inactive   −32028
│   └── ConnectionInvalid     connection_invalid    −32029
├── InvalidPipeline           invalid_pipeline      −32019
├── LimitExceeded
│   ├── FrameTooLarge         frame_too_large       −32020
│   ├── ResultTooLarge        result_too_large      −32021
│   └── TooManyRequests       too_many_requests     −32022
├── NotAuthenticated          not_authenticated     −32030
├── ShuttingDown              shutting_down         −32023
├── TaskError
│   ├── TaskNotRegistered     TASK_NOT_REGISTERED   −32024
│   ├── TaskAmbiguous         TASK_AMBIGUOUS        −32025
│   ├── TaskAlreadyRunning    TASK_ALREADY_RUNNING  −32026
│   └── TaskLost              task_lost             −32031
└── ClientError               raised by `rrext.Client` alone, never on the wire
    ├── NotConnected          not_connected
    ├── ServerExited          server_exited
    └── UsageError            usage
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self


class RrextError(Exception):
    """A failure that rrext reports on purpose.

    `code` is stable, `message` is for a person, `hint` names the next step, and `data` holds JSON values for programs. Only
    the client sets `result`: the results of a failed object up to its failure, as `close` returned them.
    """

    code: str = "internal"
    number: ClassVar[int] = -32603
    result: dict[str, Any] | None = None

    def __init_subclass__(cls, code: str = "", number: int = 0) -> None:
        """Set the code and the number of a class; a class without them has those of its base."""
        if code:
            cls.code = code
        if number:
            cls.number = number

    def __init__(self, message: str, *, hint: str | None = None, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.data: dict[str, Any] = dict(data) if data else {}

    def with_data(self, **more: Any) -> Self:
        """The error with more data. To be raised at once: a raised error in a variable of its frame leads to itself."""
        self.data.update(more)
        return self

    def again(self) -> Self:
        """A copy to keep, or to raise later: the traceback of a raised exception holds all that was at work then."""
        copy = self.__class__.__new__(self.__class__, *self.args)
        copy.__dict__.update(self.__dict__)
        return copy


class ParseError(RrextError, code="parse_error", number=-32700):
    """The bytes are not a frame, not UTF-8 or not JSON."""


class InvalidRequest(RrextError, code="invalid_request", number=-32600):
    """The envelope of a request breaks the rules of its dialect."""


class UnknownCommand(RrextError, code="unknown_command", number=-32601):
    """rrext has no command or subcommand of that name."""


class InvalidArguments(RrextError, code="invalid_arguments", number=-32602):
    """The arguments or the tool input do not fit; `data["errors"]` lists `{path, message}` with JSON pointers."""

    @classmethod
    def at(cls, path: str, message: str, *, hint: str | None = None) -> InvalidArguments:
        """The error for one problem at one JSON pointer."""
        return cls.of([(path, message)], hint=hint)

    @classmethod
    def of(cls, problems: Sequence[tuple[str, str]], *, hint: str | None = None) -> InvalidArguments:
        """The error for several problems, each a JSON pointer into `arguments` and a message; the first one leads."""
        path, message = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        text = f"{path or '/'}: {message}{more}"
        return cls(text, hint=hint, data={"errors": [{"path": p, "message": m} for p, m in problems]})


class InternalError(RrextError, code="internal", number=-32603):
    """A bug of rrext itself; the log has the text under the request id."""


class Cancelled(RrextError, code="cancelled", number=-32800):
    """The call was cancelled, or its connection was lost."""

    def __init__(self, message: str = "cancelled", *, hint: str | None = None, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, hint=hint, data=data)


class NotFound(RrextError):
    """The context has nothing of that name; `data["near"]` lists similar names that it has."""

    @classmethod
    def near(cls, message: str, name: str, known: Iterable[str]) -> NotFound:
        """The error with the known names that are most like `name` in its message, hint and data."""
        found = near_matches(name, known)
        if not found:
            return cls(message, data={"near": []})
        hint = "Did you mean " + " or ".join(f'"{n}"' for n in found) + "?"
        return cls(f"{message} {hint}", hint=hint, data={"near": found})


class ToolNotFound(NotFound, code="tool_not_found", number=-32010):
    """The node, or the whole pipeline, has no tool of that name."""


class NodeNotFound(NotFound, code="node_not_found", number=-32011):
    """The pipeline has no node of that id."""


class ProviderNotFound(NotFound, code="provider_not_found", number=-32012):
    """The installation has no node with that provider name."""


class ConnectionUnknown(NotFound, code="connection_unknown", number=-32027):
    """The configuration has no connection of that name for that provider."""


class PipeError(RrextError):
    """The pipe cannot be used."""


class PipeNotOpen(PipeError, code="pipe_not_open", number=-32013):
    """The connection never opened this pipe, or closed it."""

    @classmethod
    def of(cls, pipe_id: int) -> PipeNotOpen:
        """The error for the pipe of this number."""
        return cls(f"Pipe {pipe_id} is not open", data={"pipe_id": pipe_id})


class PipeFailed(PipeError, code="pipe_failed", number=-32014):
    """An earlier operation on this pipe failed; `close` still returns the collected results."""

    @classmethod
    def of(cls, pipe_id: int, cause: RrextError) -> PipeFailed:
        """The error for a use of a pipe after its object failed."""
        return cls(
            f"Pipe {pipe_id} has failed: {cause.message}",
            hint="close it to read what it collected, and open another",
            data={"pipe_id": pipe_id, "cause": cause.code},
        )


class PipeExpired(PipeError, code="pipe_expired", number=-32015):
    """The pipe was idle for too long, and the server reclaimed it."""


class ToolError(RrextError, code="tool_failed", number=-32016):
    """A tool failed. Tool authors raise it to choose the caller's message; `code` may be a name of their own."""

    def __init__(
        self, message: str, *, code: str | None = None, hint: str | None = None, data: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, hint=hint, data=data)
        if code is not None:
            if code in NUMBERS and code != "tool_failed":
                raise ValueError(f'"{code}" is a code of rrext itself: choose another name for a tool\'s own error')
            self.code = code


class ToolTimeout(RrextError, code="tool_timeout", number=-32017):
    """The call did not finish before its deadline."""


class Unavailable(RrextError, code="unavailable", number=-32018):
    """The object exists, but not in this context or on this machine; the message names what is missing."""


class ConnectionInactive(Unavailable, code="connection_inactive", number=-32028):
    """The operator switched the connection off."""


class ConnectionInvalid(Unavailable, code="connection_invalid", number=-32029):
    """The configuration of the connection has problems, or a secret of it cannot be read."""


class InvalidPipeline(RrextError, code="invalid_pipeline", number=-32019):
    """The pipeline cannot be loaded; `data["problems"]` lists all problems."""


class LimitExceeded(RrextError):
    """A request exceeds a limit that the message names."""


class FrameTooLarge(LimitExceeded, code="frame_too_large", number=-32020):
    """A frame over `max_frame`."""


class ResultTooLarge(LimitExceeded, code="result_too_large", number=-32021):
    """A result over `max_result`."""

    @classmethod
    def of(cls, size: int, maximum: int, what: str = "The result") -> ResultTooLarge:
        """The error for a result of `size` bytes over a `max_result` of `maximum`; `what` begins the message."""
        return cls(
            f"{what} has {size:,} bytes: max_result is {maximum:,}",
            hint="ask for less, or let the tool be a generator and call it with `stream: true`",
            data={"limit": "max_result", "maximum": maximum, "size": size},
        )


class TooManyRequests(LimitExceeded, code="too_many_requests", number=-32022):
    """More requests in flight than `max_inflight`."""


class NotAuthenticated(RrextError, code="not_authenticated", number=-32030):
    """The connection has no key, or a wrong one."""


class ShuttingDown(RrextError, code="shutting_down", number=-32023):
    """The server ends and did not finish the call."""


class TaskError(RrextError):
    """A request names no running pipeline, or does not say which one."""


class TaskNotRegistered(TaskError, code="TASK_NOT_REGISTERED", number=-32024):
    """No running pipeline has that token."""


class TaskAmbiguous(TaskError, code="TASK_AMBIGUOUS", number=-32025):
    """Several pipelines run and the request names none."""


class TaskAlreadyRunning(TaskError, code="TASK_ALREADY_RUNNING", number=-32026):
    """The pipeline runs already."""


class TaskLost(TaskError, code="task_lost", number=-32031):
    """The process of the pipeline ended before it answered; `data` has its `exitCode`, its `signal`, its last `stderr`, and in
    `sent` whether a part of the call may have reached it."""


class ClientError(RrextError, code="client_error"):
    """A failure on the client's side; it never appears on the wire."""


class NotConnected(ClientError, code="not_connected"):
    """A call without a connection: none was made, it has ended, or no server listens."""


class ServerExited(ClientError, code="server_exited"):
    """The server process ended; `data` has `exit_code` and `stderr`, the tail of its standard error."""


class UsageError(ClientError, code="usage"):
    """A call with invalid usage, refused before anything is sent."""


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
"""Code → JSON-RPC error number. All other codes belong to tool authors and travel as −32016."""


def number_of(code: str) -> int:
    """The JSON-RPC number of a code; codes of tool authors have the number of `tool_failed`."""
    return NUMBERS.get(code, ToolError.number)


def near_matches(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The known names most like `name`, best first: names that differ only in case, `_` and `-`, then by similarity."""
    from difflib import get_close_matches  # a millisecond that a start without mistakes need not pay

    names = list(dict.fromkeys(known))
    folded = fold(name)
    same = [n for n in names if fold(n) == folded and n != name]
    close = get_close_matches(name, names, n=limit, cutoff=0.6)
    return list(dict.fromkeys([*same, *close]))[:limit]


def fold(name: str) -> str:
    """A name without the differences that people overlook: case, `_` and `-`."""
    return name.replace("_", "").replace("-", "").lower()


def error_from_wire(code: str, message: str, hint: str | None, data: Mapping[str, Any] | None) -> RrextError:
    """The exception for an error answer; an unknown code becomes a `ToolError` with that code."""
    cls = _BY_CODE.get(code)
    if cls is None:
        return ToolError(message, code=code, hint=hint, data=data)
    return cls(message, hint=hint, data=data)
