"""The exit codes of all commands. Ctrl-C ends a command with 130, as shells tell of SIGINT."""

from __future__ import annotations

from typing import Final

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
"""What was asked for was begun and failed: a tool, a document, a statement, a write of the output."""

EXIT_USAGE: Final = 2
"""Nothing was begun: the command, the pipeline, the input or the address of a server is wrong."""

EXIT_UNREAD: Final = 141
"""Nobody reads stdout any more, as shells tell of SIGPIPE."""
