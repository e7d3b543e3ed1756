"""The error of a connection that is no more."""

from __future__ import annotations

from rrext.errors import RrextError, ServerExited

__all__ = ["lost"]


def lost(defect: RrextError | None, *, is_new: bool) -> RrextError:
    """The server closed the connection, or `defect` made its bytes unreadable. `is_new`: before it said a word."""
    why = "closed the connection" if defect is None else f"sent what cannot be read: {defect.message}"
    hint = None
    if is_new and defect is None:
        why = "closed the connection at once"
        hint = "it may end just now, have all the clients that it takes (maxConnections), or be another user's: its log says"
    return ServerExited(f"The server {why}.", hint=hint, data={"exit_code": None, "stderr": ""})
