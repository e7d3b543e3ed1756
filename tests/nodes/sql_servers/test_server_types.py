"""The types of columns, and what the servers say beside their rows."""

from __future__ import annotations

import pytest
from mariadb_server import MariadbServer
from postgres_server import Database
from served import Served
from test_server_round_trips import MARIADB

from rrext.errors import InvalidArguments, RrextError
from rrext.nodes.sql.backend import LONGEST_WARNING
from rrext.nodes.sql.driver_limits import MOST_WARNINGS
from rrext.nodes.sql.mysql import MysqlNode
from rrext.nodes.sql.postgres.node import PostgresNode
from rrext.testing import open_node

POSTGRES_TYPES = {
    "1": "integer",
    "2 ^ 40": "double precision",
    "'a'": "text",
    "'a'::varchar(40)": "character varying(40)",
    "1.5::numeric(10,2)": "numeric(10,2)",
    "1.5": "numeric",
    "now()": "timestamp with time zone",
    "now()::timestamp(3)": "timestamp(3) without time zone",
    "'{}'::int[]": "integer[]",
    "'{}'::jsonb[]": "jsonb[]",
    "'glad'::mood": "mood",
    "'{}'::mood[]": "mood[]",
    "'x'::far.mood": "far.mood",
    "1::positive": "integer",
    "t": "t",
    "NULL": "text",
    "B'101'": "bit",
    "'1 day'::interval": "interval",
    "count(*) over ()": "bigint",
}


def ignore(chunk: object) -> None:
    return


async def test_postgresql_names_the_type_of_every_column(postgres_database: Database):
    postgres_database.run(
        "CREATE TYPE mood AS ENUM ('glad')", "CREATE SCHEMA far", "CREATE TYPE far.mood AS ENUM ('x')",
        "CREATE DOMAIN positive AS int", "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)",
    )  # fmt: skip
    sql = f"SELECT {', '.join(POSTGRES_TYPES)} FROM t"
    async with open_node(PostgresNode, {**postgres_database.settings, "allow_execute": True}) as client:
        for tool in ("query", "query_stream", "execute"):
            answer = await client.tool(tool=tool, input={"sql": sql, "row_mode": "array"}, on_chunk=ignore)
            assert dict(zip(POSTGRES_TYPES, answer["types"], strict=True)) == POSTGRES_TYPES


async def test_types_are_known_of_a_result_that_is_cut_short(postgres_database: Database):
    postgres_database.run("CREATE TYPE mood AS ENUM ('glad')")
    sql = "SELECT 'glad'::mood AS m FROM generate_series(1, 1000000)"
    async with open_node(PostgresNode, postgres_database.settings) as client:
        answer = await client.tool(tool="query", input={"sql": sql, "limit": 1})
        assert (answer["types"], answer["truncated"]) == (["mood"], True)
        assert (await client.tool(tool="query", input={"sql": "SELECT 1 AS a"}))["rows"] == [{"a": 1}]


