"""rrext runs RocketRide pipelines in one long-lived process, and calls the tools of their nodes.

The public names are loaded when they are first used, so that `import rrext` costs next to nothing. Not even `typing` is
imported: the command line is not ready for Ctrl-C before this module is there.
"""

from __future__ import annotations

from rrext.version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rrext import blocking
    from rrext.client.client import Client
    from rrext.content import Content
    from rrext.errors import (
        Cancelled,
        ClientError,
        ConnectionInactive,
        ConnectionInvalid,
        ConnectionUnknown,
        FrameTooLarge,
        InternalError,
        InvalidArguments,
        InvalidPipeline,
        InvalidRequest,
        LimitExceeded,
        NodeNotFound,
        NotAuthenticated,
        NotConnected,
        NotFound,
        ParseError,
        PipeError,
        PipeExpired,
        PipeFailed,
        PipeNotOpen,
        ProviderNotFound,
        ResultTooLarge,
        RrextError,
        ServerExited,
        ShuttingDown,
        TaskAlreadyRunning,
        TaskAmbiguous,
        TaskError,
        TaskLost,
        TaskNotRegistered,
        ToolError,
        ToolNotFound,
        ToolTimeout,
        TooManyRequests,
        Unavailable,
        UnknownCommand,
        UsageError,
    )
    from rrext.limits import Limits
    from rrext.nodes.base.node import Entry, Node
    from rrext.nodes.base.setup import SetupContext
    from rrext.tools.context import ToolContext
    from rrext.tools.decorator import tool_function

__all__ = [
    "Cancelled",
    "Client",
    "ClientError",
    "ConnectionInactive",
    "ConnectionInvalid",
    "ConnectionUnknown",
    "Content",
    "Entry",
    "FrameTooLarge",
    "InternalError",
    "InvalidArguments",
    "InvalidPipeline",
    "InvalidRequest",
    "LimitExceeded",
    "Limits",
    "Node",
    "NodeNotFound",
    "NotAuthenticated",
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
    "SetupContext",
    "ShuttingDown",
    "TaskAlreadyRunning",
    "TaskAmbiguous",
    "TaskError",
    "TaskLost",
    "TaskNotRegistered",
    "TooManyRequests",
    "ToolContext",
    "ToolError",
    "ToolNotFound",
    "ToolTimeout",
    "Unavailable",
    "UnknownCommand",
    "UsageError",
    "blocking",
    "tool_function",
]

_MODULES = {
    "Client": "rrext.client.client",
    "Content": "rrext.content",
    "Entry": "rrext.nodes.base.node",
    "Limits": "rrext.limits",
    "Node": "rrext.nodes.base.node",
    "SetupContext": "rrext.nodes.base.setup",
    "ToolContext": "rrext.tools.context",
    "tool_function": "rrext.tools.decorator",
}
"""The modules of the public names that are not errors."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    if name == "blocking":
        value: object = importlib.import_module("rrext.blocking")
    else:
        value = getattr(importlib.import_module(_MODULES.get(name, "rrext.errors")), name)
    globals()[name] = value  # the next use finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
