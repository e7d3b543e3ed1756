"""Functions of PostgreSQL that `query` calls: the server's own by its catalog, and none that has an effect."""

from __future__ import annotations

from typing import Any

import pytest
from postgres_server import Database

from rrext import Client
from rrext.errors import RrextError
from rrext.nodes.sql.postgres.node import PostgresNode
from rrext.testing import open_node

LOOKING = [
    ("int4mul(6, 7)", 42),
    ("inet('::1')", "::1"),
    ("hashint4(5) = hashint4(5)", True),
    ("interval_hash('24 hours') = interval_hash('1 day')", True),
    ("pg_catalog.numeric_add(1, 2)", "3"),
    ("textcat('a', 'b')", "ab"),
    ("float8pl(1, 2)", 3.0),
    ("bpchar('ab')", "ab"),
    ("(information_schema._pg_expandarray(ARRAY[3])).n", 1),
]

ACTING = [
    "pg_read_file('PG_VERSION')", "pg_ls_dir('.')", "pg_stat_file('PG_VERSION')", "lo_import('/etc/passwd')", "lo_create(0)",
    "loread(1,1)", "pg_sleep(0)", "pg_sleep_for('0')", "set_config('a.b','c',true)", "setseed(0)", "nextval('numbers')",
    "currval('numbers')", "lastval()", "pg_advisory_lock(1)", "pg_try_advisory_lock(1)", "pg_notify('a','b')",
    "pg_terminate_backend(1)", "pg_export_snapshot()", "txid_current()", "pg_current_xact_id()",
    "query_to_xml('SELECT',true,true,'')", "table_to_xml('kept',true,true,'')", "schema_to_xml('public',true,true,'')",
    "database_to_xml(true,true,'')", "cursor_to_xml('a',1,true,true,'')", "ts_stat('SELECT')", "ts_rewrite('a','SELECT')",
    "dblink('','')", "domain_in('1',1,1)", "array_in('{}',23,-1)", "record_in('()',16384,-1)", "int4in('1')",
    "fmgr_sql_validator(1)", "pg_config()", "pg_logical_emit_message(true,'a','b')", "pg_stat_reset()", "pg_reload_conf()",
    "pg_create_restore_point('a')",
]  # fmt: skip

MADE = [
    "CREATE TABLE kept (a int)",
    "CREATE SEQUENCE numbers",
    "CREATE FUNCTION marked() RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1'",
    "CREATE FUNCTION public.int8mul(text, text) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1'",  # beside the server's own
    "CREATE FUNCTION pg_catalog.hidden() RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1'",
    "ALTER FUNCTION pg_catalog.pg_read_file(text) IMMUTABLE",
    "ALTER FUNCTION pg_catalog.pg_sleep(float8) IMMUTABLE",
    "CREATE DOMAIN macaddr9 AS int",
]


async def code(client: Client, sql: str) -> str:
    try:
        await client.tool(tool="query", input={"sql": sql})
    except RrextError as error:
        return error.code
    return "answered"


@pytest.mark.promise("data:functions:by-the-catalog")
@pytest.mark.parametrize("server", ["postgres_server", pytest.param("debian_postgres", marks=pytest.mark.system)])
async def test_what_the_catalog_says_to_look_is_called_and_what_acts_is_not(server: str, request: pytest.FixtureRequest):
    database: Database = request.getfixturevalue(server).create_database("functions")
    database.run(*MADE)
    async with open_node(PostgresNode, database.settings) as client:
        sql = f"SELECT {', '.join(call for call, _ in LOOKING)}"
        answer: Any = await client.tool(tool="query", input={"sql": sql, "row_mode": "array"})
        assert answer["rows"] == [[value for _, value in LOOKING]]
        acting = [f"SELECT {call}" for call in ACTING]
        users = ["SELECT marked()", "SELECT int8mul('a', 'b')", "SELECT pg_catalog.hidden()", "SELECT macaddr9(1)"]
        assert {sql: await code(client, sql) for sql in acting + users} == dict.fromkeys(acting + users, "not_read_only")
        assert await code(client, "SELECT (x).txid_current FROM kept x") == "not_read_only"


async def test_a_server_is_asked_for_its_functions_once(postgres_database: Database):
    async with open_node(PostgresNode, {**postgres_database.settings, "pool_size": 1}) as client:
        assert await code(client, "SELECT int4mul(1, 2)") == "answered"
        postgres_database.run("CREATE FUNCTION later() RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1'")
        assert await code(client, "SELECT later()") == "not_read_only"
        assert await code(client, "SELECT int4pl(1, 2)") == "answered"


async def test_a_server_with_another_catalog_is_one_without_more_functions(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("rrext.nodes.sql.postgres.backend.FUNCTIONS", "SELECT name FROM pg_catalog.nothing")
    async with open_node(PostgresNode, postgres_database.settings) as client:
        assert await code(client, "SELECT int4mul(1, 2)") == "not_read_only"
        assert await code(client, "SELECT abs(-1)") == "answered"
