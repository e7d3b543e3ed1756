"""Databases on servers that `db_duckdb` attaches: their tables are copied when a query names them."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import stat
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mariadb_server import MariadbServer
from postgres_server import Database, free_port
from served import Served, until
from sql_contract import Desk, opened

from rrext.errors import Cancelled, RrextError, Unavailable
from rrext.nodes.sql.backend import shown_name, split_name
from rrext.nodes.sql.duckdb.attached import AttachedDatabase, DatabaseOnServer
from rrext.nodes.sql.duckdb.copied_columns import CopiedColumn
from rrext.nodes.sql.duckdb.instance import DuckdbInstance
from rrext.nodes.sql.duckdb.messages import MEMORY, CopiedTable, DuckdbSettings, SqlCopy, SqlOpen, SqlRows, SqlRun
from rrext.nodes.sql.duckdb.node import DuckdbConnection, DuckdbError, DuckdbNode
from rrext.nodes.sql.duckdb.worker import DuckdbSession

SMALL = {"memory_limit": "400MB", "threads": 1}
CUSTOMERS = (
    "create table customer (id integer primary key, name varchar(20))",
    "insert into customer values (7, 'Ada'), (8, null)",
)
pytestmark = pytest.mark.promise("duckdb:attached-databases")


def attached(url: str, **more: Any) -> dict[str, Any]:
    """The settings of a node with one attached database."""
    return {"databases": {"crm": {"url": url, **more}}, **SMALL}


async def rows(db: Desk, sql: str) -> list[dict[str, Any]]:
    return (await db("query", sql=sql))["rows"]


async def types_and_rows(url: str, table: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """What a copied table has: the type of each column, and its rows in their order."""
    async with opened(DuckdbNode, attached(url)) as db:
        found = await db("query", sql=f"FROM crm.{table} ORDER BY id")
        return dict(zip(found["columns"], found["types"], strict=True)), found["rows"]


async def test_a_file_of_rows_is_joined_with_a_table_of_a_server(served: Served, tmp_path: Path) -> None:
    served.database.run(*CUSTOMERS)
    (tmp_path / "orders.csv").write_text("id,customer\n1,7\n2,9\n")
    config = {"files": {"orders": "orders.csv"}, **attached(served.database.url)}
    async with opened(DuckdbNode, config, root=str(tmp_path)) as db:
        found = await db(
            "query", sql="SELECT o.id, name FROM orders o LEFT JOIN crm.customer c ON c.id = customer ORDER BY o.id"
        )
        assert found["rows"] == [{"id": 1, "name": "Ada"}, {"id": 2, "name": None}]
        assert list(found["copied"]) == ["crm.customer"]


async def test_the_schema_has_the_tables_of_a_server_by_the_names_of_queries(served: Served) -> None:
    served.database.run(*CUSTOMERS, "create view named as select name from customer")
    async with opened(DuckdbNode, attached(served.database.url)) as db:
        tables = (await db("get_schema"))["tables"]
        assert tables["crm.customer"] == {
            "columns": [{"column": "id", "type": "INTEGER"}, {"column": "name", "type": "VARCHAR"}],
            "primary_key": ["id"],
        }
        assert tables["crm.named"]["view"] is True
        assert await rows(db, "SELECT * FROM crm.named ORDER BY name") == [{"name": "Ada"}, {"name": None}]


async def test_a_copy_serves_for_the_seconds_of_refresh_and_tells_its_time(served: Served) -> None:
    served.database.run(*CUSTOMERS)
    count = "SELECT count(*) AS n FROM crm.customer"
    config = attached(served.database.url)
    config["databases"]["now"] = {"url": served.database.url, "refresh": 0}
    async with opened(DuckdbNode, config) as db:
        first = await db("query", sql=count)
        served.database.run("insert into customer values (9, 'Cem')")
        assert await db("query", sql=count) == first
        assert await rows(db, "SELECT count(*) AS n FROM now.customer") == [{"n": 3}]
        served.database.run("insert into customer values (10, 'Dora')")
        assert await rows(db, "SELECT count(*) AS n FROM now.customer") == [{"n": 4}]


async def test_a_table_that_the_server_makes_later_is_found(served: Served) -> None:
    async with opened(DuckdbNode, attached(served.database.url)) as db:
        assert (await db.refusal("query", sql="SELECT * FROM crm.customer")).code == "table_not_found"
        served.database.run(*CUSTOMERS)
        assert await rows(db, "SELECT name FROM CRM.Customer WHERE id = 7") == [{"name": "Ada"}]
        error = await db.refusal("query", sql="SELECT * FROM crm.custmer")
        assert error.data["near"] == ["customer"]
        assert 'database "crm"' in error.message


async def test_tables_that_the_settings_leave_out_do_not_exist(served: Served) -> None:
    served.database.run(*CUSTOMERS, "create table secret (id integer)")
    async with opened(DuckdbNode, attached(served.database.url, tables=["cust*"])) as db:
        assert list((await db("get_schema"))["tables"]) == ["crm.customer"]
        assert (await db.refusal("query", sql="SELECT * FROM crm.secret")).code == "table_not_found"


async def test_what_an_alias_means_stays_what_it_means(served: Served) -> None:
    served.database.run(*CUSTOMERS)
    async with opened(DuckdbNode, attached(served.database.url)) as db:
        assert await rows(db, "SELECT crm.n FROM (SELECT 1 AS n) AS crm") == [{"n": 1}]
        assert await rows(db, "SELECT crm.customer.name FROM crm.customer WHERE crm.customer.id = 7") == [{"name": "Ada"}]


async def test_no_statement_writes_to_the_server_or_to_the_copy(served: Served) -> None:
    served.database.run(*CUSTOMERS)
    async with opened(DuckdbNode, attached(served.database.url)) as db:
        assert len(await rows(db, "FROM crm.customer")) == 2
        for sql in (
            "INSERT INTO crm.customer VALUES (1, 'x')",
            "CREATE OR REPLACE TABLE crm.customer AS SELECT 1 AS n",
            "CREATE VIEW crm.v AS SELECT 1 AS n",
            "EXPLAIN ANALYZE DELETE FROM crm.customer",
            "WITH gone AS (DELETE FROM crm.customer RETURNING id) FROM gone",
            "COMMENT ON TABLE crm.customer IS 'x'",
            "DETACH crm",
            "USE crm",
        ):
            with pytest.raises(RrextError):
                await db("query", sql=sql)
        backend: Any = db.database.backend
        connection = backend.connect(read_only=True)
        for sql in ("DELETE FROM crm.customer", "DROP TABLE crm.customer", "CREATE TABLE crm.t AS SELECT 1 AS n"):
            backend.begin(connection, read_only=True)  # past the gate
            with pytest.raises(DuckdbError, match="read-only"):
                connection.run(sql, ())
            backend.rollback(connection)
        connection.close()
        assert len(await rows(db, "FROM crm.customer")) == 2
        assert served.count("customer") == 2


@pytest.mark.parametrize("setting", ["allow_execute", "allow_insert"])
async def test_a_node_that_may_write_has_no_databases_of_servers(setting: str) -> None:
    config: Any = DuckdbNode.Config()
    config.databases = {"crm": DatabaseOnServer(url="mysql://h/d")}
    setattr(config, setting, True)
    assert [(name, "Use two nodes" in fault) for name, fault in DuckdbNode.missing(config, str)] == [("databases", True)]
    async with opened(DuckdbNode, {**attached("mysql://h/d"), setting: True}) as db:
        error = await db.refusal("query", sql="SELECT 1")
    assert isinstance(error, Unavailable)
    assert "only read" in error.message


async def test_more_rows_than_the_limit_are_an_error_that_names_it(served: Served) -> None:
    served.database.run(*CUSTOMERS)
    async with opened(DuckdbNode, attached(served.database.url, max_rows=1)) as db:
        error = await db.refusal("query", sql="SELECT * FROM crm.customer")
        assert (error.code, error.data) == ("copy_too_large", {"limit": "max_rows", "database": "crm"})
        assert '"max_rows"' in (error.hint or "")
        assert await rows(db, "SELECT 1 AS n") == [{"n": 1}]


async def test_a_name_of_any_letters_is_that_of_the_schema(served: Served) -> None:
    quote = '"' if isinstance(served.database, Database) else "`"
    names = ["Ärzte", "straße", "Mixed Name"]
    served.database.run(*(f"create table {quote}{name}{quote} (id integer)" for name in names))
    async with opened(DuckdbNode, attached(served.database.url)) as db:
        assert {name.lower() for name in (await db("get_schema"))["tables"]} == {f"crm.{name}".lower() for name in names}
        for sql in ('FROM crm."Ärzte"', "FROM crm.ÄRZTE", "FROM CRM.straße", 'FROM crm."mixed name"'):
            assert await rows(db, sql) == [], sql


@given(st.lists(st.text(min_size=1), min_size=1, max_size=2).map(tuple))
def test_a_name_has_the_parts_that_it_was_made_of(parts: tuple[str, ...]) -> None:
    assert split_name(shown_name(parts)) == parts


async def test_a_table_whose_name_is_that_of_a_file_has_a_problem(served: Served) -> None:
    quote = '"' if isinstance(served.database, Database) else "`"
    served.database.run(f"create table {quote}a.b{quote} (id integer)", *CUSTOMERS)
    async with opened(DuckdbNode, attached(served.database.url)) as db:
        tables = (await db("get_schema"))["tables"]
        assert {name: "problem" in table for name, table in tables.items()} == {'crm."a.b"': True, "crm.customer": False}
        assert (await db.refusal("query", sql='FROM crm."a.b"')).code == "not_read_only"


async def test_a_copy_that_is_cancelled_or_late_ends_in_the_server_too(served: Served) -> None:
    is_postgres = isinstance(served.database, Database)
    served.database.run(
        "create view slow as "
        + ("select 1 as id, pg_sleep(60)::text as n" if is_postgres else "select 1 as id, sleep(60) as n")
    )
    running = (
        "select count(*) from pg_stat_activity where state = 'active' and query like '%\"slow\"%'"
        if is_postgres
        else "select count(*) from information_schema.PROCESSLIST where INFO like '%`slow`%'"
    ) + (" and pid <> pg_backend_pid()" if is_postgres else " and ID <> connection_id()")

    def count() -> int:
        return served.database.run(running)[0][0]

    config = attached(served.database.url)
    config["databases"]["late"] = {"url": served.database.url, "timeout": 0.2}
    async with opened(DuckdbNode, config) as db:
        error = await db.refusal("query", sql="SELECT * FROM late.slow")
        assert (error.code, error.data["database"]) == ("statement_timeout", "late")
        await until(lambda: count() == 0)
        call = asyncio.create_task(db("query", sql="SELECT * FROM crm.slow"))
        await until(lambda: count() == 1)
        call.cancel()
        with suppress(asyncio.CancelledError, Cancelled):
            await call
        await until(lambda: count() == 0)


async def test_a_server_that_was_restarted_is_read_again(served: Served) -> None:
    served.database.run(*CUSTOMERS)
    async with opened(DuckdbNode, attached(served.database.url, refresh=0)) as db:
        assert len(await rows(db, "SELECT * FROM crm.customer")) == 2
        served.server.stop()
        error = await db.refusal("query", sql="SELECT * FROM crm.customer")
        assert error.data["database"] == "crm"
        assert served.server.password not in f"{error.message} {error.hint}"
        assert await rows(db, "SELECT 1 AS n") == [{"n": 1}]
        served.server.start()
        assert len(await rows(db, "SELECT * FROM crm.customer")) == 2


async def test_many_columns_and_long_rows_stay_what_they_are(served: Served) -> None:
    names = [f"c{number}" for number in range(250)]
    served.database.run(
        f"create table wide (id integer, {', '.join(f'{name} integer' for name in names)})",
        f"insert into wide values (1, {', '.join(str(number) for number in range(250))})",
        "create table tall (id integer, x text)",
    )
    mixed = 'a "quoted" text,\r\nNULL \\N \\ ä🦆\t' * 1_400
    with served.database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("insert into tall values (1, %s), (2, ''), (3, 'NULL'), (4, null)", (mixed,))
        connection.commit()
    async with opened(DuckdbNode, attached(served.database.url)) as db:
        assert await rows(db, "FROM crm.wide") == [{"id": 1, **{name: number for number, name in enumerate(names)}}]
        assert [row["x"] for row in await rows(db, "FROM crm.tall ORDER BY id")] == [mixed, "", "NULL", None]


async def test_a_killed_process_of_duckdb_gets_its_copies_again(served: Served) -> None:
    served.database.run(*CUSTOMERS)
    async with opened(DuckdbNode, attached(served.database.url)) as db:
        await rows(db, "FROM crm.customer")
        process = db.database.backend._supervisor.running  # type: ignore[attr-defined]
        process.terminate()
        await until(lambda: process.is_over)
        assert len(await rows(db, "FROM crm.customer")) == 2


async def test_calls_at_once_share_one_copy(served: Served) -> None:
    served.database.run(*CUSTOMERS)
    async with opened(DuckdbNode, attached(served.database.url)) as db:
        found = await asyncio.gather(*(db("query", sql="SELECT count(*) AS n FROM crm.customer") for _ in range(8)))
        assert {str(answer) for answer in found} == {str(found[0])}


async def test_types_of_postgres_are_those_of_duckdb(postgres_database: Database) -> None:
    url = postgres_database.url
    given = {
        "b boolean": ("true", "BOOLEAN", True),
        "s smallint": ("-1", "SMALLINT", -1),
        "i integer": ("2147483647", "INTEGER", 2147483647),
        "l bigint": ("-9223372036854775808", "BIGINT", -9223372036854775808),
        "n numeric(12,2)": ("1234.50", "DECIMAL(12,2)", 1234.5),
        "wide numeric(38,2)": ("0.10", "DECIMAL(38,2)", "0.10"),
        "free numeric": ("-12.345", "DECIMAL(5,3)", -12.345),
        "r real": ("1.5", "FLOAT", 1.5),
        "d double precision": ("0.1", "DOUBLE", 0.1),
        "m money": ("'$1,234.50'", "DECIMAL(6,2)", 1234.5),
        "c char(5)": ("'ab'", "VARCHAR", "ab   "),
        "x text": ("E'it''s \"q\",\\n'", "VARCHAR", 'it\'s "q",\n'),
        "day date": ("'2026-11-29'", "DATE", "2026-11-29"),
        "t time(3)": ("'10:00:00.123'", "TIME", "10:00:00.123000"),
        "tz timetz": ("'10:00:00+02'", "TIME WITH TIME ZONE", "10:00:00+02:00"),
        "ts timestamp": ("'2026-11-29 10:00:00.123456'", "TIMESTAMP", "2026-11-29T10:00:00.123456"),
        "tstz timestamptz": ("'2026-11-29 10:00:00+02'", "TIMESTAMP WITH TIME ZONE", "2026-11-29T08:00:00+00:00"),
        "iv interval": ("'1 year 2 mons -3 days +04:05:06.7'", "INTERVAL", "P1Y2M-3DT4H5M6.7S"),
        "u uuid": ("'00000000-0000-0000-0000-000000000001'", "UUID", "00000000-0000-0000-0000-000000000001"),
        "jb jsonb": ("""'{"b": [1, 2]}'""", "JSON", {"b": [1, 2]}),
        "bytes bytea": ("'\\x00ff'", "BLOB", {"base64": "AP8="}),
        "bits bit(4)": ("'0101'", "BIT", "0101"),
        "vb bit varying": ("''", "VARCHAR", ""),
        "ca char(3)[]": ("'{a}'", "VARCHAR[]", ["a  "]),
        "ia integer[]": ("'{1,NULL,3}'", "INTEGER[]", [1, None, 3]),
        "ta text[]": ("""E'{"a,b",NULL,"q\\\\"x"}'""", "VARCHAR[]", ["a,b", None, 'q"x']),
        "na numeric(10,2)[]": ("'{1.10}'", "DECIMAL(10,2)[]", [1.1]),
        "mo mood": ("'sad'", "VARCHAR", "sad"),
        "po positive": ("5", "INTEGER", 5),
        "ip inet": ("'::1/128'", "VARCHAR", "::1/128"),
        "span int4range": ("'[1,5)'", "VARCHAR", "[1,5)"),
        '"Ä ""q""" text': ("'x'", "VARCHAR", "x"),
    }
    postgres_database.run(
        "create type mood as enum ('sad', 'ok')",
        "create domain positive as integer check (value > 0)",
        "alter database fresh set datestyle = 'German'",
        "alter database fresh set intervalstyle = 'sql_standard'",
        "alter database fresh set timezone = 'Asia/Tokyo'",
    )
    postgres_database.run(
        f"create table t (id integer, {', '.join(given)})",
        f"insert into t values (1, {', '.join(value for value, _, _ in given.values())})",
        "insert into t (id) values (2)",
    )
    types, (first, second) = await types_and_rows(url, "t")
    assert list(types.values())[1:] == [kind for _, kind, _ in given.values()]
    assert list(first.values())[1:] == [value for _, _, value in given.values()]
    assert set(list(second.values())[1:]) == {None}


