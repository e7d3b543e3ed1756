"""What `query` answers is written back with `execute`: the same value of the same type, for every type of the servers."""

from __future__ import annotations

import pytest
from mariadb_server import MariadbServer
from postgres_server import Database, PostgresServer

from rrext import Client
from rrext.nodes.sql.mysql import MysqlNode
from rrext.nodes.sql.postgres.node import PostgresNode
from rrext.testing import open_node

POSTGRES_PREPARED = [
    "CREATE TYPE mood AS ENUM ('glad', 'sad', 'a,b \"c\"')",
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE TYPE holder AS (p pair, docs jsonb[], raw bytea)",
    "CREATE DOMAIN positive AS int CHECK (value > 0)",
    "CREATE DOMAIN document AS jsonb",
    "CREATE DOMAIN documents AS jsonb[]",
    "CREATE DOMAIN raw AS bytea",
    "CREATE TYPE span AS RANGE (subtype = float8)",
]

POSTGRES: dict[str, list[str]] = {
    "boolean": ["true", "false", "NULL"],
    "smallint": ["-32768", "32767"],
    "integer": ["-2147483648", "0", "2147483647"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "oid": ["4294967295"],
    "real": ["1.1", "3.4e38", "1e-44", "'NaN'", "'-Infinity'", "16777217", "-0.0"],
    "double precision": ["0.1", "1.7976931348623157e308", "5e-324", "'-0'", "'NaN'", "'Infinity'", "1e22"],
    "numeric": [
        "12.50", "0.1234567890123456", "0.12345678901234567", "0.1234567890123456789", "1e400", "'NaN'", "'Infinity'",
        "123456789012345678901234567890", "-0.5", "1e-30", "100", "1e20",
    ],
    "numeric(10,2)": ["12.50", "99999999.99"],
    "money": ["12.5", "-1234567.89"],
    "text": ["''", "'a'", "'NULL'", "'\\x41'", "'{\"base64\": \"AA==\"}'", "'é😀'", "E'\\n\\t\"'", "'true'", "'5'", "'[1]'"],
    "varchar(4)": ["'ab'"],
    "char(4)": ["'ab'"],
    '"char"': ["'a'", "''"],
    "name": ["'pg_class'"],
    "bytea": ["''", "'abc'", "'\\x00ff'", "'\\x5c78'", "'a\\\\134b'", "'\\x00'", "'é'"],
    "date": ["'2024-02-29'", "'infinity'", "'-infinity'", "'0044-03-15 BC'", "'5874897-12-31'"],
    "time": ["'10:00:00.000001'", "'24:00'"],
    "timetz": ["'10:00+02'", "'23:59:59.999999-15:59'"],
    "timestamp": ["'2024-01-01 10:00:00.000001'", "'infinity'", "'294276-12-31 23:59:59'", "'0001-01-01 BC'"],
    "timestamptz": ["'2024-01-01 10:00+02'", "'-infinity'", "'4713-01-01 BC'", "'1883-11-18 12:03:57-04:56:02'"],
    "interval": [
        "'1 year 2 months 3 days 04:05:06.7'", "'-1 day'", "'1 day 02:03:04'", "'1 day ago'", "'-1 mon +1 day -00:00:00.1'",
        "'178000000 years'", "'0'",
    ],
    "interval day to second(2)": ["'1 02:03:04.56'"],
    "uuid": ["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"],
    "inet": ["'192.168.0.1/24'", "'::1'", "'10.0.0.1'"],
    "cidr": ["'10.0.0.0/8'", "'2001:db8::/32'"],
    "macaddr": ["'08:00:2b:01:02:03'"],
    "macaddr8": ["'08:00:2b:01:02:03:04:05'"],
    "bit(3)": ["B'101'"],
    "bit varying": ["B''", "B'10101'"],
    "json": [
        "'{\"a\": [1, 2.5, null]}'", "'[]'", "'[1,\"a\",null]'", "'null'", "'\"a\"'", "'\"7\"'", "'7'", "'true'", "'1.50'",
        "'{\"a\": 1, \"a\": 2}'", "'{\"n\": 12345678901234567890.123456789}'", "'\"\\ud800\"'", "'1e400'",
        "'{\"a\": \"\\u0000\"}'",
    ],
    "jsonb": [
        "'{}'", "'[]'", "'[[]]'", "'[1,\"a\",null]'", "'[1,2]'", "'[[1],[2]]'", "'null'", "'\"a\"'", "'\"7\"'", "'\"null\"'",
        "'7'", "'-0.5'", "'false'", "'{\"base64\": \"AA==\"}'", "'{\"a\": {\"b\": [\"é\", {\"c\": null}]}}'", "'1e30'",
        "'{\"n\": 0.12345678901234567890}'", "'\"\\\\x41\"'", "'123456789012345678901234567890'", "'[1.0]'",
        "('1' || repeat('0', 5000))::jsonb", "(repeat('[', 2000) || repeat(']', 2000))::jsonb",
    ],
    "jsonpath": ["'$.a[*] ? (@ > 1)'"],
    "xml": ["'<a b=\"c\">é</a>'"],
    "tsvector": ["'a:1A b:2'", "to_tsvector('english', 'the fat cats')"],
    "tsquery": ["'a & !b:*'"],
    "int4range": ["'[1,5)'", "'empty'", "'(,)'"],
    "int8range": ["'[1,)'"],
    "numrange": ["'[1.5,2.50]'"],
    "daterange": ["'[2024-01-01,infinity)'"],
    "tsrange": ["'[2024-01-01 10:00,2024-01-02)'"],
    "tstzrange": ["'[2024-01-01 10:00+02,)'"],
    "int4multirange": ["'{[1,3),[5,7)}'", "'{}'"],
    "tstzmultirange": ["'{[2024-01-01 10:00+02,2024-01-02 00:00+00)}'"],
    "point": ["'(1.5,-2)'", "'(NaN,Infinity)'"],
    "line": ["'{1,2,3}'"],
    "lseg": ["'[(0,0),(1,1)]'"],
    "box": ["'(2,2),(1,1)'"],
    "path": ["'[(0,0),(1,1)]'", "'((0,0),(1,1))'"],
    "polygon": ["'((0,0),(1,1),(1,0))'"],
    "circle": ["'<(1,2),3>'"],
    "pg_lsn": ["'16/B374D848'"],
    "regclass": ["'pg_class'"],
    "regtype": ["'integer'"],
    "xid8": ["'5'"],
    "int2vector": ["'1 2'"],
    "boolean[]": ["'{t,f,NULL}'"],
    "integer[]": ["'{}'", "'{1,NULL,3}'", "'{{1,2},{3,4}}'", "'{{{1}},{{2}}}'", "'[0:1]={1,2}'", "'{2147483647}'", "'{NULL}'"],
    "bigint[]": ["'{1,9223372036854775807}'"],
    "numeric[]": ["'{1,2.5,0.1234567890123456,0.1234567890123456789,NaN}'", "'{1}'"],
    "real[]": ["'{1.1,NaN}'"],
    "double precision[]": ["'{0.1,1e300,-Infinity}'"],
    "text[]": [
        "ARRAY['a,b', '\"', '\\', '', 'NULL', 'null', NULL, ' ', '{}', E'\\n']", "'{}'", "ARRAY['1']", "ARRAY[['a'],['b']]",
        "ARRAY['true']", "ARRAY['{\"base64\": \"AA==\"}']",
    ],
    "varchar(4)[]": ["ARRAY['a', NULL]"],
    "bytea[]": ["ARRAY['\\x00ff', 'abc', '\\x5c', NULL]::bytea[]"],
    "date[]": ["'{2024-01-01,infinity}'"],
    "timestamptz[]": ["ARRAY['2024-01-01 10:00+02', '-infinity']::timestamptz[]"],
    "interval[]": ["ARRAY['1 month', '-1 day']::interval[]"],
    "uuid[]": ["ARRAY['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11']::uuid[]"],
    "jsonb[]": [
        "ARRAY['[1,2]', '[3]']::jsonb[]", "ARRAY[ARRAY['1', '2'], ARRAY['3', 'null']]::jsonb[]", "'{}'",
        "ARRAY['{\"a\": [1]}', '\"x\"', 'null', NULL, '7', 'true', '[]', '{\"base64\": \"AA==\"}']::jsonb[]",
    ],
    "json[]": ["ARRAY['[1]', '{\"a\": 1}', '\"x\"']::json[]"],
    "int4range[]": ["ARRAY['[1,5)', 'empty']::int4range[]"],
    "box[]": ["ARRAY['(2,2),(1,1)', '(4,4),(3,3)']::box[]"],
    "point[]": ["ARRAY['(1,2)', '(3,4)']::point[]"],
    "inet[]": ["ARRAY['::1', '10.0.0.0/8']::inet[]"],
    "money[]": ["ARRAY[1.5, -1234567.89]::numeric[]::money[]"],
    "bit(3)[]": ["ARRAY[B'101', B'000']"],
    "mood": ["'glad'", "'a,b \"c\"'"],
    "mood[]": ["ARRAY['sad', 'a,b \"c\"', NULL]::mood[]", "'{}'"],
    "pair": ["(1, 'a b')::pair", "(NULL, '')::pair", "(1, '\"),(')::pair"],
    "pair[]": ["ARRAY[(1, 'a'), (2, NULL)]::pair[]"],
    "holder": ["(ROW(1, 'x'), ARRAY['[1]', 'null']::jsonb[], '\\x00ff')::holder"],
    "positive": ["7"],
    "positive[]": ["'{1,2}'"],
    "document": ["'[]'", "'[1,2]'", "'{\"base64\": \"AA==\"}'", "'\"a\"'", "'7'"],
    "documents": ["ARRAY['[1]', '{}']::jsonb[]"],
    "raw": ["'\\x00ff'", "'abc'"],
    "span": ["'[1.5,2.5)'"],
    "span[]": ["ARRAY['[1.5,2.5)']::span[]"],
    "hstore": ["'a=>1, b=>NULL, \"c d\"=>\"e\\\"f\"'"],
    "vector": ["'[1,2.5]'"],
    "ltree": ["'a.b.c'"],
    "citext": ["'Ab'"],
}  # fmt: skip
COMPARED_AS = {"json": "{}::jsonb", "json[]": "{}::jsonb[]"}
"""How a value is compared where its text says more than its value: blanks in JSON."""
KEPT_TEXT = ('\'{"a": 1, "a": 2}\'', "'\"\\ud800\"'", '\'{"a": "\\u0000"}\'')
"""Values of `json` that `jsonb` cannot hold or keep."""


async def there_and_back(client: Client, table: str, key: str) -> None:
    """Read the value of row 1, and write what was read into row 2."""
    read = {"sql": f"SELECT {key} FROM {table} WHERE n = 1", "row_mode": "array"}
    answer = await client.tool(tool="query", input=read)
    write = {"sql": f"INSERT INTO {table} (n, {key}) VALUES (2, $1)", "params": answer["rows"][0]}
    await client.tool(tool="execute", input=write)


@pytest.mark.promise("data:values:there-and-back")
@pytest.mark.parametrize("server", ["postgres_server", pytest.param("debian_postgres", marks=pytest.mark.system)])
async def test_what_query_answers_of_postgresql_is_written_back_as_it_was(server: str, request: pytest.FixtureRequest):
    running: PostgresServer = request.getfixturevalue(server)
    database: Database = running.create_database("round_trips")
    database.run(*POSTGRES_PREPARED)
    extensions = {row[0] for row in database.run("SELECT name FROM pg_available_extensions")}
    failures: list[str] = []
    number = 0
    async with open_node(PostgresNode, {**database.settings, "allow_execute": True}) as client:
        for kind, values in POSTGRES.items():
            if kind in ("hstore", "vector", "ltree", "citext"):
                if kind not in extensions:
                    continue
                database.run(f"CREATE EXTENSION {kind}")
            if kind == "xml" and server == "postgres_server":
                continue  # built without it
            for value in values:
                table = f"t{(number := number + 1)}"
                database.run(f"CREATE TABLE {table} (n int, v {kind})", f"INSERT INTO {table} VALUES (1, {value})")
                shown = "{}::text" if value in KEPT_TEXT else COMPARED_AS.get(kind, "{}::text")
                a, b = shown.format("a.v"), shown.format("b.v")
                try:
                    await there_and_back(client, table, "v")
                    rows = f"{table} a JOIN {table} b ON a.n = 1 AND b.n = 2"
                    same = database.run(f"SELECT {a} IS NOT DISTINCT FROM {b}, b.v::text FROM {rows}")
                    if not same[0][0]:
                        failures.append(f"{kind} {value} came back as {same[0][1]}")
                except Exception as error:
                    failures.append(f"{kind} {value[:80]}: {error!r:.300}")
    assert failures == []


MARIADB: dict[str, list[str]] = {
    "boolean": ["true", "NULL"],
    "tinyint": ["-128"],
    "smallint unsigned": ["65535"],
    "mediumint": ["-8388608"],
    "int": ["2147483647"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "bigint unsigned": ["18446744073709551615"],
    "int(5) zerofill": ["42"],
    "decimal(10,2)": ["12.50", "99999999.99"],
    "decimal(65,30)": [
        "0.1", "0.1234567890123456", "0.12345678901234567", "0.123456789012345678901234567891", "1e-17", "123456789.123456789",
        "12345678901234567890123456789012345", "9007199254740993", "0.30000000000000004", "1e22",
    ],
    "float": ["1.5", "1e30", "-0.25"],
    "double": ["0.1", "1.7976931348623157e308", "5e-324", "1e22", "0.30000000000000004", "123456789.123456789", "-0e0"],
    "bit(1)": ["1"],
    "bit(10)": ["5"],
    "bit(64)": ["x'ffffffffffffffff'"],
    "char(4)": ["'ab'", "''"],
    "varchar(100)": ["'é😀'", "'\\\\'", "'a\\'b\"c'", "'%s $1 ?'", "'\\0\\n'", "'{\"base64\": \"AA==\"}'", "'5'"],
    "varchar(20) character set latin1": ["'é'"],
    "binary(4)": ["'ab'", "x'ff00ff00'"],
    "varbinary(40)": ["'abc'", "x'00'", "x'5c78'", "x'27'", "x'ff'", "'é'", "''"],
    "tinytext": ["'a'"], "text": ["'a'"], "mediumtext": ["'a'"], "longtext": ["'a'"],
    "tinyblob": ["x'80'"], "blob": ["x'80'", "'text'", "x'00'", "repeat(x'00ff', 10000)"], "mediumblob": ["x'c328'"],
    "longblob": ["x'5c'"],
    "enum('glad','sad','a,b \"c\"')": ["'sad'", "'a,b \"c\"'"],
    "set('a','b','c')": ["'a,c'", "''"],
    "date": ["'2024-02-29'", "'0000-00-00'", "'2024-00-10'", "'9999-12-31'"],
    "datetime": ["'2024-01-01 10:00:00'", "'0000-00-00 00:00:00'"],
    "datetime(6)": ["'2024-01-01 10:00:00.000001'", "'2024-01-01 10:00:00.1'"],
    "timestamp": ["'2024-01-01 10:00:00'", "'0000-00-00 00:00:00'"],
    "timestamp(3)": ["'2024-01-01 10:00:00.123'"],
    "time": ["'-838:59:59'", "'838:59:59'", "'00:00:00'", "'25:00:00'"],
    "time(6)": ["'-00:00:00.000001'", "'10:00:00.5'"],
    "year": ["2024", "0", "1901"],
    "json": [
        "'{\"a\": [1, 2.50, null]}'", "'[]'", "'null'", "'\"a\"'", "'7'", "'{\"base64\": \"AA==\"}'",
        "'{\"n\": 12345678901234567890.123456789}'",
    ],
    "geometry": ["ST_GeomFromText('POINT(0 0)')", "ST_GeomFromText('POLYGON((0 0,1 1,1 0,0 0))', 4326)"],
    "point": ["ST_GeomFromText('POINT(1.5 -2)')"],
    "inet4": ["'10.0.0.1'"],
    "inet6": ["'::1'", "'2001:db8::ff00:42:8329'"],
    "uuid": ["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"],
}  # fmt: skip


@pytest.mark.promise("data:values:there-and-back")
@pytest.mark.system
async def test_what_query_answers_of_mariadb_is_written_back_as_it_was(mariadb_server: MariadbServer):
    mariadb_server.start()
    database = mariadb_server.create_database("round_trips")
    failures: list[str] = []
    number = 0
    async with open_node(MysqlNode, {**database.settings, "allow_execute": True}) as client:
        for kind, values in MARIADB.items():
            for value in values:
                table = f"t{(number := number + 1)}"
                create = f"CREATE TABLE {table} (n int, v {kind} NULL) CHARACTER SET utf8mb4"
                database.run(create, f"INSERT INTO {table} VALUES (1, {value})")
                try:
                    await there_and_back(client, table, "v")
                    rows = f"{table} a JOIN {table} b ON a.n = 1 AND b.n = 2"
                    same = database.run(f"SELECT a.v <=> b.v AND HEX(a.v) <=> HEX(b.v), HEX(b.v), HEX(a.v) FROM {rows}")
                    if not same[0][0]:
                        failures.append(f"{kind} {value} came back as {same[0][1:]}")
                except Exception as error:
                    failures.append(f"{kind} {value[:80]}: {error!r:.300}")
    assert failures == []
