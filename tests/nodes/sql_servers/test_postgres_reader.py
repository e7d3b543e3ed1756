"""Functions that a reading statement reaches without naming them have no more rights on PostgreSQL than to read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from postgres_server import Database, PostgresServer

from rrext.errors import RrextError, ToolError
from rrext.nodes.sql.postgres.node import PostgresNode
from rrext.testing import open_node

DEEDS = [
    "COPY (SELECT 1) TO '{file}'",
    "COPY (SELECT 1) TO PROGRAM 'cat > {file}'",
    "SELECT pg_read_file('PG_VERSION')",
    "SELECT pg_ls_dir('.')",
    "SELECT lo_export(7, '{file}')",
    "SELECT lo_import('/etc/passwd')",
    "ALTER SYSTEM SET work_mem = '99MB'",
    "SELECT pg_reload_conf()",
    "DELETE FROM kept",
    "RESET ROLE; COPY (SELECT 1) TO '{file}'",
    "SET ROLE NONE; COPY (SELECT 1) TO '{file}'",
    "SET ROLE postgres; COPY (SELECT 1) TO '{file}'",
]
"""What the user may do, a superuser, and what no reading statement may have done."""

PREPARED = [
    "CREATE TABLE kept (a int PRIMARY KEY, b text)",
    "INSERT INTO kept VALUES (1, 'one'), (2, 'two')",
    "CREATE FUNCTION obey(t text) RETURNS bool LANGUAGE plpgsql AS 'BEGIN EXECUTE t; RETURN true; END'",
    "CREATE FUNCTION obeys(a kept) RETURNS bool LANGUAGE sql AS 'SELECT obey(a.b)'",
    "CREATE FUNCTION obey_too(a text, b text) RETURNS bool LANGUAGE sql AS 'SELECT obey(b)'",
    "CREATE OPERATOR ### (LEFTARG = text, RIGHTARG = text, FUNCTION = obey_too)",
    "CREATE DOMAIN deed AS text CHECK (obey(value))",
]
REACHES = [
    "SELECT 'a' ### $1 AS a",
    "SELECT 'a' OPERATOR(public.###) $1 AS a",
    "SELECT $1::text::deed AS a",
    "SELECT CAST($1::text AS deed) AS a",
    "SELECT (v.k).obeys AS a FROM (SELECT ROW(1, $1)::kept AS k) v",
    "SELECT current_user, 'a' ### $1 AS a",
    "SELECT 'a' ### $1 AS a FROM pg_stat_activity",
    "SELECT current_user, 'a' OPERATOR(public.###) $1 AS a",
    "SELECT $1::text::public.deed AS a, current_user",
]


@pytest.fixture(params=["postgres_server", pytest.param("debian_postgres", marks=pytest.mark.system)])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    server: PostgresServer = request.getfixturevalue(request.param)
    yield server.create_database("reader")
    server.database().run("DROP DATABASE reader WITH (FORCE)")


async def asked(database: Database, sql: str, params: list[Any] | None = None, **settings: Any) -> Any:
    async with open_node(PostgresNode, {**database.settings, **settings}) as client:
        return await client.tool(tool="query", input={"sql": sql, "params": params, "row_mode": "array"})


@pytest.mark.promise("data:functions:only-read")
@pytest.mark.parametrize("reach", REACHES)
async def test_a_function_that_is_reached_can_only_read(database: Database, reach: str):
    database.run(*PREPARED)
    file = database.socket_folder / "made"
    async with open_node(PostgresNode, database.settings) as client:
        for deed in DEEDS:
            with pytest.raises(RrextError):
                await client.tool(tool="query", input={"sql": reach, "params": [deed.format(file=file)]})
            assert "made" not in os.listdir(database.socket_folder), deed
        assert database.run("SELECT count(*) FROM kept") == [(2,)]
        if "current_user" not in reach and "pg_stat" not in reach:
            input = {"sql": reach, "params": ["SELECT count(*) FROM kept"]}
            assert (await client.tool(tool="query", input=input))["row_count"] == 1


async def test_a_member_of_the_reading_role_becomes_it(database: Database):
    database.run(*PREPARED, "CREATE ROLE worker LOGIN PASSWORD 'w' CREATEROLE", "GRANT pg_read_all_data TO worker")
    try:
        database.run("GRANT pg_write_all_data, pg_execute_server_program TO worker")
        settings = {**database.settings, "user": "worker", "password": "w"}
        file = database.socket_folder / "made"
        async with open_node(PostgresNode, settings) as client:
            deed = f"COPY (SELECT 1) TO PROGRAM 'cat > {file}'"
            with pytest.raises(ToolError, match="superuser|permission denied"):
                await client.tool(tool="query", input={"sql": "SELECT 'a' ### $1", "params": [deed]})
            assert (await client.tool(tool="query", input={"sql": "SELECT count(*) AS n FROM kept"}))["rows"] == [{"n": 2}]
            assert (await client.tool(tool="query", input={"sql": "SELECT current_user AS u"}))["rows"] == [{"u": "worker"}]
        assert "made" not in os.listdir(database.socket_folder)
    finally:
        database.run("DROP OWNED BY worker", "DROP ROLE worker")


async def test_execute_keeps_its_rights(database: Database):
    database.run(*PREPARED)
    async with open_node(PostgresNode, {**database.settings, "allow_execute": True, "pool_size": 1}) as client:
        await client.tool(tool="query", input={"sql": "SELECT a FROM kept"})
        sql = {
            "sql": "SELECT current_user::text AS a, session_user::text AS b, 'a' ### $1 AS c",
            "params": ["DELETE FROM kept"],
        }
        answer = await client.tool(tool="execute", input=sql)
        assert answer["rows"] == [{"a": "postgres", "b": "postgres", "c": True}]
        assert (await client.tool(tool="query", input={"sql": "SELECT count(*) AS n FROM kept"}))["rows"] == [{"n": 0}]


async def test_what_the_user_would_see_is_answered_and_never_something_else(database: Database):
    database.run(*PREPARED, "CREATE TABLE other (a int REFERENCES kept)", "CREATE SCHEMA postgres")
    database.run("CREATE TABLE postgres.own (x int)", "INSERT INTO postgres.own VALUES (7)")
    alike = [
        "SELECT current_user",
        "SELECT current_user, session_user, current_schema(), current_database()",
        "SELECT current_user, current_schema() || ''",
        "SELECT CURRENT_ROLE AS who",
        "SELECT table_name, constraint_type FROM information_schema.table_constraints WHERE constraint_type = 'FOREIGN KEY'",
        "SELECT count(*) FROM information_schema.columns WHERE table_name = 'kept'",
        "SELECT query FROM pg_stat_activity WHERE usename = 'nobody'",
        "SELECT count(*) > 300 FROM pg_settings",
        "SELECT has_table_privilege('pg_class', 'INSERT')",
        "SELECT x FROM own",
        "SHOW data_directory",
        "SHOW search_path",
        "SELECT b AS user FROM kept ORDER BY a",
        "SELECT 'current_user' AS a, b FROM kept ORDER BY a",
        "SELECT b -- of current_user\nFROM kept ORDER BY a",
        'SELECT k.a AS "user" FROM kept k ORDER BY 1',
        "SELECT relname FROM pg_class WHERE relname = 'kept'",
        "SELECT count(*) FROM pg_tables",
    ]
    both = [
        "SELECT current_user, b FROM kept",
        "SELECT b FROM public.kept WHERE b = current_user",
        "SELECT * FROM information_schema.tables t JOIN public.kept k ON true",
    ]
    async with open_node(PostgresNode, database.settings) as client:
        for sql in alike:
            rows = (await client.tool(tool="query", input={"sql": sql, "row_mode": "array"}))["rows"]
            assert rows == [list(row) for row in database.run(sql)], sql
        for sql in both:
            with pytest.raises(ToolError, match="asks who runs it") as refused:
                await client.tool(tool="query", input={"sql": sql})
            assert refused.value.code == "not_read_only"
        schema = await client.tool(tool="get_schema")
        assert {"kept", "other", "own"} <= schema["tables"].keys()


SEEN = [
    "SELECT view_definition FROM information_schema.views WHERE table_name = 'shown'",
    "SELECT column_default FROM information_schema.columns WHERE table_name = 'counted'",
    "SELECT check_clause FROM information_schema.check_constraints WHERE constraint_name LIKE 'counted%'",
    "SELECT name, setting FROM pg_settings WHERE name IN ('search_path', 'is_superuser')",
    "SELECT current_setting('is_superuser'), current_setting('role'), current_setting('session_authorization')",
    "SELECT current_setting('row_security'), current_setting('search_path')",
    "SELECT current_setting('data_directory')",
    "SELECT has_table_privilege('kept', 'INSERT'), current_schema(), to_regclass('kept')::text",
    "SELECT count(*) > 0 FROM pg_config",
    "SELECT count(*) > 0 FROM pg_hba_file_rules",
    "SELECT count(*) > 0 FROM pg_backend_memory_contexts",
    "SELECT count(*) > 0 FROM pg_shmem_allocations",
    "SELECT count(*) FROM pg_file_settings WHERE applied AND name = 'nothing'",
    "SELECT pg_tablespace_size('pg_global') > 0",
    "SELECT (information_schema._pg_expandarray(i.indkey)).n FROM pg_index i WHERE i.indexrelid = 'kept_pkey'::regclass",
    "SELECT obey, current_setting('app.tenant', true) FROM (SELECT a AS obey FROM kept) k ORDER BY 1",
]
"""What the server shows each role, or each search path, in another way, or to some roles only."""


@pytest.mark.promise("data:session:as-it-is")
async def test_what_the_server_shows_the_user_is_what_the_driver_alone_is_shown(database: Database):
    database.run(*PREPARED, "CREATE TABLE counted (n serial CHECK (obey(n::text)))", "CREATE SCHEMA postgres")
    database.run("CREATE VIEW shown AS SELECT k.a FROM kept k")
    async with open_node(PostgresNode, database.settings) as client:
        for sql in SEEN:
            answer = await client.tool(tool="query", input={"sql": sql, "row_mode": "array"})
            assert answer["rows"] == [list(row) for row in database.run(sql)], sql


PROGRAM = "COPY (SELECT 1) TO PROGRAM 'cat > made'"
SHADOWS = [
    "SELECT current_user, abs('{deed}')",
    "SELECT current_user, public.abs('{deed}')",
    "SELECT 1 FROM information_schema.tables WHERE abs('{deed}')",
    "SELECT abs('{deed}'), current_setting('data_directory')",
    "SELECT abs(x) FROM (VALUES ('{deed}')) v(x), pg_config",
    "SELECT current_setting('is_superuser') ### '{deed}'",
    "SELECT current_user::text LIKE '{deed}'",
    "SELECT pg_input_is_valid('{deed}', 'deed'), current_user",
    "SELECT 'a' OPERATOR(U&\"\\0070ublic\".###) '{deed}', current_user",
    "SELECT '{deed}'::U&\"\\0070ublic\".deed, current_user",
    "SELECT int4mul('not in the list')",
    "SELECT count(*) FROM keptt",
]
SAME = """CREATE FUNCTION evil.{0}(a {1}, b {2}) RETURNS bool LANGUAGE plpgsql
AS $$BEGIN PERFORM public.obey('COPY (SELECT 1) TO PROGRAM ''cat > made'''); RETURN true; END$$"""


@pytest.mark.promise("data:functions:only-read")
@pytest.mark.parametrize("path", ["public, evil", "evil, public, pg_catalog"])
async def test_what_a_user_named_as_the_server_names_its_own_has_no_more_rights_either(database: Database, path: str):
    database.run(*PREPARED, "CREATE FUNCTION abs(t text) RETURNS bool LANGUAGE sql AS 'SELECT obey(t)'", "CREATE SCHEMA evil")
    kinds = (*("text text", "name name", "name text", "oid integer", '"char" "char"', "smallint smallint", "smallint integer"),)
    for number, (left, right) in enumerate(kind.split(" ") for kind in kinds):
        database.run(SAME.format(f"same_{number}", left, right))
        for sign in ("=", ">=", "<>", "~~", ">", "!~"):
            database.run(f"CREATE OPERATOR evil.{sign} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = evil.same_{number})")
    database.run(f"ALTER DATABASE {database.name} SET search_path = {path}")
    data = database.socket_folder / "data"
    async with open_node(PostgresNode, database.settings) as client:
        for sql in (shadow.format(deed=PROGRAM.replace("'", "''")) for shadow in SHADOWS):
            with suppress(RrextError):
                await client.tool(tool="query", input={"sql": sql})
            assert "made" not in os.listdir(data), sql
        schema = await client.tool(tool="refresh_schema")
        assert schema["tables"]["kept"]["primary_key"] == ["a"]
    assert "made" not in os.listdir(data)


@pytest.mark.parametrize(
    "made",
    [
        ["ALTER TABLE kept ENABLE ROW LEVEL SECURITY"],
        ["CREATE VIEW mine AS SELECT * FROM kept WHERE current_user = 'postgres'"],
        ["CREATE VIEW mine AS SELECT * FROM kept WHERE pg_has_role('pg_monitor', 'USAGE')"],
        ["CREATE VIEW mine AS SELECT k.* FROM kept k, pg_stat_activity s WHERE s.pid = pg_backend_pid() AND s.query <> ''"],
        [
            "CREATE FUNCTION me() RETURNS bool LANGUAGE sql AS $$SELECT current_user = 'postgres'$$",
            "CREATE VIEW mine AS SELECT * FROM kept WHERE me()",
        ],
        [
            "CREATE FOREIGN DATA WRAPPER none",
            "CREATE SERVER elsewhere FOREIGN DATA WRAPPER none",
            "CREATE FOREIGN TABLE far (a text) SERVER elsewhere",
        ],
    ],
)
async def test_where_a_role_would_change_the_rows_the_user_stays_who_it_is(database: Database, made: list[str]):
    database.run(*PREPARED, *made)
    table = "mine" if "VIEW mine" in made[-1] else "kept"
    assert (await asked(database, f"SELECT count(*) FROM {table}"))["rows"] == [[2]]
    assert (await asked(database, "SELECT current_user, count(*) FROM kept"))["rows"] == [["postgres", 2]]


async def test_row_level_security_that_comes_later_is_refused_and_hides_nothing(database: Database):
    database.run(*PREPARED)
    async with open_node(PostgresNode, database.settings) as client:
        assert (await client.tool(tool="query", input={"sql": "SELECT count(*) AS n FROM kept"}))["rows"] == [{"n": 2}]
        database.run("ALTER TABLE kept ENABLE ROW LEVEL SECURITY")
        with pytest.raises(ToolError, match="row-level security"):
            await client.tool(tool="query", input={"sql": "SELECT count(*) AS n FROM kept"})


async def test_a_database_without_functions_of_its_own_has_nothing_to_guard(database: Database):
    database.run("CREATE TABLE kept (a int)")
    assert (await asked(database, "SELECT current_user, count(*) FROM kept"))["rows"] == [["postgres", 0]]