async def test_a_value_that_its_type_cannot_have_makes_texts_of_the_column(postgres_database: Database) -> None:
    postgres_database.run(
        "create table t (id integer, n numeric(5,1), d date, a integer[], ok date)",
        "insert into t values (1, 'NaN', '0044-03-15 BC', '{{1,2},{3,4}}', '2026-11-29'), (2, 1.5, '2026-01-01', '{5}', null)",
    )
    postgres_database.run(
        "create table days (id integer, d date, ts timestamp, tz timestamptz, bc timestamp, a date[], ok timestamp)",
        "insert into days values (1, 'infinity', '-infinity', 'infinity', '0044-03-15 BC', '{infinity}', '2026-11-29')",
    )
    types, found = await types_and_rows(postgres_database.url, "days")
    assert list(types.values()) == ["INTEGER", *["VARCHAR"] * 4, "JSON", "TIMESTAMP"]
    assert list(found[0].values())[1:-1] == ["infinity", "-infinity", "infinity", "0044-03-15 00:00:00 BC", ["infinity"]]
    types, found = await types_and_rows(postgres_database.url, "t")
    assert types == {"id": "INTEGER", "n": "VARCHAR", "d": "VARCHAR", "a": "JSON", "ok": "DATE"}
    assert [row["d"] for row in found] == ["0044-03-15 BC", "2026-01-01"]
    assert [row["a"] for row in found] == [[["1", "2"], ["3", "4"]], ["5"]]


