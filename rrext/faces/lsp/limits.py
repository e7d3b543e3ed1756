"""Limits of the language server: lengths in characters, times in seconds."""

from __future__ import annotations

from typing import Final

from rrext.limits import KIB

MAX_REASONS: Final = 3
"""Reasons named in one error of invalid parameters."""
MAX_FIXED_PROBLEMS: Final = 20
"""The number of problems whose fixes are offered at once; a selection may hold a thousand."""
MAX_TITLE: Final = 200
"""Characters of a title, which may quote the file."""
MAX_OFFER_WIDTH: Final = 200
"""Columns of a text in the list of offers."""
WORKSPACE_DELAY: Final = 0.2
"""Seconds after the introduction until files of the workspace are looked for."""
MAX_WORKSPACE_FILES: Final = 500
"""Pipeline files of a workspace that are checked without being open."""
MAX_SCANNED_ENTRIES: Final = 20_000
"""Entries of folders that are looked at to find them; a home folder has millions."""
MAX_WORKSPACE_FILE: Final = 1024 * KIB
"""Bytes of such a file; a larger one is checked when it is opened."""
MAX_INDENT: Final = 16
"""Spaces of one level of a formatted document."""
MAX_CHUNK: Final = 80
"""Characters of a chunk in a progress message."""
MAX_MESSAGE_TEXT: Final = 500
"""Characters of a result that a message shows."""
MAX_MESSAGE_LINES: Final = 12
"""Lines of a result that a message shows."""
MAX_LOGGED_RESULT: Final = 4 * KIB
"""Characters of a result in the editor's log."""
ENGINE_DRAIN: Final = 0.25
"""Seconds that running calls get at the end of the engine."""
ENGINE_STOP_TIMEOUT: Final = 0.25
"""Seconds between the end of the engine's stdin, SIGTERM and SIGKILL: editors kill servers that linger."""
MAX_UNFINISHED_LINE: Final = 4 * KIB
"""Characters of an unfinished line, after which it is shown."""
MAX_RUN_OUTPUT: Final = 64 * KIB
"""Bytes shown per run: an endless output must not fill the editor's log or the pipe to the editor."""
PROGRESS_DELAY: Final = 0.2
"""Seconds before a run is shown; shorter ones need no progress bar."""
MAX_FILE_STEM: Final = 120
"""Bytes of a file name without its extension; file systems allow 255."""
RUNS_END_TIMEOUT: Final = 1.0
"""Seconds for what runs to end, beyond the grace."""
ANSWERS_FLUSH_TIMEOUT: Final = 0.5
"""Seconds for the client to read the last answers."""
END_MARGIN: Final = 0.25
"""Seconds beyond both until the end watch ends the process."""
