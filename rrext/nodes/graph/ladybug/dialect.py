"""The Cypher of Ladybug."""

from __future__ import annotations

from typing import Final

from rrext.nodes.databases.word_lists import words, words_of
from rrext.nodes.graph.dialect import FUNCTIONS, CypherDialect

_FUNCTIONS: Final = words_of(__file__, "functions.txt")

LADYBUG: Final = CypherDialect(
    name="ladybug",
    procedures=words("""
    show_tables table_info show_connection db_version current_setting show_functions show_indexes show_sequences
    show_macros show_graphs show_projected_graphs projected_graph_info show_loaded_extensions show_official_extensions
    show_attached_databases show_warnings catalog_version storage_version storage_info stats_info bm_info fsm_info
"""),
    functions=FUNCTIONS | _FUNCTIONS,
    logical_plans=True,
)