async def test_a_table_of_another_schema_has_three_names(postgres_database: Database) -> None:
    postgres_database.run(
        "create schema sales",
        "create table sales.orders (id integer)",
        "insert into sales.orders values (1)",
        "create table orders (id integer)",
    )
    async with opened(DuckdbNode, attached(postgres_database.url)) as db:
        assert await rows(db, "FROM crm.sales.orders") == [{"id": 1}]
        assert await rows(db, "FROM crm.orders") == []
        assert await rows(db, 'FROM crm."public"."orders"') == []


async def test_tables_that_duckdb_cannot_tell_apart_are_told_as_a_problem(postgres_database: Database) -> None:
    postgres_database.run(
        "create schema main",
        "create table main.y (id integer)",
        "create table y (t text)",
        "create table customer (id integer)",
        'create table "Customer" (t text)',
        "create schema a",
        "create table a.b (id integer)",
        'create table "a.b" (t text)',
    )
    async with opened(DuckdbNode, attached(postgres_database.url)) as db:
        tables = (await db("get_schema"))["tables"]
        told = {name: [column["column"] for column in table["columns"]] for name, table in tables.items()}
        assert (told["crm.a.b"], told["crm.y"]) == (["id"], ["t"])
        assert "problem" in tables["crm.main.y"]
        assert "problem" in tables['crm."a.b"']
        assert sum("problem" in tables[name] for name in ("crm.customer", "crm.Customer")) == 1
        assert (await db("query", sql="FROM crm.a.b"))["columns"] == ["id"]
        for sql in ("FROM crm.main.y", "FROM crm.y, crm.main.y"):
            error = await db.refusal("query", sql=sql)
            assert (error.code, "main" in error.message) == ("table_not_found", True), sql
        hidden = next(name for name in ("customer", "Customer") if "problem" in tables[f"crm.{name}"])
        await rows(db, f'FROM crm."{hidden.swapcase()}"')
        assert (await db.refusal("query", sql=f'FROM crm."{hidden}"')).code == "table_not_found"


