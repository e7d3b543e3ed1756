"""Limits of confined paths and of the file store: sizes in bytes, times in seconds."""

from __future__ import annotations

import msgspec

from rrext.limits import GIB

# confinement.py

# file_store.py, user_files.py


class FileStoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The directory of a file store, and its limits. `quota`, `file_size` and `names` are those of a user."""

    directory: str
    quota: int = 4 * GIB
    """Bytes of all files, unfinished ones included. `--store-quota`."""
    file_size: int = GIB
    """Bytes of one file; a client that never ends a file cannot fill the quota with it."""
    names: int = 100_000
    """Files and directories; a listing has them all, and counting them at the first use takes about a second."""
    open_files: int = 64
    """Open files of one connection; each is a descriptor of the process."""
