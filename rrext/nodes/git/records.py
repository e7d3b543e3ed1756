"""Settings and requests of a process that reads a repository, in frames of `rrext.nodes.child.worker`."""

from __future__ import annotations

from typing import Any

import msgspec

from rrext.errors import ToolError
from rrext.nodes.child.process import Cancel, ChildRequest


class GitSettings(msgspec.Struct, frozen=True):
    """The first message to the process: the folder of the repository, bytes of address space, characters of an answer.

    `root` is the folder that the data of the repository may not leave either; empty: there is none.
    """

    folder: str
    memory: int
    most: int
    root: str = ""


class ReadRepository(ChildRequest, frozen=True, tag=True):
    """Call a tool. The answer is its result."""

    tool: str
    input: dict[str, Any]

    patience = 0.0


Message = ReadRepository | Cancel
"""A message of the server. The process is killed for a cancelled call, so it never acts on `Cancel`."""


def unusable(message: str, hint: str | None = None) -> ToolError:
    """The failure for a folder that is no repository to read."""
    return ToolError(message, code="repository_unusable", hint=hint)


def not_found(message: str) -> ToolError:
    """The failure for a commit, branch or path that is not there."""
    return ToolError(message, code="git_not_found")
