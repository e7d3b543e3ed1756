"""The tool by which hosts ask a server outside for what it offers beside tools."""

from __future__ import annotations

from typing import Any, Final

REQUEST: Final = "rrext/request"
"""The name of the tool, which no list has, and no server gives to one of its own."""
OFFER: Final = {"rrext/offer": True}
"""The `_meta` of a call of the face that offers prompts and resources to hosts. To others that tool is not there: no model
is to see it among the tools of the server.
"""


def is_offer(node: Any, ctx: Any) -> bool:
    """Whether that face calls."""
    return bool(ctx.meta == OFFER)
