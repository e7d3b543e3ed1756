"""The Cypher of Ladybug."""

from __future__ import annotations

from typing import Final

from rrext.nodes.databases.words import words
from rrext.nodes.graph.dialect import CypherDialect
from rrext.nodes.graph.vocabulary import FUNCTIONS

_FUNCTIONS: Final = words("""
    array_append array_cat array_concat array_contains array_cosine_similarity array_cross_product array_distance
    array_dot_product array_extract array_has array_indexof array_inner_product array_position array_prepend
    array_push_back array_push_front array_slice array_squared_distance array_value bitshift_left bitshift_right
    bitwise_and bitwise_or bitwise_xor blob cardinality cast century concat concat_ws contains current_date
    current_timestamp date_part date_trunc datepart datetrunc dayname decode element_at encode ends_with epoch_ms even
    factorial gamma gen_random_uuid greatest hash ifnull initcap instr internal_id interval is_acyclic is_trail label
    lastday last_day lcase least len levenshtein lgamma list_any_value list_append list_cat list_concat list_contains
    list_creation list_distinct list_element list_extract list_filter list_has list_indexof list_position list_prepend
    list_product list_reduce list_reverse list_reverse_sort list_slice list_sort list_sum list_to_string list_transform
    list_unique ln log2 lpad make_date map map_extract map_keys map_values md5 monthname negate octet_length offset
    prefix properties regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace
    regexp_split_to_array rels repeat rpad sha256 starts_with string_split string_to_array struct_extract struct_pack
    list_has_all list_has_any list_max list_min count_if constant_or_null histogram str_split string substr random time_bucket
    typeof to_blob to_bool to_double to_epoch_ms to_float to_int8 to_int16 to_int32 to_int64 to_int128 to_serial to_string
    to_timestamp to_uint8 to_uint16 to_uint32 to_uint64 to_uint128 cost end_node start_node rowid count_star decimal struct
    list union suffix to_date to_days to_hours
    to_interval to_microseconds to_milliseconds to_minutes to_months to_seconds to_uuid
    to_years ucase union_extract union_tag union_value uuid array_to_string split_part string_format
""")

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
