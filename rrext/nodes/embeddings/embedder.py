"""`Embedder`: the interface of models that turn texts into vectors, for stores and embedding nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from rrext.errors import InvalidArguments
from rrext.tools.context import ToolContext

TextKind = Literal["document", "query"]
"""The role of a text: a stored passage or a query. Some models embed them differently."""


class Embedder(Protocol):
    """Turns texts into vectors of one size. Only vectors of the same model can be compared."""

    model: str
    """The name that stores keep with the vectors; "" if it is known only after the first call."""
    size: int | None
    """Numbers in a vector; None if it is known only after the first call."""

    def embed(self, texts: Sequence[str], kind: TextKind, ctx: ToolContext) -> list[list[float]]:
        """One vector for each text, in their order. Blocks.

        Raises `InvalidArguments` at `/input/texts/<n>` for a blank text, which has no vector, and `ToolError` or
        `Unavailable` for failures of the model.
        """
        ...


def require_texts(texts: Sequence[str]) -> None:
    """Raise `InvalidArguments` at the first blank text: its vector would have no meaning."""
    for n, text in enumerate(texts):
        if not text.strip():
            raise InvalidArguments.at(f"/input/texts/{n}", "is blank: only a text that says something has a vector")
