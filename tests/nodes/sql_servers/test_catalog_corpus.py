"""Statements made of the catalogs of PostgreSQL and DuckDB: their functions, operators and casts, with sample values.

`query` answers what the driver alone answers, and refuses what has an effect: each refusal has one of the reasons named here.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from postgres_server import DEBIAN_POSTGRES, running_postgres
from sql_contract import opened

from rrext.errors import RrextError
from rrext.nodes.databases.cells import json_rows
from rrext.nodes.sql.duckdb.node import DuckdbNode
from rrext.nodes.sql.duckdb.values import converter, exact_type
from rrext.nodes.sql.postgres.dialect import POSTGRES
from rrext.nodes.sql.postgres.node import PostgresNode

pytestmark = [pytest.mark.system, pytest.mark.timeout(300), pytest.mark.promise("data:functions:by-the-catalog")]

SAMPLES: Final = {
    "bool": "true", "bytea": "'\\x00ff'", '"char"': "'a'", "name": "'nm'", "int8": "7000000000", "int2": "3", "int4": "42",
    "text": "'Some Text'", "oid": "1259", "tid": "'(0,1)'", "xid": "'5'", "cid": "'5'", "xid8": "'5'",
    "json": "'{\"a\": [1, 2]}'", "xml": "'<a/>'", "point": "'(1,2)'", "lseg": "'[(0,0),(1,1)]'",
    "path": "'((0,0),(1,1),(2,0))'", "box": "'(2,2),(1,1)'", "polygon": "'((0,0),(1,1),(1,0))'", "line": "'{1,2,3}'",
    "float4": "1.5", "float8": "0.25", "circle": "'<(1,2),3>'", "money": "'12.5'", "macaddr": "'08:00:2b:01:02:03'",
    "inet": "'192.168.0.1/24'", "cidr": "'10.0.0.0/8'", "bpchar": "'ab '", "macaddr8": "'08:00:2b:01:02:03:04:05'",
    "varchar": "'vc'", "date": "'2024-02-29'", "time": "'10:00:00.5'", "bit": "B'101'",
    "timestamp": "'2024-02-29 10:00:00.5'", "timestamptz": "'2024-02-29 10:00+00'", "interval": "'1 mon 2 days 03:04:05.6'",
    "timetz": "'10:00+02'", "varbit": "B'10101'", "numeric": "12.50", "uuid": "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
    "pg_lsn": "'16/B374D848'", "tsvector": "'a:1A b:2'", "tsquery": "'a & b'", "jsonb": "'{\"a\": [1, 2.50]}'",
    "regtype": "'integer'", "jsonpath": "'$.a[*]'", "int4range": "'[1,5)'", "numrange": "'[1.5,2.50]'",
    "daterange": "'[2024-01-01,2024-02-01)'", "tsrange": "'[2024-01-01,2024-02-01)'",
    "tstzrange": "'[2024-01-01 00:00+00,)'", "int8range": "'[1,5)'", "regclass": "'pg_class'",
    "int4multirange": "'{[1,3),[5,7)}'", "anyelement": "42", "anycompatible": "42", '"any"': "42",
    "anyarray": "ARRAY[3,1,2]", "anycompatiblearray": "ARRAY[1,2]", "anynonarray": "42", "anyrange": "'[1,5)'::int4range",
    "int4[]": "'{3,1,2}'", "text[]": "'{a,b}'", "anymultirange": "'{[1,3)}'::int4multirange", "record": "ROW(1, 'a')",
    "regconfig": "'english'", "float8[]": "'{1,2}'", "anyenum": "NULL::text", "regproc": "'abs'",
    "regprocedure": "'abs(int4)'", "regnamespace": "'pg_catalog'",
}  # fmt: skip
"""A value of each type, as a literal."""

FUNCTIONS: Final = """SELECT p.proname,
  ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY u(t, n) ORDER BY n),
  p.provolatile = 'v', p.proacl IS NOT NULL, p.prorettype = 'void'::regtype, p.prokind
FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind IN ('f', 'a') AND p.proname <> 'pg_sleep'
ORDER BY p.proname, p.oid"""
OPERATORS: Final = """SELECT o.oprname, format_type(nullif(o.oprleft, 0), NULL), format_type(o.oprright, NULL)
FROM pg_operator o WHERE o.oprnamespace = 'pg_catalog'::regnamespace ORDER BY o.oid"""
CASTS: Final = "SELECT format_type(castsource, NULL), format_type(casttarget, NULL) FROM pg_cast ORDER BY oid"

LONG: Final = {
    "boolean": "bool", "bigint": "int8", "smallint": "int2", "integer": "int4", "real": "float4", "double precision": "float8",
    "character": "bpchar", "character varying": "varchar", "time without time zone": "time", "bit varying": "varbit",
    "timestamp without time zone": "timestamp", "timestamp with time zone": "timestamptz", "time with time zone": "timetz",
    "integer[]": "int4[]", "double precision[]": "float8[]",
}  # fmt: skip
CHANGING: Final = re.compile(
    r"\b(?:now|clock_timestamp|statement_timestamp|transaction_timestamp|timeofday|random\w*|gen_random_uuid|uuidv\d|pg_backend_pid|age|"
    r"pg_stat_get\w*|txid\w*|pg_current\w*|pg_snapshot\w*|pg_my_temp_schema|pg_conf_load_time|inet_client_port|pg_\w+_size|pg_\w*cursor|"
    r"pg_prepared_statement|pg_show_all_settings|pg_is_other_temp_schema|pg_stat_\w+|pg_postmaster_start_time|pg_timezone_\w+)\b"
)
"""Functions whose value is another one on each call or each connection."""


def _typed(kind: str) -> str | None:
    short = LONG.get(kind, kind)
    sample = SAMPLES.get(short)
    return sample if sample is None or short.startswith(("any", '"any', "record")) else f"{sample}::{kind}"


def certain(sql: str, rows: list[list[Any]]) -> list[list[Any]]:
    """The rows; of a comparison its sign alone: the number is that of `memcmp`, another one in each process."""
    if re.match(r"SELECT \w+cmp\(", sql) is None:
        return rows
    return [[(value > 0) - (value < 0) if isinstance(value, int) else value for value in row] for row in rows]


def statements_of_postgres(run: Any) -> tuple[list[str], dict[str, str]]:
    """The statements that read; and the calls that must be refused, each with its reason."""
    reading: list[str] = []
    acting: dict[str, str] = {}
    for name, kinds, is_volatile, is_restricted, is_void, kind in run(FUNCTIONS):
        samples = [_typed(part) for part in kinds]
        if None in samples and kinds:
            continue
        call = f"SELECT {name}({', '.join(filter(None, samples))}) AS v"
        reason = "restricted" if is_restricted else "void" if is_void else "volatile" if is_volatile else ""
        if name in (POSTGRES.attributes or ()):
            reason = reason or "acts, though its catalog says that it does not"
        if reason and name not in (POSTGRES.functions or ()):
            acting[call] = reason
        elif not CHANGING.search(call) and not is_volatile:
            reading.append(call if kind == "f" else f"{call} FROM generate_series(1, 3)")
    for name, left, right in run(OPERATORS):
        operands = [_typed(part) for part in (left, right) if part is not None]
        if None not in operands:
            reading.append(
                f"SELECT {f' {name} '.join(map(str, operands))} AS v" if left else f"SELECT {name} {operands[0]} AS v"
            )
    for source, target in run(CASTS):
        if (sample := _typed(source)) is not None:
            reading += [f"SELECT {sample}::{target} AS v", f"SELECT CAST(NULL::{source} AS {target}) AS v"]
    return reading, acting


@pytest.mark.parametrize("programs", [None, DEBIAN_POSTGRES], ids=["18", "15"])
async def test_what_postgresql_has_is_answered_as_the_driver_answers_it(programs: Path | None) -> None:
    import psycopg

    from rrext.nodes.sql.postgres.rows import adapters

    counts: Counter[str] = Counter()
    wrong: list[str] = []
    with running_postgres(programs) as server:
        database = server.create_database("corpus")
        place: dict[str, Any] = {"autocommit": True, "context": adapters(), "prepare_threshold": None}
        with psycopg.connect(database.url, **place) as driver:
            reading, acting = statements_of_postgres(lambda sql: driver.execute(sql.encode()).fetchall())
            async with opened(PostgresNode, database.settings) as desk:
                for sql in reading:
                    try:
                        alone = driver.execute(sql.encode()).fetchall()
                    except psycopg.Error:
                        counts["the driver fails"] += 1
                        continue
                    wanted = json.loads(json.dumps(json_rows(alone, nested_as_text=False), default=str))
                    try:
                        answer = await desk("query", sql=sql, row_mode="array", limit=25_000)
                    except RrextError as error:
                        wrong.append(f"{sql}: {error.message}")
                        continue
                    counts["same"] += 1
                    if repr(certain(sql, json.loads(json.dumps(answer["rows"])))) != repr(certain(sql, wanted)):
                        wrong.append(f"{sql}: {answer['rows']}, not {wanted}")
                for sql, reason in acting.items():
                    counts[reason] += 1
                    if (refused := await desk.refusal("query", sql=sql)).code != "not_read_only":
                        wrong.append(f"{sql}: {refused}")
    assert wrong == []
    assert counts["same"] > 2000, counts
    assert min(counts[reason] for reason in ("volatile", "restricted", "void")) >= 5, counts


DUCKDB_EXAMPLES: Final = """SELECT DISTINCT function_name, unnest(examples) FROM duckdb_functions()
WHERE internal AND function_type IN ('scalar', 'aggregate') ORDER BY ALL"""
DUCKDB_REFUSED: Final = {
    "nextval": "moves a sequence on",
    "currval": "is of the connection",
    "setseed": "changes the connection",
    "sleep_ms": "sleeps",
    "write_log": "writes",
    "to_aggregate_state": "trusts the bytes that it is given",
}
DUCKDB_CHANGING: Final = re.compile(
    r"\b(?:random|uuid\w*|gen_random_uuid|current_\w+|now|today|get_current_\w+|transaction_timestamp|txid_current|age)\b"
)


async def test_what_duckdb_has_is_answered_as_the_driver_answers_it() -> None:
    import duckdb

    counts: Counter[str] = Counter()
    wrong: list[str] = []
    with duckdb.connect() as driver:
        rows = driver.execute(DUCKDB_EXAMPLES).fetchall()
        async with opened(DuckdbNode, {}) as desk:
            for name, example in rows:
                sql = f"SELECT {example} AS v"
                if DUCKDB_CHANGING.search(sql):
                    continue
                if name in DUCKDB_REFUSED:
                    counts["refused"] += (await desk.refusal("query", sql=sql)).code == "not_read_only"
                    continue
                try:
                    result = driver.execute(sql)
                    kinds = [column[1] for column in result.description or ()]
                    alone = result.fetchall()
                except duckdb.Error:
                    counts["the driver fails"] += 1
                    continue
                try:
                    answer = await desk("query", sql=sql, row_mode="array", limit=25_000)
                except RrextError as error:
                    wrong.append(f"{sql}: {error.message}")
                    continue
                counts["same"] += 1
                if any(map(exact_type, kinds)):
                    continue  # Python's values have less than the database's
                (convert,) = map(converter, kinds)
                wanted = json_rows([[row[0] if convert is None else convert(row[0])] for row in alone], nested_as_text=False)
                if repr(json.loads(json.dumps(answer["rows"]))) != repr(json.loads(json.dumps(wanted, default=str))):
                    wrong.append(f"{sql}: {answer['rows']}, not {wanted}")
    assert wrong == []
    assert counts["same"] > 400, counts
    assert counts["refused"] >= 4, counts
