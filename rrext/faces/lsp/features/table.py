"""Which features there are: each module registers its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rrext.faces.lsp.features import actions, completion, hover, navigation, ranges, running, symbols

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer

__all__ = ["register_features"]


def register_features(server: PipeServer) -> None:
    """Let a server answer everything that there is."""
    for feature in (completion, hover, navigation, symbols, ranges, running, actions):
        feature.register(server)
