"""The settings of a session of MariaDB are the server's: an answer is what the driver alone gets."""

from __future__ import annotations

import pymysql
import pytest
from mariadb_server import running_mariadb

from rrext.nodes.sql.mysql.node import MysqlNode
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