async def test_the_schema_tells_the_types_that_the_copies_have(postgres_database: Database) -> None:
    postgres_database.run(
        "create domain money_of as numeric(10,2)",
        "create domain small as money_of check (value < 10)",
        "create domain flags as integer[]",
        "create table t (id integer, m money_of, s small, f flags, ms money_of[])",
    )
    async with opened(DuckdbNode, attached(postgres_database.url)) as db:
        told = [column["type"] for column in (await db("get_schema"))["tables"]["crm.t"]["columns"]]
        found = (await db("query", sql="FROM crm.t"))["types"]
        assert (
            [kind.replace(", ", ",") for kind in told] == found == ["INTEGER", *["DECIMAL(10,2)"] * 2, "INTEGER[]", "VARCHAR[]"]
        )


async def test_a_view_that_writes_is_refused_by_the_server(postgres_database: Database) -> None:
    postgres_database.run("create sequence numbers", "create view next as select nextval('numbers') as n")
    async with opened(DuckdbNode, attached(postgres_database.url)) as db:
        error = await db.refusal("query", sql="FROM crm.next")
        assert "read-only transaction" in error.message


async def test_the_password_stands_beside_the_url_and_in_no_failure(postgres_database: Database) -> None:
    settings = postgres_database.settings
    url = f"postgresql://{settings['user']}@{settings['host']}:{settings['port']}/{settings['database']}"
    postgres_database.run(*CUSTOMERS)
    async with opened(DuckdbNode, attached(url, password=settings["password"])) as db:
        assert len(await rows(db, "FROM crm.customer")) == 2
    async with opened(DuckdbNode, attached(url, password="wrong-and-secret")) as db:
        error = await db.refusal("query", sql="FROM crm.customer")
        assert (error.code, error.data["database"]) == ("connection_refused", "crm")
        assert "wrong-and-secret" not in f"{error.message} {error.hint} {error.data}"


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
@pytest.mark.parametrize("sign", ["@", "/", ":", "%", "#", "?"])
async def test_no_failure_has_a_part_of_a_password_with_signs_in_a_url(scheme: str, sign: str) -> None:
    for password in (f"secret1{sign}secret2", f"1{sign}secret3@secret4/secret5", f"1{sign}secret6=1"):
        async with opened(DuckdbNode, attached(f"{scheme}://u:{password}@127.0.0.1:{free_port()}/d")) as db:
            error = await db.refusal("query", sql="FROM crm.t")
        assert isinstance(error, Unavailable)
        assert "secret" not in f"{error.message} {error.hint} {error.data}"


