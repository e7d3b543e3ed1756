"""How the values of PostgreSQL and MariaDB become JSON, type by type, in `query` and in `execute`."""

from __future__ import annotations

from typing import Any

import pytest
from mariadb_server import MariadbServer
from postgres_server import Database

from rrext.nodes.sql.mysql import MysqlNode
from rrext.nodes.sql.postgres.node import PostgresNode
from rrext.testing import open_node

POSTGRES: list[tuple[str, Any]] = [
    ("NULL::int", None),
    ("true", True),
    ("9223372036854775807", 2**63 - 1),
    ("(-32768)::smallint", -32768),
    ("1.5::real", 1.5),
    ("'NaN'::float8", "NaN"),
    ("'-Infinity'::float8", "-Infinity"),
    ("12.50::numeric", "12.50"),
    ("12.50::numeric(15,2)", 12.5),
    ("12.50::numeric(16,2)", "12.50"),
    ("'NaN'::numeric(5,2)", "NaN"),
    ("ARRAY[1.5, NULL]::numeric(3,1)[]", [1.5, None]),
    ("ARRAY[1.5, NULL]", ["1.5", None]),
    ("0.1234567890123456789::numeric", "0.1234567890123456789"),
    ("'NaN'::numeric", "NaN"),
    ("123456789012345678901234567890::numeric", "123456789012345678901234567890"),
    ("'12.5'::money", "$12.50"),
    ("'é😀'::text", "é😀"),
    ("'ab'::char(4)", "ab  "),
    ("'a'::\"char\"", "a"),
    ("''::text", ""),
    ("DATE '2024-02-29'", "2024-02-29"),
    ("'infinity'::date", "infinity"),
    ("'0044-03-15 BC'::date", "-0043-03-15"),
    ("'0001-12-31 BC'::date", "0000-12-31"),
    ("'10000-01-01'::date", "+10000-01-01"),
    ("TIMESTAMP '2024-01-01 10:00:00.000001'", "2024-01-01T10:00:00.000001"),
    ("TIMESTAMPTZ '2024-01-01 10:00:00+02'", "2024-01-01T08:00:00+00:00"),
    ("'-infinity'::timestamptz", "-infinity"),
    ("'294276-12-31 23:59:59'::timestamp", "+294276-12-31T23:59:59"),
    ("'0044-03-15 10:00:00.5+00 BC'::timestamptz", "-0043-03-15T10:00:00.500000+00:00"),
    ("TIME '10:00'", "10:00:00"),
    ("TIME '24:00'", "24:00:00"),
    ("'10:00+02'::timetz", "10:00:00+02"),
    ("INTERVAL '1 year 2 months 3 days 04:05:06.7'", "P1Y2M3DT4H5M6.7S"),
    ("INTERVAL '-1 day'", "P-1D"),
    ("'abc'::bytea", {"base64": "YWJj"}),
    ("'\\xff00'::bytea", {"base64": "/wA="}),
    ("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("'192.168.0.1/24'::inet", "192.168.0.1/24"),
    ("'::1'::inet", "::1"),
    ("'10.0.0.0/8'::cidr", "10.0.0.0/8"),
    ("'08:00:2b:01:02:03'::macaddr", "08:00:2b:01:02:03"),
    ("'[1,5)'::int4range", "[1,5)"),
    ("'empty'::numrange", "empty"),
    ("'[2024-01-01,infinity)'::daterange", "[2024-01-01,infinity)"),
    ("'{[1,3),[5,7)}'::int4multirange", "{[1,3),[5,7)}"),
    ("ARRAY[1, NULL, 3]", [1, None, 3]),
    ("ARRAY[[1, 2], [3, 4]]", [[1, 2], [3, 4]]),
    ("'{}'::int[]", []),
    ("ARRAY['infinity'::date, '2024-01-01', '0044-03-15 BC']", ["infinity", "2024-01-01", "-0043-03-15"]),
    ("ARRAY['1 month'::interval]", ["P1M"]),
    ("ARRAY['a,b', '\"']", ["a,b", '"']),
    ('\'{"a": [1, 2.50, null, "é"], "b": true}\'::jsonb', {"a": [1, 2.5, None, "é"], "b": True}),
    ("'{\"n\": 12345678901234567890.123456789}'::json", '{"n": 12345678901234567890.123456789}'),
    ('\'{"n": 1, "n": 2}\'::json', '{"n": 1, "n": 2}'),
    ("'\"7\"'::jsonb", '"7"'),
    ("'null'::jsonb", "null"),
    ("'1e400'::jsonb", "1" + "0" * 400),
    ("'[-1e400]'::jsonb", f"[-1{'0' * 400}]"),
    ("'1e300'::jsonb", 10**300),
    ("ARRAY['[1]', '{\"a\": 1}', 'null', NULL]::jsonb[]", ["[1]", {"a": 1}, "null", None]),
    ("'[0:1]={1,2}'::int[]", "[0:1]={1,2}"),
    ("'a\\134b'::bytea", {"base64": "YVxi"}),
    ("'7'::jsonb", 7),
    ("B'101'", "101"),
    ("'(1,2)'::point", "(1,2)"),
    ("ROW(1, 'a b')", '(1,"a b")'),
    ("'a & b'::tsquery", "'a' & 'b'"),
    ("'pg_class'::regclass", "pg_class"),
    ("'<a/>'::text::name", "<a/>"),
]

MARIADB: list[tuple[str, Any]] = [
    ("NULL", None),
    ("TRUE", 1),
    ("CAST(18446744073709551615 AS UNSIGNED)", 2**64 - 1),
    ("-9223372036854775808", -(2**63)),
    ("12.50", 12.5),
    ("0.12345678901234567890123456789", "0.12345678901234567890123456789"),
    ("1.5e0", 1.5),
    ("'é😀'", "é😀"),
    ("x'ff00'", {"base64": "/wA="}),
    ("CAST('abc' AS BINARY)", {"base64": "YWJj"}),
    ("CAST(12.50 AS DECIMAL(16,2))", "12.50"),
    ("CAST(-1.5 AS DECIMAL(15,2))", -1.5),
    ("SUM(1.50)", "1.50"),
    ("DATE '2024-02-29'", "2024-02-29"),
    ("TIMESTAMP '2024-01-01 10:00:00.000001'", "2024-01-01T10:00:00.000001"),
    ("TIME '-838:59:59'", "-838:59:59"),
    ("CAST('10:00:00.5' AS TIME(1))", "10:00:00.5"),
    ("JSON_OBJECT('a', 1.50)", '{"a": 1.50}'),
    ("big", 2**64 - 1),
    ("flags", 5),
    ("year", 2024),
    ("day", "0000-00-00"),
    ("moment", "0000-00-00 00:00:00"),
    ("tags", "a,c"),
    ("mood", "sad"),
    ("price", "99999999999999999999.99"),
    ("raw", {"base64": "gA=="}),
    ("note", "text"),
    ("doc", '{"a": [1]}'),
    ("tiny", 1),
    ("stamp", "2024-01-01T00:00:00"),
]
MARIADB_TABLE = """CREATE TABLE kinds (big bigint unsigned, flags bit(10), year year, day date, moment datetime,
  tags set('a', 'b', 'c'), mood enum('glad', 'sad'), price decimal(22, 2), raw blob, note text, doc json, tiny tinyint(1),
  stamp timestamp)"""
MARIADB_ROW = """INSERT INTO kinds VALUES (18446744073709551615, 5, 2024, '0000-00-00', '0000-00-00', 'a,c', 'sad',
  99999999999999999999.99, x'80', 'text', '{"a": [1]}', true, '2024-01-01')"""


async def answers(node: Any, settings: dict[str, Any], expressions: list[str], source: str = "") -> list[list[Any]]:
    """What `query` and `execute` say of the same expressions, each in a row."""
    sql = f"SELECT {', '.join(expressions)} {source}"
    async with open_node(node, {**settings, "allow_execute": True}) as client:
        return [
            (await client.tool(tool=tool, input={"sql": sql, "row_mode": "array"}))["rows"][0] for tool in ("query", "execute")
        ]


@pytest.mark.parametrize("server", ["postgres_server", pytest.param("debian_postgres", marks=pytest.mark.system)])
async def test_every_type_of_postgresql_keeps_its_value(server: str, request: pytest.FixtureRequest):
    database: Database = request.getfixturevalue(server).database()
    expressions = [expression for expression, _ in POSTGRES]
    queried, executed = await answers(PostgresNode, database.settings, expressions)
    for (expression, expected), cell, other in zip(POSTGRES, queried, executed, strict=True):
        assert cell == expected, expression
        if not isinstance(expected, list) and not (isinstance(expected, dict) and "base64" not in expected):
            assert other == expected, expression


async def test_arrays_and_json_are_json_texts_in_execute(postgres_database: Database):
    expressions = ["ARRAY[1, NULL]", "'{\"a\": 1.50}'::jsonb", "'[]'::json"]
    _, executed = await answers(PostgresNode, postgres_database.settings, expressions)
    assert executed == ["[1,null]", '{"a":1.5}', "[]"]


@pytest.mark.system
async def test_every_type_of_mariadb_keeps_its_value(mariadb_server: MariadbServer):
    mariadb_server.start()
    database = mariadb_server.create_database("cells")
    database.run("SET sql_mode = ''", MARIADB_TABLE, MARIADB_ROW)
    expressions = [expression for expression, _ in MARIADB]
    for row in await answers(MysqlNode, database.settings, expressions, "FROM kinds"):
        for (expression, expected), cell in zip(MARIADB, row, strict=True):
            assert cell == expected, expression
