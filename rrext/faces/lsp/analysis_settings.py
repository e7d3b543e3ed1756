"""The settings of analyses, from the client's options."""

from __future__ import annotations

from rrext.editor.analysis import AnalysisSettings
from rrext.errors import RrextError
from rrext.faces.lsp.options import Options
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment


def analysis_settings_for(options: Options) -> tuple[AnalysisSettings, list[str]]:
    """The settings, and complaints about nodes that could not be loaded.

    Without trust only built-in nodes are known: a name in a file from a stranger must not select code to import.
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