class Copies:
    """The folder for the rows of attached databases."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def files(self) -> list[Path]:
        """Files that have rows on the disk."""
        return [file for file in self._folder.glob("rrext-*/*/*.csv") if file.stat().st_size]

    def are_gone(self) -> bool:
        return not list(self._folder.glob("rrext-*"))


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copies:
    """The folder for temporary files, for this test alone."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return Copies(tmp_path)


STUCK = """create view stuck as select i as id, repeat('secret row ', 200) as x,
    case when i = 3000 then pg_sleep(60)::text end as s from generate_series(1, 100000) i"""

SERVER = """
import asyncio, json, sys
from rrext.nodes.sql.duckdb.node import DuckdbNode
from rrext.testing import open_node

async def main():
    async with open_node(DuckdbNode, json.loads(sys.argv[1])) as client:
        await client.tool(tool="query", input={"sql": "FROM crm.stuck"})

asyncio.run(main())
"""


async def test_rows_on_the_disk_are_of_the_user_alone_and_go_with_a_killed_server(
    postgres_database: Database, copies: Copies
) -> None:
    postgres_database.run(STUCK)
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVER, json.dumps(attached(postgres_database.url)))
    try:
        await until(copies.files)
        for file in copies.files():
            assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
    finally:
        server.kill()
        await server.wait()
    await until(copies.are_gone)


