"""The process that reads a repository: `python -m rrext.nodes.git.worker`.

Its first message is `GitSettings`. It bounds its memory and, where the kernel can, gives up the network and all files but those
of the repository before it reads any of them. It ends when the server closes its end.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import msgspec

from rrext.errors import ToolError
from rrext.limits import MIB
from rrext.nodes.child.walls import PACKAGE, STANDARD, bound_memory, fall_silent, lock_in
from rrext.nodes.child.worker import answer_of, begin, receive
from rrext.nodes.git.records import GitSettings, Message, ReadRepository
from rrext.threads import imported

MAPPED: Final = 256 * MIB
"""Bytes of packs that libgit2 maps at once, in windows of an eighth; the memory of the process is bounded."""

OPEN_FILES: Final = 1024
"""Descriptors: libgit2 keeps each pack open, and a repository that is never packed anew has hundreds."""


def main() -> None:
    """Serve requests until the server is gone."""
    requests, answers, settings = begin(GitSettings)
    bound_memory(settings.memory, OPEN_FILES)
    confined: list[str] = []
    decoder = msgspec.msgpack.Decoder(Message)
    while (received := receive(requests)) is not None:
        message = decoder.decode(received[1])
        if isinstance(message, ReadRepository):
            answers.send(received[0], answer_of(lambda message=message: _answer(settings, message, confined), "The Git reader"))
    os._exit(0)


def _answer(settings: GitSettings, message: ReadRepository, confined: list[str]) -> Any:
    import pygit2
    from pygit2.enums import ConfigLevel

    from rrext.nodes.git.repository import RepositoryReader, folders_of

    if not confined:
        imported("re2")  # before the walls stand
        pygit2.settings.mwindow_mapped_limit = MAPPED
        pygit2.settings.mwindow_size = MAPPED // 8
        pygit2.settings.owner_validation = False  # nothing of a repository is run
        for level in (ConfigLevel.GLOBAL, ConfigLevel.XDG, ConfigLevel.SYSTEM, ConfigLevel.PROGRAMDATA):
            pygit2.settings.search_path[level] = os.devnull
    folders = folders_of(settings.folder, settings.root)  # at each call: it may have changed, and not every kernel has walls
    if not confined:
        confined += folders
        _shut_off(confined)
    try:
        return getattr(RepositoryReader(settings.folder, settings.most), message.tool)(**message.input)
    except (pygit2.GitError, OSError, KeyError, ValueError) as error:  # as of damaged objects
        raise ToolError(f"The repository cannot be read: {str(error)[:500]}", code="git_failed") from None
    except MemoryError:
        raise ToolError("Reading it takes more memory than is allowed (memory)", code="git_failed") from None


def _shut_off(folders: list[str]) -> None:
    """Give up the network and all files but modules and the folders of the repository, where the kernel can do that."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    import pygit2

    packages = str(Path(pygit2.__file__).parent)
    lock_in(*STANDARD, PACKAGE, packages, f"{packages}.libs", os.devnull, *folders)
    fall_silent(nothing)


if __name__ == "__main__":
    main()
