"""The language server with all its features."""

from __future__ import annotations

from rrext.faces.lsp.features import (
    actions,
    completion,
    formatting,
    hover,
    links,
    navigation,
    running,
    symbols,
    workspace,
)
from rrext.faces.lsp.options import Options
from rrext.faces.lsp.server import PipeServer


def language_server(given: Options = Options()) -> PipeServer:  # noqa: B008 (it is frozen)
    """A server with all features. `given` are the options of the command line."""
    server = PipeServer(given)
    for feature in (completion, hover, navigation, symbols, formatting, links, workspace, running, actions):
        feature.register(server)
    return server
