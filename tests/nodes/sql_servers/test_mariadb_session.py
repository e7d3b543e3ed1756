"""The settings of a session of MariaDB are the server's: an answer is what the driver alone gets."""

from __future__ import annotations

import pymysql
import pytest
from mariadb_server import MariadbServer, running_mariadb

from rrext.nodes.sql.mysql import MysqlNode
from rrext.testing import open_node

pytestmark = [pytest.mark.system, pytest.mark.promise("data:session:as-it-is")]

SESSION = """SELECT @@time_zone, @@sql_mode, @@max_statement_time, @@collation_connection, @@lc_time_names,
@@group_concat_max_len, @@div_precision_increment, CAST(FROM_UNIXTIME(0) AS CHAR), DATE_FORMAT('2026-01-01', '%M'), 1 / 3"""


async def test_every_call_finds_the_session_that_the_server_makes():
    settings = {"init-connect": "SET time_zone = '+05:00', lc_time_names = 'de_DE'", "max-statement-time": "33"}
    with running_mariadb(**settings, **{"sql-mode": "ANSI", "div-precision-increment": "7"}) as server:
        database = server.create_database("session")
        database.run("CREATE USER plain@'%' IDENTIFIED BY 'x'", "GRANT SELECT ON session.* TO plain@'%'")
        place = {**database.settings, "user": "plain", "password": "x"}
        with pymysql.connect(**place, charset="utf8mb4") as connection, connection.cursor() as cursor:
            cursor.execute(SESSION)
            alone = [str(cell) for cell in cursor.fetchone() or ()]
        async with open_node(MysqlNode, {**place, "statement_timeout": 0, "pool_size": 1}) as client:
            for _ in range(3):
                answer = await client.tool(tool="query", input={"sql": SESSION, "row_mode": "array"})
                assert [str(cell) for cell in answer["rows"][0]] == alone


OTHERS = {"autocommit", "in_transaction", "max_statement_time", "pseudo_thread_id", "rand_seed1", "rand_seed2", "timestamp"}
"""What a call sets: its transaction and its time; and what is another in each session."""


async def test_no_other_variable_of_a_session_is_set_also_after_its_first_call():
    with running_mariadb() as server:
        database = server.create_database("session")  # in utf8mb4, on a server in latin1
        with pymysql.connect(**database.settings, charset="utf8mb4") as connection, connection.cursor() as cursor:
            cursor.execute("SHOW SESSION VARIABLES")
            alone = {name: str(value) for name, value in cursor.fetchall()}
        async with open_node(MysqlNode, {**database.settings, "allow_execute": True, "pool_size": 1}) as client:
            for tool in ("query", "execute", "query", "execute"):
                answer = await client.tool(tool=tool, input={"sql": "SHOW SESSION VARIABLES", "row_mode": "array"})
                here = {name: str(value) for name, value in answer["rows"]}
                assert here.keys() == alone.keys()
                assert {name for name in alone if here[name] != alone[name]} <= OTHERS | {"tx_read_only"}
                charset = await client.tool(tool=tool, input={"sql": "SELECT CHARSET(CHR(65)) AS c"})
                assert charset["rows"] == [{"c": "utf8mb4"}]


def test_a_server_that_starts_removes_no_temporary_table_of_another(mariadb_server: MariadbServer):
    database = mariadb_server.create_database("temporary")
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE kept (id integer) ENGINE=Aria")
        with running_mariadb():
            cursor.execute("DROP TEMPORARY TABLE kept")  # fails if its files are gone
