"""The settings of a session of PostgreSQL are the caller's: an answer is what the driver alone gets, in the forms of JSON."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from postgres_server import DEBIAN_POSTGRES, Database, running_postgres

from rrext.errors import RrextError
from rrext.nodes.sql.postgres.node import PostgresNode
from rrext.nodes.sql.postgres.types import iso_interval
from rrext.testing import open_node

TEXTS = """SELECT i::text, to_json(i)::text, d::text, z::text, b::text, f::text, (i = interval '2 hours')::text, ROW(i, d)::text
FROM (SELECT interval '2 hours' i, date '2024-02-29' d, timestamptz '2024-07-01 10:00:00.5+00' z, bytea '\\x00ff' b,
0.1::float8 + 0.2::float8 f) s"""
"""What the session's settings decide, as the server says it in a text."""

VALUES = """SELECT interval '1 year 2 months -3 days 04:05:06.7', interval '-1 day', interval '0', date '2024-02-29',
date '0044-03-15 BC', timestamp '2024-02-29 10:00:00.5', timestamptz '2024-07-01 10:00+00', timestamptz '2024-01-01 10:00+00',
'infinity'::date, '\\x00ff'::bytea, ARRAY[date '10000-01-01'], ARRAY[interval '-2 hours -0.5 seconds']"""

ISO = [
    *("P1Y2M-3DT4H5M6.7S", "P-1D", "PT0S", "2024-02-29", "-0043-03-15", "2024-02-29T10:00:00.500000"),
    *("2024-07-01T12:00:00+02:00", "2024-01-01T11:00:00+01:00", "infinity", {"base64": "AP8="}, ["+10000-01-01"]),
    ["PT-2H-0.5S"],
]

SETTINGS = [
    {},
    {"IntervalStyle": "sql_standard", "DateStyle": "SQL, DMY", "bytea_output": "escape"},
    {"IntervalStyle": "postgres_verbose", "DateStyle": "German", "extra_float_digits": "0"},
    {"IntervalStyle": "iso_8601", "DateStyle": "Postgres, MDY"},
    {"DateStyle": "Postgres, DMY"},
    {"DateStyle": "SQL, MDY"},
]


async def row(settings: dict[str, Any], sql: str, **more: Any) -> list[Any]:
    async with open_node(PostgresNode, settings) as client:
        return (await client.tool(tool="query", input={"sql": sql, "row_mode": "array", **more}))["rows"][0]


@pytest.mark.promise("data:session:as-it-is")
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda found: " ".join(found.values()) or "default")
async def test_the_session_is_the_drivers_and_the_values_are_iso(postgres_database: Database, settings: dict[str, str]):
    for name, value in {"TimeZone": "Europe/Berlin", **settings}.items():
        postgres_database.run(f"ALTER DATABASE {postgres_database.name} SET {name} = '{value}'")
    with psycopg.connect(postgres_database.url, autocommit=True) as driver:
        alone = driver.execute(TEXTS.encode()).fetchone()
    assert await row(postgres_database.settings, TEXTS) == [*(alone or ())]
    assert await row(postgres_database.settings, VALUES) == ISO


@pytest.mark.promise("data:session:as-it-is")
@pytest.mark.parametrize("made", [[], ["CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "CREATE SCHEMA postgres"]])
async def test_no_other_setting_of_a_session_is_set(postgres_database: Database, made: list[str]):
    """Also where a reading statement runs as another role."""
    postgres_database.run(*made, "SELECT 1")
    sql = "SELECT name, setting FROM pg_settings"
    with psycopg.connect(postgres_database.url, autocommit=True) as driver:
        alone = dict(driver.execute(sql).fetchall())
    async with open_node(PostgresNode, {**postgres_database.settings, "allow_execute": True, "pool_size": 1}) as client:
        for tool in ("query", "execute", "query", "execute"):
            answer = await client.tool(tool=tool, input={"sql": sql, "row_mode": "array"})
            others = {name for name, value in answer["rows"] if alone[name] != value}
            assert others == {"application_name", "statement_timeout"} | (
                {"transaction_read_only"} if tool == "query" else set()
            )


async def test_years_that_postgresql_has_no_sign_for_go_back_as_they_came(postgres_database: Database):
    sql = "SELECT $1::date, $2::timestamptz, $3::timestamp, $4::date[], $5::text"
    params = ["-0043-03-15", "+10000-01-01T10:00:00+00:00", "0000-12-31T10:00:00", ["-4712-01-01"], "-0043-03-15"]
    assert await row(postgres_database.settings, sql, params=params) == params


async def test_a_backslash_that_a_server_reads_otherwise_is_refused(postgres_database: Database):
    postgres_database.run(f"ALTER DATABASE {postgres_database.name} SET standard_conforming_strings = off")
    attacks = [
        "SELECT 'a\\', ' || pg_sleep(0)::text --'",
        "SELECT '\\', ', pg_read_file($$PG_VERSION$$)/*' */",
        "SELECT 'C:\\x'",
    ]
    for sql in attacks:
        with pytest.raises(RrextError) as refused:
            await row(postgres_database.settings, sql)
        assert refused.value.code == "not_read_only"
    sql = "SELECT 'plain', E'a\\\\b', $1, $$c\\d$$ /* \\ */"
    assert await row(postgres_database.settings, sql, params=["e\\f"]) == ["plain", "a\\b", "e\\f", "c\\d"]


INTERVALS = """SELECT (make_interval(months => (random() * 800 - 400)::int * (random() * 1.5)::int,
  days => (random() * 80 - 40)::int * (random() * 1.5)::int)
  + (random() * 2 - 1) * (10 ^ (random() * 16)::int) * interval '1 microsecond')::text FROM generate_series(1, 4000)"""


@pytest.mark.system
@pytest.mark.parametrize("programs", [None, DEBIAN_POSTGRES], ids=["18", "15"])
def test_every_style_of_an_interval_is_read_as_the_server_means_it(programs: Any):
    with running_postgres(programs) as server, psycopg.connect(server.database().url, autocommit=True) as driver:
        driver.execute("CREATE TEMP TABLE spans (i) AS SELECT s::interval FROM (" + INTERVALS + ") x(s)")
        driver.execute("SET IntervalStyle = 'iso_8601'")
        wanted = [text for (text,) in driver.execute("SELECT i::text FROM spans").fetchall()]
        for style in ("postgres", "postgres_verbose", "sql_standard", "iso_8601"):
            driver.execute(f"SET IntervalStyle = '{style}'".encode())
            written = [text for (text,) in driver.execute("SELECT i::text FROM spans").fetchall()]
            assert [iso_interval(text) for text in written] == wanted
