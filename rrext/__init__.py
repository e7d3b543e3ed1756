"""rrext runs RocketRide pipelines in one long-lived process, and calls the tools of their nodes.

The public names are loaded when they are first used, so that `import rrext` costs next to nothing. Not even `typing` is
imported: the command line is not ready for Ctrl-C before this module is there.
"""

from __future__ import annotations

from rrext.version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rrext import blocking
    from rrext.client.chat_events import (
        AgentBegun,
        AgentEnded,
        ChatEvent,
        ChatText,
        ModelAnswered,
        ModelAsked,
        PermitAsked,
        ToolBegun,
        ToolEnded,
        UserAsked,
    )
    from rrext.client.chat_turn import ChatTurn
    from rrext.client.client import Client
    from rrext.client.databases import Database, Transaction, Vectors
    from rrext.client.knowledge import Knowledge, SyncedFile, SyncResult
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
    "AgentBegun",
    "AgentEnded",
    "Cancelled",
    "ChatEvent",
    "ChatText",
    "ChatTurn",
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
    "Knowledge",
    "LimitExceeded",
    "Limits",
    "ModelAnswered",
    "ModelAsked",
    "Node",
    "NodeNotFound",
    "NotAuthenticated",
    "NotConnected",
    "NotFound",
    "ParseError",
    "PermitAsked",
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
    "SyncResult",
    "SyncedFile",
    "TaskAlreadyRunning",
    "TaskAmbiguous",
    "TaskError",
    "TaskLost",
    "TaskNotRegistered",
    "TooManyRequests",
    "ToolBegun",
    "ToolContext",
    "ToolEnded",
    "ToolError",
    "ToolNotFound",
    "ToolTimeout",
    "Transaction",
    "Unavailable",
    "UnknownCommand",
    "UploadProgress",
    "UsageError",
    "UserAsked",
    "Vectors",
    "blocking",
    "tool_function",
]

_MODULES = {
    "AgentBegun": "rrext.client.chat_events",
    "AgentEnded": "rrext.client.chat_events",
    "ChatEvent": "rrext.client.chat_events",
    "ChatText": "rrext.client.chat_events",
    "ChatTurn": "rrext.client.chat_turn",
    "Client": "rrext.client.client",
    "Content": "rrext.content",
    "Database": "rrext.client.databases",
    "Entry": "rrext.nodes.base.node",
    "EventStream": "rrext.client.updates",
    "Knowledge": "rrext.client.knowledge",
    "SyncResult": "rrext.client.knowledge",
    "SyncedFile": "rrext.client.knowledge",
    "FileResult": "rrext.client.upload",
    "Limits": "rrext.limits",
    "ModelAnswered": "rrext.client.chat_events",
    "ModelAsked": "rrext.client.chat_events",
    "Node": "rrext.nodes.base.node",
    "PermitAsked": "rrext.client.chat_events",
    "Pipe": "rrext.client.pipe",
    "ServerEvent": "rrext.client.updates",
    "SetupContext": "rrext.nodes.base.setup",
    "StoredFiles": "rrext.client.stored_files",
    "ToolBegun": "rrext.client.chat_events",
    "ToolContext": "rrext.tools.context",
    "ToolEnded": "rrext.client.chat_events",
    "Transaction": "rrext.client.databases",
    "UploadProgress": "rrext.client.upload",
    "UserAsked": "rrext.client.chat_events",
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
