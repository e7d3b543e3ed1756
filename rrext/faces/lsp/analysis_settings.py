"""What documents are judged by, as the client's options have it."""

from __future__ import annotations

from rrext.editor.analysis import AnalysisSettings
from rrext.errors import RrextError
from rrext.faces.lsp.options import Options
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment

__all__ = ["analysis_settings_for"]


def analysis_settings_for(options: Options) -> tuple[AnalysisSettings, list[str]]:
    """The surroundings, and what could not be loaded.

    Without trust there are built-in nodes only: a name in a file that somebody sent must not choose code that is imported.
    """
    catalog = Catalog(installed=options.trusted)
    complaints: list[str] = []
    if options.trusted:
        for name in options.nodes:
            complaints += _add(catalog, name)
    elif options.nodes:
        complaints.append(f"Nodes of {', '.join(options.nodes)} are not loaded: initializationOptions.trusted is not true.")
    return AnalysisSettings(catalog, Environment.of_process(options.env), options.trusted), complaints


def _add(catalog: Catalog, name: str) -> list[str]:
    from rrext.pipefile.catalog.plugins import load_nodes

    try:
        for node_class in load_nodes(name):
            catalog.add(node_class)
    except RrextError as error:
        return [error.message]
    return []
