"""Limits of confined paths and of the file store: sizes in bytes, times in seconds."""

from __future__ import annotations

from typing import Final

import msgspec

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

# confinement.py
MAX_PATH: Final = 4096
"""Characters of a path; what Linux takes at once."""
MAX_DEPTH: Final = 128
"""Components of a path; each one costs a system call."""
SCAN_STEP: Final = 1024
"""Names of a directory that are read between two checks of the caller's deadline."""

# file_store.py, user_files.py
READ_PIECE: Final = 4 * MIB
"""What one `fs_read` returns at most, as in RocketRide."""
READ_MANY_PATHS: Final = 256
READ_MANY_BYTES: Final = 32 * MIB
"""What one `fs_read_many` takes and returns at most, as in RocketRide."""
CONNECTION_JOBS: Final = 4
"""Operations of one connection that use the disk at once; each has a thread."""
STORE_JOBS: Final = 32
"""Operations of all connections that use the disk at once."""
ABANDONED: Final = 86_400.0
"""Age of an unfinished file that a server left when it was killed; a younger one may be another server's."""
READABLE_USER: Final = 100
"""Characters of a quoted user id that names a folder; file systems take 255 bytes. Longer ones are hashed."""


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
