"""`GatheredText`: the text of one object, for nodes that need the whole of it: what they look for may begin in one piece and
end in another.
"""

from __future__ import annotations

from typing import Final

from rrext.errors import ToolError

MAX_CHARACTERS: Final = 10_000_000
"""Characters of one object by default, as many as `parse` makes of a document; a book has a million."""


class GatheredText:
    """The pieces of a text, in their order."""

    def __init__(self, node_id: str, limit: int) -> None:
        """`limit` is that of the node's setting `maxCharacters`."""
        self._node_id = node_id
        self._limit = limit
        self._size = 0
        self.pieces: list[str] = []

    def add(self, text: str) -> None:
        """Add a piece. Raises `ToolError` (`text_too_large`)."""
        self._size += len(text)
        require_size(self._size, self._limit, self._node_id)
        self.pieces.append(text)

    def whole(self) -> str:
        """The text."""
        return "".join(self.pieces)


def require_size(size: int, limit: int, node_id: str) -> None:
    """Raise `ToolError` (`text_too_large`) for a text of more than `limit` characters."""
    if size > limit:
        raise ToolError(
            f'Node "{node_id}" takes {limit:,} characters of one object (maxCharacters), and this is more',
            code="text_too_large",
            hint='Send less in one object, or raise "maxCharacters" of that node.',
            data={"limit": "maxCharacters", "maximum": limit, "nodeId": node_id},
        )
