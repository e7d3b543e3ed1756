"""The settings of analyses, from the client's options."""

from __future__ import annotations

from rrext.editor.analysis import AnalysisSettings
from rrext.faces.lsp.options import Options
from rrext.faces.lsp.own_nodes import OwnNodes
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment


def analysis_settings_for(options: Options, own: OwnNodes, *, anew: bool = False) -> tuple[AnalysisSettings, list[str]]:
    """The settings, and complaints about nodes that could not be loaded. `anew`: their code has changed.

    Without trust only built-in nodes are known: a name in a file from a stranger must not select code to import.
    """
    catalog = Catalog(installed=options.trusted, unloaded=() if options.trusted else options.nodes)
    complaints: list[str] = []
    if options.trusted:
        complaints = own.reload(catalog) if anew else own.load(catalog)
    elif options.nodes:
        complaints.append(f"Nodes of {', '.join(options.nodes)} are not loaded: initializationOptions.trusted is not true.")
    return AnalysisSettings(catalog, Environment.of_process(options.env), options.trusted), complaints