async def test_what_waits_to_be_read_is_counted_once(postgres_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rrext.nodes.sql.postgres.types.LARGEST_CHUNK", 12 << 20)
    postgres_database.run(
        "CREATE FUNCTION loud(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN "
        "FOR i IN 1..n LOOP RAISE NOTICE '%', repeat('x', 5000); END LOOP; RETURN 1; END $$"
    )
    config = {**postgres_database.settings, "allowed_functions": ["loud"]}
    async with open_node(PostgresNode, config) as client:
        answer = await client.tool(tool="query", input={"sql": "SELECT loud(2000)"})
        assert answer["rows"] == [{"loud": 1}]


async def test_what_postgresql_says_beside_its_rows_is_in_the_answer_and_in_no_other(postgres_database: Database):
    postgres_database.run(
        "CREATE FUNCTION warned() RETURNS int LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE WARNING 'old data' USING DETAIL = 'of 1999', HINT = 'Refresh.'; RETURN 1; END $$",
        "CREATE FUNCTION chatty(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN "
        "FOR i IN 1..n LOOP RAISE NOTICE '%', repeat('x', 5000); END LOOP; RETURN 1; END $$",
    )
    config = {**postgres_database.settings, "allow_execute": True, "allowed_functions": ["warned", "chatty"], "pool_size": 1}
    async with open_node(PostgresNode, config) as client:
        for tool in ("query", "query_stream", "execute"):
            answer = await client.tool(tool=tool, input={"sql": "SELECT warned()"}, on_chunk=ignore)
            assert answer["warnings"] == ["WARNING: old data of 1999 Refresh."]
            assert "warnings" not in await client.tool(tool=tool, input={"sql": "SELECT 1"})
        answer = await client.tool(tool="execute", input={"sql": "DROP TABLE IF EXISTS nothing"})
        assert answer["warnings"] == ['NOTICE: table "nothing" does not exist, skipping']
        answer = await client.tool(tool="query", input={"sql": "SELECT chatty(1000)"})
        assert len(answer["warnings"]) == MOST_WARNINGS + 1
        assert answer["warnings"][-1] == "and 900 more"
        assert len(answer["warnings"][0]) < LONGEST_WARNING + 10


async def test_a_parameter_is_what_the_same_literal_is(postgres_database: Database):
    cases = [
        ("SELECT $1 AS a", [5], 5, "integer"),
        ("SELECT $1 AS a", [2**40], 2**40, "bigint"),
        ("SELECT $1 AS a", [2**70], "1180591620717411303424", "numeric"),
        ("SELECT $1 AS a", [0.5], "0.5", "numeric"),
        ("SELECT $1 AS a", [True], True, "boolean"),
        ("SELECT $1 AS a", [[1, 2]], [1, 2], "integer[]"),
        ("SELECT $1 AS a", [[1, 2.5]], ["1", "2.5"], "numeric[]"),
        ("SELECT $1 * $2 AS a", [30000, 2], 60000, "integer"),
        ("SELECT $1 + 1 AS a", [2**40], 2**40 + 1, "bigint"),
        ("SELECT n AS a FROM (VALUES (7)) s (n) WHERE n = ANY($1)", [[7, 2**40]], 7, "integer"),
        ("SELECT count(*) AS a FROM unnest($1)", [[1, 2, None]], 3, "bigint"),
        ("SELECT f AS a FROM (VALUES (1.1::real)) s (f) WHERE f = $1", [1.1], 1.1, "real"),
        ("SELECT jsonb_array_length($1) AS a", [[1, {}]], 2, "integer"),
        ("SELECT '{\"a\": [1]}'::jsonb @> $1 AS a", [{"a": []}], True, "boolean"),
        ("SELECT '{\"a\": 7}'::jsonb -> $1 AS a", ["a"], 7, "jsonb"),
        ("SELECT octet_length($1::bytea) AS a", [{"base64": "AAEC"}], 3, "integer"),
        ("SELECT $1::jsonb AS a", [{"base64": "AAEC"}], {"base64": "AAEC"}, "jsonb"),
        ("SELECT $1::jsonb AS a", ['{"b": 1}'], {"b": 1}, "jsonb"),
        ("SELECT 5 / $1 AS a", [2.0], "2.5000000000000000", "numeric"),
    ]
    async with open_node(PostgresNode, postgres_database.settings) as client:
        for sql, params, value, kind in cases:
            answer = await client.tool(tool="query", input={"sql": sql, "params": params})
            assert (answer["rows"], answer["types"]) == ([{"a": value}], [kind]), sql


async def test_a_parameter_that_cannot_be_is_told_where(postgres_database: Database):
    deep: list[object] = []
    for _ in range(200):
        deep = [deep]
    cases: list[tuple[str, object, str]] = [
        ("SELECT $1::bytea", {"base64": "no"}, "/input/params/0/base64"),
        ("SELECT $1::text", "a\0b", "/input/params/0"),
        ("SELECT $1::text[]", ["a", "\0"], "/input/params/0/1"),
    ]
    async with open_node(PostgresNode, postgres_database.settings) as client:
        for sql, value, path in cases:
            with pytest.raises(InvalidArguments) as refused:
                await client.tool(tool="query", input={"sql": sql, "params": [value]})
            assert refused.value.data["errors"][0]["path"] == path
        with pytest.raises(RrextError) as refused:
            await client.tool(tool="query", input={"sql": "SELECT $1::int[]", "params": [deep]})
        assert refused.value.code in ("sql_failed", "invalid_arguments")


async def test_a_table_that_is_made_anew_takes_its_new_types(served: Served):
    insert = "INSERT INTO t VALUES ($1)"
    async with served.open() as client:
        for kind, value in (("json", {"a": 1}), ("varchar(20)", "x"), ("int", 7)):
            await client.tool(tool="execute", input={"sql": f"CREATE TABLE t (v {kind})"})
            await client.tool(tool="execute", input={"sql": insert, "params": [value]})
            await client.tool(tool="execute", input={"sql": "DROP TABLE t"})
        if served.node is not MysqlNode:
            for kind, value, back in (("jsonb", [], []), ("int[]", [], []), ("jsonb", [1], [1]), ("int[]", [1], [1])):
                await client.tool(tool="execute", input={"sql": f"CREATE TABLE t (v {kind})"})
                await client.tool(tool="execute", input={"sql": insert, "params": [value]})
                assert (await client.tool(tool="query", input={"sql": "SELECT v FROM t"}))["rows"] == [{"v": back}]
                await client.tool(tool="execute", input={"sql": "DROP TABLE t"})


@pytest.mark.system
async def test_mariadb_names_types_as_show_columns_does(mariadb_server: MariadbServer):
    mariadb_server.start()
    database = mariadb_server.create_database("types")
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(MARIADB))
    database.run(f"CREATE TABLE kinds ({columns}) CHARACTER SET utf8mb4", "CREATE VIEW seen AS SELECT * FROM kinds")
    shown = [row[1] for row in database.run("SHOW COLUMNS FROM kinds")]
    expressions = {
        "1 + 1": "int", "count(*)": "bigint", "1.50 * 2": "decimal(4,2)", "1e0": "double", "'abc'": "varchar(3)", "NULL": None,
        "x'ff'": "varbinary(1)", "NOW()": "datetime", "CURDATE()": "date", "CAST(1 AS UNSIGNED)": "int unsigned",
        "CAST('a' AS CHAR(7))": "varchar(7)", "NOW(3)": "datetime(3)", "LENGTH('a')": "int",
        "ST_GeomFromText('POINT(1 1)')": "geometry",
    }  # fmt: skip
    async with open_node(MysqlNode, {**database.settings, "allow_execute": True}) as client:
        for tool in ("query", "query_stream", "execute"):
            for table in ("kinds", "seen"):
                answer = await client.tool(tool=tool, input={"sql": f"SELECT * FROM {table}"}, on_chunk=ignore)
                assert answer["types"] == shown
        answer = await client.tool(tool="query", input={"sql": f"SELECT {', '.join(expressions)}"})
        assert dict(zip(expressions, answer["types"], strict=True)) == expressions
        await client.tool(tool="execute", input={"sql": "ALTER TABLE kinds MODIFY c0 enum('x', 'y')"})
        answer = await client.tool(tool="query", input={"sql": "SELECT c0 FROM kinds"})
        assert answer["types"] == ["enum('x','y')"]
        answer = await client.tool(tool="query", input={"sql": "SELECT seq FROM seq_1_to_1000000", "limit": 1})
        assert (answer["types"], answer["truncated"]) == (["bigint unsigned"], True)


@pytest.mark.system
async def test_what_mariadb_says_beside_its_rows_is_in_the_answer_and_in_no_other(mariadb_server: MariadbServer):
    mariadb_server.start()
    database = mariadb_server.create_database("types")
    async with open_node(MysqlNode, {**database.settings, "allow_execute": True, "pool_size": 1}) as client:
        for tool in ("query", "query_stream", "execute"):
            sql = "SELECT CAST('12x' AS INT) AS a, 1 / 0 AS b"
            answer = await client.tool(tool=tool, input={"sql": sql}, on_chunk=ignore)
            assert answer["warnings"] == [
                "Warning 1292: Truncated incorrect INTEGER value: '12x'",
                "Warning 1365: Division by 0",
            ]
            assert "warnings" not in await client.tool(tool=tool, input={"sql": "SELECT 1"}, on_chunk=ignore)
        answer = await client.tool(tool="execute", input={"sql": "DROP TABLE IF EXISTS nothing"})
        assert answer["warnings"] == ["Note 1051: Unknown table 'types.nothing'"]
        answer = await client.tool(tool="query", input={"sql": "SELECT 1 / 0 FROM seq_1_to_1000"})
        assert answer["warnings"][-1] == "and 936 more"  # MariaDB keeps 64
