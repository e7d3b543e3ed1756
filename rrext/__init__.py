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
    from rrext.client.databases import Database, Transaction, Vectors
    from rrext.client.pipe import Pipe
    from rrext.client.stored_files import StoredFiles
    from rrext.client.updates import EventStream, ServerEvent
    from rrext.client.upload import FileResult, UploadProgress
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
    "Database",
    "Entry",
    "EventStream",
    "FileResult",
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
    "Pipe",
    "PipeError",
    "PipeExpired",
    "PipeFailed",
    "PipeNotOpen",
    "ProviderNotFound",
    "ResultTooLarge",
    "RrextError",
    "ServerEvent",
    "ServerExited",
    "SetupContext",
    "ShuttingDown",
    "StoredFiles",
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
    "Transaction",
    "Unavailable",
    "UnknownCommand",
    "UploadProgress",
    "UsageError",
    "Vectors",
    "blocking",
    "tool_function",
]

_MODULES = {
    "Client": "rrext.client.client",
    "Content": "rrext.content",
    "Database": "rrext.client.databases",
    "Entry": "rrext.nodes.base.node",
    "EventStream": "rrext.client.updates",
    "FileResult": "rrext.client.upload",
    "Limits": "rrext.limits",
    "Node": "rrext.nodes.base.node",
    "Pipe": "rrext.client.pipe",
    "ServerEvent": "rrext.client.updates",
    "SetupContext": "rrext.nodes.base.setup",
    "StoredFiles": "rrext.client.stored_files",
    "ToolContext": "rrext.tools.context",
    "Transaction": "rrext.client.databases",
    "UploadProgress": "rrext.client.upload",
    "Vectors": "rrext.client.databases",
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
