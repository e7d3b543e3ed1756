"""The SQL dialect of PostgreSQL.

The list of allowed functions started from those that the catalog of PostgreSQL marks immutable or stable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rrext.nodes.databases.words import words
from rrext.nodes.sql.gate.dialect import KEYWORDS, QUERIES, SqlDialect, opening
from rrext.nodes.sql.gate.patterns import (
    BLOCK,
    DOLLARS,
    LINE,
    LIST,
    NUMBER,
    NUMBERED,
    POSTGRES_LITERALS,
    SIGN,
    SPACES,
    STRAIGHT,
    TORN,
    WORD,
)
from rrext.nodes.sql.gate.tokens import SqlToken

_KEYWORDS: Final = words("""
bernoulli bpchar columns empty explain keep materialized nested omit only ordinality passing path placing repeatable returning
tablesample unconditional conditional varbit xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi
xmlroot xmlserialize xmltable json json_array json_arrayagg json_exists json_object json_objectagg json_query json_scalar
json_serialize json_table json_value collation system
""")

_FUNCTIONS: Final = words("""
abbrev abs acldefault aclexplode acos acosd acosh age akeys all any any_value area armor array_agg array_append array_cat
array_dims array_fill array_length array_lower array_ndims array_position array_positions array_prepend array_remove
array_replace array_reverse array_sample array_shuffle array_sort array_to_json array_to_string array_to_tsvector array_upper
ascii asin asind asinh atan atan2 atan2d atand atanh avals avg binary_quantize bit bit_and bit_count bit_length bit_or bit_xor
bool bool_and bool_or bound_box box bpchar broadcast btrim bytea cardinality casefold cash_words cbrt ceil ceiling center char
char_length character_length chr cidr circle clock_timestamp coalesce col_description concat concat_ws convert convert_from
convert_to corr cos cosd cosh cosine_distance cot cotd count covar_pop covar_samp crc32 crc32c crypt cube cume_dist
current_database current_schema current_schemas current_setting current_time current_timestamp current_user daitch_mokotoff
date date_add date_bin date_part date_subtract date_trunc datemultirange daterange decode defined degrees delete dense_rank
dexp diagonal diameter difference digest div dlog1 dlog10 dmetaphone dmetaphone_alt dround dtrunc each earth_box earth_distance
encode enum_first enum_last enum_range erf erfc every exist exp extract factorial family first first_value float4 float8 floor
format format_type gamma gcd gen_random_uuid gen_salt generate_series generate_subscripts get_bit get_byte
get_current_ts_config getdatabaseencoding getpgusername greatest grouping halfvec hamming_distance has_any_column_privilege
has_column_privilege has_database_privilege has_foreign_data_wrapper_privilege has_function_privilege has_language_privilege
has_largeobject_privilege has_parameter_privilege has_schema_privilege has_sequence_privilege has_server_privilege
has_table_privilege has_tablespace_privilege has_type_privilege hashtext hashtextextended height hmac host hostmask hstore
hstore_to_json hstore_to_jsonb icu_unicode_version inet_client_addr inet_client_port inet_merge inet_same_family
inet_server_addr inet_server_port initcap inner_product int2 int4 int4multirange int4range int8 int8multirange int8range
interpolate interval is_normalized isclosed isempty isfinite ishorizontal isopen isparallel isperp isvertical jaccard_distance
json json_agg json_agg_strict json_array json_array_elements json_array_elements_text json_array_length json_build_array
json_build_object json_each json_each_text json_extract_path json_extract_path_text json_object json_object_agg
json_object_agg_strict json_object_agg_unique json_object_agg_unique_strict json_object_keys json_populate_record
json_populate_recordset json_scalar json_serialize json_strip_nulls json_to_record json_to_recordset json_to_tsvector
json_typeof jsonb jsonb_agg jsonb_agg_strict jsonb_array_elements jsonb_array_elements_text jsonb_array_length
jsonb_build_array jsonb_build_object jsonb_contained jsonb_contains jsonb_delete jsonb_each jsonb_each_text jsonb_exists
jsonb_exists_all jsonb_exists_any jsonb_extract_path jsonb_extract_path_text jsonb_insert jsonb_object jsonb_object_agg
jsonb_object_agg_strict jsonb_object_agg_unique jsonb_object_agg_unique_strict jsonb_object_keys jsonb_path_exists
jsonb_path_exists_tz jsonb_path_match jsonb_path_match_tz jsonb_path_query jsonb_path_query_array jsonb_path_query_array_tz
jsonb_path_query_first jsonb_path_query_first_tz jsonb_path_query_tz jsonb_populate_record jsonb_populate_record_valid
jsonb_populate_recordset jsonb_pretty jsonb_set jsonb_set_lax jsonb_strip_nulls jsonb_to_record jsonb_to_recordset
jsonb_to_tsvector jsonb_typeof justify_days justify_hours justify_interval l1_distance l2_distance l2_normalize lag last
last_value lca lcm lead least left length levenshtein levenshtein_less_equal lgamma like like_escape line ll_to_earth ln
localtime localtimestamp locf log log10 lower lower_inc lower_inf lpad lquery lseg ltree2text ltrim macaddr macaddr8
macaddr8_set7bit make_date make_interval make_time make_timestamp make_timestamptz masklen max md5 metaphone min min_scale mod
mode money multirange mxid_age name netmask network network_larger network_overlap network_sub network_subeq network_sup
network_supeq nlevel normalize notlike now npoints nth_value ntile nullif num_nonnulls num_nulls numeric numeric_inc
nummultirange numnode numrange obj_description octet_length oid oidvectortypes overlaps overlay parse_ident path percent_rank
percentile_cont percentile_disc pg_available_extension_versions pg_available_extensions pg_backend_pid pg_basetype
pg_blocking_pids pg_char_to_encoding pg_client_encoding pg_collation_for pg_collation_is_visible pg_column_compression
pg_column_is_updatable pg_column_size pg_conf_load_time pg_conversion_is_visible pg_current_snapshot pg_current_wal_lsn
pg_current_xact_id_if_assigned pg_database_size pg_describe_object pg_encoding_max_length pg_encoding_to_char
pg_extension_update_paths pg_filenode_relation pg_function_is_visible pg_get_acl pg_get_constraintdef pg_get_expr
pg_get_function_arg_default pg_get_function_arguments pg_get_function_identity_arguments pg_get_function_result
pg_get_function_sqlbody pg_get_functiondef pg_get_indexdef pg_get_keywords pg_get_object_address pg_get_partition_constraintdef
pg_get_partkeydef pg_get_replica_identity_index pg_get_ruledef pg_get_serial_sequence pg_get_statisticsobjdef
pg_get_statisticsobjdef_columns pg_get_statisticsobjdef_expressions pg_get_triggerdef pg_get_userbyid pg_get_viewdef
pg_has_role pg_identify_object pg_identify_object_as_address pg_index_column_has_property pg_index_has_property
pg_indexam_has_property pg_indexes_size pg_input_error_info pg_input_is_valid pg_is_in_recovery pg_is_other_temp_schema
pg_last_wal_receive_lsn pg_last_wal_replay_lsn pg_last_xact_replay_timestamp pg_listening_channels pg_lsn pg_mcv_list_items
pg_my_temp_schema pg_opclass_is_visible pg_operator_is_visible pg_opfamily_is_visible pg_options_to_table
pg_partition_ancestors pg_partition_root pg_partition_tree pg_postmaster_start_time pg_relation_filenode
pg_relation_is_publishable pg_relation_is_updatable pg_relation_size pg_sequence_last_value pg_sequence_parameters
pg_settings_get_flags pg_size_bytes pg_size_pretty pg_snapshot_xip pg_snapshot_xmax pg_snapshot_xmin pg_stat_get_dead_tuples
pg_stat_get_live_tuples pg_stat_get_numscans pg_stat_get_tuples_deleted pg_stat_get_tuples_inserted pg_stat_get_tuples_returned
pg_stat_get_tuples_updated pg_stat_statements pg_stat_statements_info pg_statistics_obj_is_visible pg_table_is_visible
pg_table_size pg_tablespace_databases pg_tablespace_location pg_tablespace_size pg_timezone_abbrevs pg_timezone_names
pg_total_relation_size pg_trigger_depth pg_ts_config_is_visible pg_ts_dict_is_visible pg_ts_parser_is_visible
pg_ts_template_is_visible pg_type_is_visible pg_typeof pg_visible_in_snapshot pg_wal_lsn_diff pg_walfile_name pg_xact_status
phraseto_tsquery pi plainto_tsquery point polygon popcount position pow power querytree quote_ident quote_literal
quote_nullable radians radius random random_normal range_agg range_contains_elem range_intersect_agg range_merge rank regclass
regexp_count regexp_instr regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table
regexp_substr regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat replace
reverse right round row row_number row_security_active row_to_json rpad rtrim scale session_user set_bit set_byte set_masklen
setweight sha224 sha256 sha384 sha512 shobj_description show_trgm sign similar_escape similar_to_escape similarity sin sind
sinh skeys slice slope some soundex sparsevec split_part sqrt st_area st_asbinary st_asewkb st_asewkt st_asgeojson st_asmvt
st_asmvtgeom st_astext st_azimuth st_boundary st_buffer st_centroid st_closestpoint st_clusterdbscan st_clusterkmeans
st_collect st_concavehull st_contains st_convexhull st_coveredby st_covers st_crosses st_difference st_dimension st_disjoint
st_distance st_distancesphere st_distancespheroid st_dump st_dumppoints st_dwithin st_endpoint st_envelope st_equals st_expand
st_extent st_exteriorring st_force2d st_force3d st_geogfromtext st_geohash st_geometryn st_geometrytype st_geomfromewkt
st_geomfromgeojson st_geomfromtext st_geomfromwkb st_hexagongrid st_intersection st_intersects st_isempty st_isvalid
st_isvalidreason st_length st_length2d st_lineinterpolatepoint st_linelocatepoint st_linemerge st_linesubstring st_m
st_makeenvelope st_makeline st_makepoint st_makepolygon st_makevalid st_maxdistance st_multi st_npoints st_numgeometries
st_overlaps st_perimeter st_point st_pointn st_pointonsurface st_polygonize st_project st_relate st_reverse st_segmentize
st_setsrid st_simplify st_snaptogrid st_squaregrid st_srid st_startpoint st_subdivide st_symdifference st_tileenvelope
st_touches st_transform st_translate st_unaryunion st_union st_voronoipolygons st_within st_x st_xmax st_xmin st_y st_ymax
st_ymin st_z st_zmax st_zmin starts_with statement_timestamp stddev stddev_pop stddev_samp strict_word_similarity string_agg
string_to_array string_to_table strip strpos subltree subpath substr substring subvector sum svals system_user tan tand tanh
tconvert text text2ltree textlen time time_bucket time_bucket_gapfill timeofday timestamp timestamptz timetz timezone tinterval
to_ascii to_bin to_char to_date to_hex to_json to_jsonb to_number to_oct to_regclass to_regcollation to_regnamespace to_regoper
to_regoperator to_regproc to_regprocedure to_regrole to_regtype to_regtypemod to_timestamp to_tsquery to_tsvector
transaction_timestamp translate trim_array trim_scale trunc ts_debug ts_delete ts_filter ts_headline ts_lexize ts_parse ts_rank
ts_rank_cd ts_token_type tsmultirange tsquery tsquery_phrase tsrange tstzmultirange tstzrange tsvector tsvector_to_array
txid_current_if_assigned txid_current_snapshot txid_snapshot_xip txid_snapshot_xmax txid_snapshot_xmin txid_visible_in_snapshot
unaccent unicode_assigned unicode_version unistr unnest upper upper_inc upper_inf user uuid uuid_extract_timestamp
uuid_extract_version uuid_generate_v1 uuid_generate_v3 uuid_generate_v4 uuid_generate_v5 uuid_nil uuid_ns_dns uuid_ns_oid
uuid_ns_url uuidv4 uuidv7 var_pop var_samp varbit varchar variance vector vector_dims vector_norm version websearch_to_tsquery
width width_bucket width_bucket_array word_similarity xid xml xml_is_well_formed xml_is_well_formed_content
xml_is_well_formed_document xmlagg xmlcomment xmlexists xmltext xmlvalidate xpath xpath_exists
""")

_ATTRIBUTES: Final = words("""
brin_desummarize_range brin_summarize_new_values brin_summarize_range bt_index_check bt_index_parent_check crosstab currtid2
currval cursor_to_xml cursor_to_xmlschema database_to_xml database_to_xml_and_xmlschema database_to_xmlschema
gin_clean_pending_list http_delete http_get http_head http_post http_put lastval lo_close lo_creat lo_create lo_export
lo_from_bytea lo_get lo_import lo_lseek lo_lseek64 lo_open lo_put lo_tell lo_tell64 lo_truncate lo_truncate64 lo_unlink loread
lowrite nextval postgres_fdw_disconnect query_to_xml query_to_xml_and_xmlschema query_to_xmlschema schema_to_xml
schema_to_xml_and_xmlschema schema_to_xmlschema set_config set_limit setseed setval table_to_xml table_to_xml_and_xmlschema
table_to_xmlschema ts_rewrite ts_stat txid_status verify_heapam
""")
"""PostgreSQL reads `x.f` as `f(x)` if `x` has no column `f`: names that are refused after a dot, beside `dblink…` and
unknown ones as `pg_…`. These are its functions that do more than compute; columns are hardly ever called so."""


def _shows(tokens: Sequence[SqlToken]) -> bool:
    first, second = opening(tokens)
    return first == "show" and bool(second)


POSTGRES: Final = SqlDialect(
    name="postgres",
    patterns=(
        SPACES, LIST, NUMBER, NUMBERED, TORN, LINE, BLOCK, r"(?P<escaped>[eE]')", r"(?P<unicode>[uU]&[\"'])", WORD, STRAIGHT,
        r'(?P<name>")', DOLLARS, SIGN,
    ),
    literals=POSTGRES_LITERALS,
    queries=QUERIES | {"table"},
    functions=_FUNCTIONS,
    keywords=KEYWORDS | _KEYWORDS,
    own_schemas=frozenset({"pg_catalog", "public"}),
    exact_quotes=True,
    attributes=_ATTRIBUTES,
    shows=_shows,
    nested_comments=True,
)  # fmt: skip
