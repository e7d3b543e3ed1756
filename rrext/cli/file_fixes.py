"""Fixes of pipeline files on disk: the same edits as "fix all" of an editor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rrext.pipefile.catalog.catalog import Catalog
    from rrext.pipefile.environment import Environment
    from rrext.references import KnownConnection


def fixed_text(
    content: bytes, catalog: Catalog, environment: Environment, connections: tuple[KnownConnection, ...] | None = None
) -> str | None:
    """The text after all fixes that have one obvious answer; None without any, as for bytes that are not UTF-8."""
    from rrext.editor.analysis import AnalysisSettings, analyse
    from rrext.editor.fixes.table import fix_all_edits, is_safe
    from rrext.editor.text import applied

    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    analysis = analyse(text, AnalysisSettings(catalog, environment, trusted=True, connections=connections))
    if analysis.text != text:  # too large: nothing of it was read
        return None
    edits = fix_all_edits(analysis, is_safe)
    return applied(text, edits) if edits else None


def replace_content(path: str, before: bytes, text: str) -> None:
    """Write a file whole or not at all, with owner and permissions of the old one; a link stays a link.

    Raises `OSError`, also if the content is not `before` any more: an editor may have saved it meanwhile.
    """
    import signal

    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))  # Ctrl-C would leave the temporary file
    try:
        _replace(os.path.realpath(path), before, text)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _replace(path: str, before: bytes, text: str) -> None:
    import errno
    from tempfile import mkstemp

    old = os.stat(path)
    fd, temporary = mkstemp(prefix=f".{os.path.basename(path)}.", dir=os.path.dirname(path))
    try:
        with open(fd, "wb") as file:
            if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(fd, old.st_uid, old.st_gid)
            os.fchmod(fd, old.st_mode & 0o7777)
            file.write(text.encode())
            file.flush()
            os.fsync(fd)
        with open(path, "rb") as file:
            if file.read(len(before) + 1) != before:
                raise OSError(errno.EBUSY, "it has changed meanwhile, and is not written")
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def diff_lines(path: str, before: str, after: str) -> Iterator[str]:
    """The lines of a unified diff, as `patch` reads it."""
    from difflib import unified_diff

    for line in unified_diff(_lines(before), _lines(after), path, path):
        yield line.removesuffix("\n")
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"


def _lines(text: str) -> list[str]:
    """Lines with their ends; only a line feed ends one, unlike `str.splitlines`."""
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])
