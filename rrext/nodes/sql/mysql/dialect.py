"""The SQL dialect of MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rrext.nodes.databases.words import words
from rrext.nodes.sql.gate.dialect import KEYWORDS, QUERIES, SqlDialect, opening
from rrext.nodes.sql.gate.explain import EXPLAIN_WORDS
from rrext.nodes.sql.gate.patterns import (
    BACKTICKED_NAME,
    BLOCK,
    ESCAPED_LITERAL,
    LIST,
    NUMBER,
    NUMBERED,
    SIGN,
    SPACES,
    STRAIGHT,
    WORD,
)
from rrext.nodes.sql.gate.tokens import NAME, SqlToken
from rrext.nodes.sql.gate.tokens import WORD as A_WORD

_NUMBER: Final = NUMBER.replace("_]", "]")
"""`1_000` is a name in MySQL."""
_COMMENT: Final = r"(?:--(?=[\x00-\x20\x7f]|\Z)|\#)[^\n\r]*+"
_TORN: Final = rf"(?P<torn>{_COMMENT}\r(?!\n)|\$?\d|@[\w.$]*+[\x80-\U0010ffff])"
_VARIABLE: Final = r"(?P<variable>@(?![@`'\"])[\w.$]*+)"
"""A variable of a session in MySQL: dots belong to its name."""

_KEYWORDS: Final = words("""
against columns convert default distinctrow div force ignore index json_table key keys mediumtext match mod path partitions
persistent regexp returning rlike sounds straight_join use xor system_time nested partition recursive
""")

_FUNCTIONS: Final = words("""
abs acos add_months adddate addtime aes_decrypt aes_encrypt all any any_value area asbinary ascii asin astext atan atan2 avg
bin bin_to_uuid bit_and bit_count bit_length bit_or bit_xor boundary ceil ceiling centroid char char_length character_length
charset chr coalesce coercibility collation column_add column_check column_create column_delete column_exists column_get
column_json column_list compress concat concat_operator_oracle concat_ws connection_id conv convert convert_tz cos cot count
crc32 crc32c cume_dist curdate current_date current_role current_time current_timestamp current_user curtime database date
date_add date_format date_sub datediff day dayname dayofmonth dayofweek dayofyear decode decode_histogram decode_oracle degrees
dense_rank des_decrypt des_encrypt dimension disjoint elt encode encrypt endpoint envelope equals exp export_set exteriorring
extractvalue field find_in_set first_value floor format format_bytes format_pico_time found_rows from_base64 from_days
from_unixtime geometrycollection geometrytype geomfromtext get_format glength greatest group_concat grouping gtid_subset
gtid_subtract hex hour icu_version if ifnull inet6_aton inet6_ntoa inet_aton inet_ntoa insert instr intersects interval
is_free_lock is_ipv4 is_ipv4_compat is_ipv4_mapped is_ipv6 is_used_lock is_uuid isclosed isempty isnull issimple json_array
json_array_append json_array_insert json_array_intersect json_arrayagg json_compact json_contains json_contains_path json_depth
json_detailed json_equals json_exists json_extract json_insert json_key_value json_keys json_length json_loose json_merge
json_merge_patch json_merge_preserve json_normalize json_object json_object_filter_keys json_object_to_array json_objectagg
json_overlaps json_pretty json_query json_quote json_remove json_replace json_schema_valid json_schema_validation_report
json_search json_set json_storage_size json_table json_type json_unquote json_valid json_value kdf lag last_day last_insert_id
last_value lastval lcase lead least left length lengthb linestring ln localtime localtimestamp locate log log10 log2 lower lpad
lpad_oracle ltrim ltrim_oracle make_set makedate maketime max mbrcontains mbrdisjoint mbrequal mbrintersects mbroverlaps
mbrtouches mbrwithin md5 median microsecond mid min minute mod month monthname months_between multilinestring multipoint
multipolygon name_const natural_sort_key now nth_value ntile nullif numpoints nvl nvl2 oct octet_length old_password ord
overlaps password percent_rank percentile_cont percentile_disc period_add period_diff pi point pointn polygon position pow
power ps_current_thread_id ps_thread_id quarter quote radians rand random_bytes rank regexp_instr regexp_like regexp_replace
regexp_substr repeat replace replace_oracle reverse right round row row_count row_number rpad rpad_oracle rtrim rtrim_oracle
schema schemas sec_to_time second session_user sformat sha sha1 sha2 sign sin some soundex space sqrt st_area st_asbinary
st_asgeojson st_astext st_buffer st_centroid st_collect st_contains st_convexhull st_crosses st_difference st_dimension
st_disjoint st_distance st_distance_sphere st_endpoint st_envelope st_equals st_exteriorring st_frechetdistance st_geohash
st_geometryn st_geometrytype st_geomfromgeojson st_geomfromtext st_geomfromwkb st_hausdorffdistance st_intersection
st_intersects st_isclosed st_isempty st_isring st_issimple st_isvalid st_latfromgeohash st_latitude st_length st_linefromtext
st_lineinterpolatepoint st_longfromgeohash st_longitude st_makeenvelope st_numgeometries st_numpoints st_overlaps
st_pointfromgeohash st_pointfromtext st_pointn st_polyfromtext st_relate st_simplify st_srid st_startpoint st_swapxy
st_symdifference st_touches st_transform st_union st_within st_x st_y startpoint statement_digest statement_digest_text std
stddev stddev_pop stddev_samp str_to_date strcmp subdate substr substr_oracle substring substring_index subtime sum sys_guid
sysdate system_user tan time time_format time_to_sec timediff timestamp timestampadd timestampdiff to_base64 to_char to_days
to_number to_seconds touches trim trim_oracle trunc truncate ucase uncompress uncompressed_length unhex unix_timestamp
updatexml upper user utc_date utc_time utc_timestamp uuid uuid_short uuid_to_bin uuid_v4 uuid_v7 validate_password_strength
var_pop var_samp variance vec_distance vec_distance_cosine vec_distance_euclidean vec_fromtext vec_totext version week weekday
weekofyear weight_string within wsrep_last_seen_gtid wsrep_last_written_gtid year yearweek
""")

_SHOWN: Final = words(
    """all authors binary binlog character charset collation columns contributors count create databases engine engines
    errors events fields function grants index indexes keys locales master open package plugins privileges procedure
    processlist profile profiles relaylog replica schemas slave status storage table tables triggers variables warnings"""
)
"""Objects of MySQL's SHOW, after FULL, EXTENDED, GLOBAL or SESSION."""
_MODIFIERS: Final = frozenset({"full", "extended", "global", "session", "local"})
_DESCRIBED: Final = words(
    """select with values table insert update delete replace merge for call create alter drop set do load truncate"""
)
"""Words after DESCRIBE that explain a statement instead of describing a table."""
_CHECKS: Final = frozenset({"quick", "fast", "medium", "extended", "changed"})


