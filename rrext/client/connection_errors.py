"""The errors of a connection that has ended."""

from __future__ import annotations

from rrext.errors import NotConnected, RrextError, ServerExited
from rrext.limits import MAX_QUOTED_LINES


def client_closed() -> RrextError:
    """The error of calls after `close`, or after the end of the client's block."""
    return NotConnected("The client is closed.")


def connection_lost(defect: RrextError | None, *, is_new: bool) -> RrextError:
    """The server closed the connection, or `defect` made its bytes unreadable. `is_new`: before its first message."""
    why = "closed the connection" if defect is None else f"sent what cannot be read: {defect.message}"
    hint = None
    if is_new and defect is None:
        why = "closed the connection at once"
        hint = "it may end just now, have all the clients that it takes (maxConnections), or be another user's: its log says"
    return ServerExited(f"The server {why}.", hint=hint, data={"exit_code": None, "stderr": ""})


def server_exited(code: int | None, stderr: str, defect: RrextError | None) -> RrextError:
    """A spawned server ended, with exit code and the end of its stderr; without code it closed its output and still runs."""
    how = "closed its output, but still runs" if code is None else f"exited with code {code}"
    if defect is not None:
        how = f"sent what cannot be read ({defect.message}) and {how}"
    lines = stderr.rstrip().splitlines()[-MAX_QUOTED_LINES:]
    text = "\n".join([f"The server {how}." if not lines else f"The server {how}. It wrote:", *lines])
    return ServerExited(text, data={"exit_code": code, "stderr": stderr})
