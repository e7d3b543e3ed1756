"""The words of Cypher that a read-only statement may use. What is not here is not let through."""

from __future__ import annotations

from typing import Final

__all__ = [
    "AFTER_OPERAND",
    "CLAUSES",
    "FUNCTIONS",
    "HINTS",
    "OPERANDS",
    "PATH_MODES",
    "PROCEDURES",
    "SHOWN",
    "SHOWN_KINDS",
    "TYPES",
    "WRITING",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


WRITING: Final = _words("""
    CREATE INSERT MERGE SET DELETE DETACH NODETACH REMOVE DROP FOREACH LOAD COPY TRANSACTIONS
""")
"""Words that are refused wherever they could be a clause, also where the gate believes that they are a name."""

CLAUSES: Final = _words("""
    MATCH OPTIONAL WHERE WITH UNWIND RETURN ORDER SKIP OFFSET LIMIT UNION CALL YIELD LET FILTER FINISH NEXT
""")
"""Words that begin a clause."""

AFTER_OPERAND: Final = CLAUSES | _words("""
    AND OR XOR NOT IN IS STARTS ENDS CONTAINS AS ASC ASCENDING DESC DESCENDING WHEN THEN ELSE END BY PATH PATHS
    GROUP GROUPS FROM TYPED NFC NFD NFKC NFKD HINT JOIN MULTI_JOIN
""")
"""Words that may follow a complete expression or pattern."""

TYPES: Final = _words("""
    BOOLEAN BOOL STRING TEXT VARCHAR INTEGER INT FLOAT DOUBLE INT8 INT16 INT32 INT64 INT128 UINT8 UINT16 UINT32 UINT64
    UINT128 SERIAL DECIMAL BLOB UUID DATE TIME DATETIME TIMESTAMP TIMESTAMP_NS TIMESTAMP_MS TIMESTAMP_SEC TIMESTAMP_TZ
    INTERVAL DURATION ZONED LOCAL WITHOUT TIMEZONE ZONE POINT NODE VERTEX RELATIONSHIP EDGE PATH MAP LIST ARRAY STRUCT
    UNION VALUE ANY NOTHING NORMALIZED JSON VECTOR
""") - {"UNION", "PATH"}
"""Words that stand behind other words in the name of a type, or behind the name of a field."""

HINTS: Final = _words("""
    INDEX SEEK SCAN JOIN ON TEXT RANGE POINT BTREE
""")
"""Words of a hint, behind USING."""

SHOWN_KINDS: Final = _words("""
    INDEX INDEXES CONSTRAINT CONSTRAINTS PROCEDURE PROCEDURES FUNCTION FUNCTIONS DATABASE DATABASES
""")
"""What SHOW may tell: what the graph has, and none of its users, settings and transactions."""

SHOWN: Final = SHOWN_KINDS | _words("""
    ALL FULLTEXT TEXT POINT RANGE VECTOR TOKEN LOOKUP BTREE BRIEF VERBOSE OUTPUT UNIQUE UNIQUENESS NODE RELATIONSHIP REL
    PROPERTY EXIST EXISTS EXISTENCE KEY TYPE BUILT IN USER DEFINED EXECUTABLE BY CURRENT HOME DEFAULT
""")
"""Words between SHOW and what it goes on with."""

OPERANDS: Final = _words("""
    NULL TRUE FALSE END ASC ASCENDING DESC DESCENDING
""")
"""Words that are a complete expression themselves, or complete one."""

PATH_MODES: Final = _words("""
    SHORTEST WSHORTEST TRAIL ACYCLIC WALK REPEATABLE DIFFERENT ELEMENT ELEMENTS RELATIONSHIPS
""")
"""Words before a pattern or a quantifier that say which paths are meant."""

_CYPHER_FUNCTIONS: Final = """
    abs acos all allreduce allshortestpaths any asin atan atan2 avg btrim cbrt ceil ceiling char_length character_length
    coalesce collect cos cosh cot coth count date date.realtime date.statement date.transaction date.truncate datetime
    datetime.fromepoch datetime.fromepochmillis datetime.realtime datetime.statement datetime.transaction
    datetime.truncate degrees duration duration.between duration.indays duration.inmonths duration.inseconds e elementid
    endnode exists exp extract filter floor haversin head id isempty isnan keys labels last left length localdatetime
    localdatetime.realtime localdatetime.statement localdatetime.transaction localdatetime.truncate localtime
    localtime.realtime localtime.statement localtime.transaction localtime.truncate log log10 lower ltrim max min nodes
    none normalize nullif percentilecont percentiledisc pi point point.distance point.withinbbox pow properties radians
    rand randomuuid range reduce relationships replace reverse right round rtrim shortestpath sign sin single sinh size
    split sqrt startnode stdev stdevp substring sum tail tan tanh time time.realtime time.statement time.transaction
    time.truncate timestamp toboolean tobooleanlist tobooleanornull tofloat tofloatlist tofloatornull tointeger
    tointegerlist tointegerornull tolower tostring tostringlist tostringornull toupper trim type upper valuetype
    vector.similarity.cosine vector.similarity.euclidean vector vector_distance vector_norm vector_dimension_count
    datetime.fromepochseconds format haslabels
"""

_LADYBUG_FUNCTIONS: Final = """
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
"""

FUNCTIONS: Final[dict[str, frozenset[str]]] = {
    "neo4j": _words(_CYPHER_FUNCTIONS),
    "ladybug": _words(_CYPHER_FUNCTIONS) | _words(_LADYBUG_FUNCTIONS),
}
"""For each dialect: functions that only compute. None reads a file, reaches a network or counts a sequence up."""

PROCEDURES: Final[dict[str, frozenset[str]]] = {
    "neo4j": _words("""
    db.labels db.relationshiptypes db.propertykeys db.schema.visualization db.schema.nodetypeproperties
    db.schema.reltypeproperties db.info db.ping db.index.fulltext.querynodes
    db.index.fulltext.queryrelationships db.index.vector.querynodes db.index.vector.queryrelationships
    db.indexes db.indexdetails db.constraints db.awaitindex db.awaitindexes db.stats.status dbms.procedures dbms.functions
    dbms.showcurrentuser dbms.components apoc.meta.schema apoc.meta.data apoc.meta.graph apoc.meta.stats
    apoc.meta.nodetypeproperties
    apoc.meta.reltypeproperties
"""),
    "ladybug": _words("""
    show_tables table_info show_connection db_version current_setting show_functions show_indexes show_sequences
    show_macros show_graphs show_projected_graphs projected_graph_info show_loaded_extensions show_official_extensions
    show_attached_databases show_warnings catalog_version storage_version storage_info stats_info bm_info fsm_info
"""),
}
"""For each dialect: procedures that only tell what the graph holds."""