def _shows(tokens: Sequence[SqlToken]) -> bool:
    match opening(tokens):
        case "show", _:
            names = [token.text for token in tokens[1:4] if token.kind == A_WORD and token.text not in _MODIFIERS]
            return bool(names) and names[0] in _SHOWN
        case "describe" | "desc" | "explain", second:
            if not second or tokens[1].kind == NAME:
                return bool(second)
            return second not in _DESCRIBED and (len(tokens) == 2 or second not in EXPLAIN_WORDS)
        case "check", "table" | "view":
            return all(token.text in _CHECKS for token in _options(tokens))
        case "checksum", "table":
            return True
        case "help", _:
            return len(tokens) == 2
    return False


def _options(tokens: Sequence[SqlToken]) -> list[SqlToken]:
    """The words behind the last name of `CHECK TABLE a, b.c QUICK FAST`."""
    at = 2
    while at < len(tokens):
        at += 1
        if at < len(tokens) and tokens[at].kind in (".", ","):
            at += 1
        else:
            break
    return list(tokens[at:])


MYSQL: Final = SqlDialect(
    name="mysql",
    patterns=(
        SPACES, LIST, _NUMBER, NUMBERED, _TORN, rf"(?P<line>{_COMMENT})", BLOCK, WORD, STRAIGHT,
        r'(?P<name>["`])', _VARIABLE, r"(?P<other>\?)", SIGN,
    ),
    literals=rf"--(?=\s|\Z)[^\n]*|\#[^\n]*|{ESCAPED_LITERAL}|\"(?:[^\"\\]|\\(?:.|\Z)|\"\")*(?:\"|\Z)|{BACKTICKED_NAME}",
    queries=QUERIES | {"table"},
    quote="`",
    functions=_FUNCTIONS,
    keywords=KEYWORDS | _KEYWORDS,
    own_schemas=frozenset(),
    shows=_shows,
    explains=frozenset({"explain", "analyze", "describe", "desc"}),
    sql_modes=True,
    reserved_words=True,
    assignment=True,
)  # fmt: skip