async def test_rows_on_the_disk_go_with_a_closed_database_and_with_a_killed_process(
    postgres_database: Database, copies: Copies
) -> None:
    postgres_database.run(*CUSTOMERS)
    async with opened(DuckdbNode, attached(postgres_database.url)) as db:
        assert len(await rows(db, "FROM crm.customer")) == 2
        assert (copies.files(), copies.are_gone()) == ([], False)
        process = db.database.backend._supervisor.running  # type: ignore[attr-defined]
        os.kill(process.id, signal.SIGKILL)
        await until(copies.are_gone)
        assert len(await rows(db, "FROM crm.customer")) == 2
    await until(copies.are_gone)


BIG = "create table big as select i, md5(i::text) as a, md5(i::text) as b from generate_series(1, 700000) i"


async def test_a_cancelled_call_and_a_timeout_end_the_copy_in_duckdb_too(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres_database.run(*CUSTOMERS, BIG)
    asked = AskedCopies(monkeypatch)
    config = attached(postgres_database.url)
    config["databases"]["late"] = {"url": postgres_database.url, "timeout": 50}
    async with opened(DuckdbNode, config) as db:
        call = asyncio.create_task(db("query", sql="SELECT count(*) AS n FROM crm.big"))
        await asyncio.to_thread(asked.begun.wait)
        call.cancel()
        with suppress(asyncio.CancelledError, Cancelled):
            await call
        await until(lambda: asked.outcomes)
        assert asked.outcomes == ["cancelled"]
        monkeypatch.setattr(AttachedDatabase, "_taken", late(AttachedDatabase._taken))
        error = await db.refusal("query", sql="SELECT count(*) AS n FROM late.big")
        assert (error.code, error.data["database"], "50 s a table" in error.message) == ("statement_timeout", "late", True)
        monkeypatch.undo()
        assert len(await rows(db, "FROM crm.customer")) == 2


def test_an_interrupt_reaches_the_connections_that_take_the_rows(tmp_path: Path) -> None:
    count = 2_000_000
    duckdb.execute(f"COPY (SELECT range AS i FROM range({count})) TO '{tmp_path / 'rows.csv'}' (HEADER false)")
    tables = [CopiedTable("main", "numbers", str(tmp_path / "rows.csv"), 8, [CopiedColumn("i", "INTEGER")])]
    session = DuckdbSession(DuckdbInstance(DuckdbSettings(MEMORY, "", False, False, "400MB", 1, ("crm",))))
    is_over = threading.Event()

    def interrupt() -> None:
        while not is_over.wait(0.005):
            session.interrupt(2)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    try:
        session.do(1, SqlOpen())
        with pytest.raises(duckdb.InterruptException):
            session.do(2, SqlCopy("crm", tables, []))
        session.do(3, SqlCopy("crm", tables, []))
        counted = session.do(4, SqlRun("read", "SELECT count(*) FROM crm.numbers", [], False, 10))
        assert isinstance(counted, SqlRows)
        assert [list(row) for row in counted.rows] == [[count]]
    finally:
        is_over.set()
        interrupting.join()
        session.close()


class AskedCopies:
    """What became of the requests to take rows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = threading.Event()
        self.outcomes: list[str] = []
        ask = DuckdbConnection.ask

        def noted(connection: DuckdbConnection, request: Any) -> Any:
            if not isinstance(request, SqlCopy):
                return ask(connection, request)
            self.begun.set()
            try:
                answer = ask(connection, request)
            except DuckdbError as error:
                self.outcomes.append(error.failure.kind)
                raise
            self.outcomes.append("done")
            return answer

        monkeypatch.setattr(DuckdbConnection, "ask", noted)


def late(taken: Any) -> Any:
    """A copy for which the server took all the time."""
    return lambda own, connection, request, until, ctx: taken(own, connection, request, 0.0, ctx)


async def test_a_full_disk_is_told_with_the_database_and_the_folder(postgres_database: Database) -> None:
    postgres_database.run(*CUSTOMERS, "create table big as select i, repeat('x', 100) as x from generate_series(1, 50000) i")
    async with opened(DuckdbNode, attached(postgres_database.url)) as db:
        assert await rows(db, "SELECT 1 AS n") == [{"n": 1}]
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
        try:
            error = await db.refusal("query", sql="SELECT count(*) AS n FROM crm.big")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert (error.code, error.data["database"], "TMPDIR" in str(error.hint)) == ("no_space", "crm", True)
        assert await rows(db, "SELECT count(*) AS n FROM crm.big") == [{"n": 50000}]


@pytest.mark.system
async def test_types_of_mariadb_are_those_of_duckdb(mariadb_server: MariadbServer) -> None:
    mariadb_server.start()
    database = mariadb_server.create_database("kinds")
    given = {
        "flag tinyint(1)": ("2", "TINYINT", 2),
        "ti tinyint unsigned": ("255", "UTINYINT", 255),
        "me mediumint": ("-8388608", "INTEGER", -8388608),
        "i int unsigned": ("4294967295", "UINTEGER", 4294967295),
        "z int(8) unsigned zerofill": ("42", "UINTEGER", 42),
        "l bigint unsigned": ("18446744073709551615", "UBIGINT", 18446744073709551615),
        "n decimal(12,2)": ("1234.50", "DECIMAL(12,2)", 1234.5),
        "big decimal(60,5)": ("-0.10000", "DECIMAL(6,5)", -0.1),
        "f float": ("0.1", "FLOAT", 0.10000000149011612),
        "d double": ("1e300", "DOUBLE", 1e300),
        "y year": ("2026", "USMALLINT", 2026),
        "bits bit(9)": ("b'100000001'", "UBIGINT", 257),
        "day date": ("'2026-11-29'", "DATE", "2026-11-29"),
        "dt datetime(6)": ("'2026-11-29 10:00:00.123456'", "TIMESTAMP", "2026-11-29T10:00:00.123456"),
        "ts timestamp": ("'2026-11-29 10:00:00'", "TIMESTAMP WITH TIME ZONE", "2026-11-29T10:00:00+00:00"),
        "span time(1)": ("'-838:59:58.5'", "INTERVAL", "PT-838H-59M-58.5S"),
        "c char(5) character set latin1": ("'ä'", "VARCHAR", "ä"),
        "x text collate utf8mb4_bin": ("'it''s \"q\",\\n'", "VARCHAR", 'it\'s "q",\n'),
        "lt longtext": ("repeat('a\"', 3)", "VARCHAR", 'a"a"a"'),
        "e enum('a','b')": ("'b'", "VARCHAR", "b"),
        "st set('a','b')": ("'a,b'", "VARCHAR", "a,b"),
        "bl blob": ("x'00ff'", "BLOB", {"base64": "AP8="}),
        "u uuid": ("'00000000-0000-0000-0000-000000000001'", "UUID", "00000000-0000-0000-0000-000000000001"),
        "p point": ("ST_PointFromText('POINT(1 2)')", "VARCHAR", "POINT(1 2)"),
        "`a ``b` int": ("1", "INTEGER", 1),
    }
    columns = [f"{name} null" for name in given]
    database.run(
        "set time_zone = '+00:00'",
        f"create table t (id integer, {', '.join(columns)})",
        f"insert into t values (1, {', '.join(value for value, _, _ in given.values())})",
        "insert into t (id) values (2)",
        "set sql_mode = ''",
        "create table bad (id integer, day date)",
        "insert into bad values (1, '0000-00-00'), (2, '2026-11-29')",
    )
    types, (first, second) = await types_and_rows(database.url, "t")
    assert list(types.values())[1:] == [kind for _, kind, _ in given.values()]
    assert list(first.values())[1:] == [value for _, _, value in given.values()]
    assert set(list(second.values())[1:]) == {None}
    types, found = await types_and_rows(database.url, "bad")
    assert (types["day"], [row["day"] for row in found]) == ("VARCHAR", ["0000-00-00", "2026-11-29"])


@pytest.mark.system
async def test_a_timestamp_of_mariadb_is_the_same_moment_in_each_time_zone(
    mariadb_server: MariadbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    mariadb_server.start()
    database = mariadb_server.create_database("moments")
    database.run(
        "set time_zone = '+00:00'",
        "create table t (id integer, ts timestamp, dt datetime)",
        "insert into t values (1, '2020-01-01 00:00:00', '2020-01-01 00:00:00')",
    )
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    _, (row,) = await types_and_rows(database.url, "t")
    assert (row["ts"], row["dt"]) == ("2020-01-01T09:00:00+09:00", "2020-01-01T00:00:00")


@pytest.mark.system
async def test_a_row_that_mariadb_cannot_write_as_one_text_is_an_error(mariadb_server: MariadbServer) -> None:
    mariadb_server.start()
    database = mariadb_server.create_database("long")
    database.run("create table t (id integer, x longtext)", "insert into t values (1, repeat('a', 15 * 1024 * 1024))")
    async with opened(DuckdbNode, attached(database.url)) as db:
        error = await db.refusal("query", sql="SELECT length(x) AS n FROM crm.t")
        assert (error.code, error.data["limit"]) == ("copy_too_large", "max_allowed_packet")


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
async def test_a_server_that_is_not_there_breaks_no_query_that_does_not_name_it(scheme: str, tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("id\n1\n")
    config = {"files": {"orders": "orders.csv"}, **attached(f"{scheme}://u:hidden-word@127.0.0.1:{free_port()}/d")}
    async with opened(DuckdbNode, config, root=str(tmp_path)) as db:
        assert await rows(db, "FROM orders") == [{"id": 1}]
        assert (await db.refusal("query", sql="FROM oders")).code == "sql_failed"
        error = await db.refusal("query", sql="SELECT * FROM orders JOIN crm.customer USING (id)")
        assert isinstance(error, Unavailable)
        assert (error.data["database"], bool(error.hint)) == ("crm", True)
        tables = (await db("get_schema"))["tables"]
        assert list(tables) == ["orders", "crm"]
        assert "cannot be reached" in tables["crm"]["problem"]
        assert "hidden-word" not in f"{error.message} {error.hint} {tables}"


@pytest.mark.parametrize(
    ("databases", "says"),
    [
        ({"crm": {"url": "oracle://h/d"}}, "begins with none of"),
        ({"a-b": {"url": "mysql://h/d"}}, "needs a name"),
        ({"main": {"url": "mysql://h/d"}}, "needs another name"),
        ({"Orders": {"url": "mysql://h/d"}}, "needs another name"),
        ({"crm": {"url": "mysql://h/d?nothing=1"}}, 'database "crm": The "url" of this node may not set nothing'),
        ({"crm": {"url": "postgresql://h:port/d"}}, 'database "crm": The "url" of this node is no URL'),
    ],
)
async def test_settings_that_cannot_be_used_are_told(tmp_path: Path, databases: dict[str, Any], says: str) -> None:
    (tmp_path / "orders.csv").write_text("id\n1\n")
    config = {"files": {"orders": "orders.csv"}, "databases": databases, **SMALL}
    async with opened(DuckdbNode, config, root=str(tmp_path)) as db:
        error = await db.refusal("query", sql="SELECT 1")
    assert isinstance(error, RrextError)
    assert says in error.message
