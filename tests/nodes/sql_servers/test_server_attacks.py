"""What does more than read does not run by `query`: refused by the gate, and the writes again by the database itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from served import Served
from server_attacks import MARIADB_ATTACKS, MARIADB_DISARMED, MARIADB_PREPARED, POSTGRES_ATTACKS, POSTGRES_PREPARED
from sql_attacks import World, attacks, broken_by
from sql_dialects import DIALECTS

from rrext.errors import RrextError
from rrext.nodes.sql.gate import read_only
from rrext.nodes.sql.mysql import MysqlNode
from rrext.nodes.sql.postgres.node import PostgresNode

POSTGRES_STATE = """SELECT (SELECT string_agg(kept::text, ',' ORDER BY a) FROM kept), (SELECT last_value FROM numbers),
  (SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace), (SELECT count(*) FROM pg_roles),
  (SELECT count(*) FROM pg_extension), (SELECT count(*) FROM pg_replication_slots),
  (SELECT count(*) FROM pg_largeobject_metadata),
  (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), (SELECT count(*) FROM pg_file_settings),
  (SELECT relacl::text FROM pg_class WHERE relname = 'kept'), obj_description('kept'::regclass)"""
MARIADB_STATE = """SELECT (SELECT GROUP_CONCAT(a, b ORDER BY a) FROM kept), (SELECT next_not_cached_value FROM numbers),
  (SELECT count(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'served'),
  (SELECT count(*) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = 'served'),
  (SELECT count(*) FROM information_schema.SCHEMATA), (SELECT count(*) FROM mysql.global_priv), @@max_connections,
  @@read_only, IS_FREE_LOCK('l'), (SELECT count(*) FROM information_schema.PLUGINS)"""


class Target:
    """A server with something to lose, and what it has."""

    def __init__(self, served: Served, file: Path) -> None:
        is_mysql = served.node is MysqlNode
        self.served = served
        self.dialect = "mysql" if is_mysql else "postgres"
        self.file = file
        served.database.run(*(MARIADB_PREPARED if is_mysql else POSTGRES_PREPARED))
        self.victim: Any = served.database.connect()
        with self.victim.cursor() as cursor:
            cursor.execute("SELECT CONNECTION_ID()" if is_mysql else "SELECT pg_backend_pid()")
            pid = cursor.fetchone()[0]
        attacks = MARIADB_ATTACKS if is_mysql else POSTGRES_ATTACKS
        self.attacks = [attack.replace("{file}", str(file)).replace("{pid}", str(pid)) for attack in attacks]
        self._state = MARIADB_STATE if is_mysql else POSTGRES_STATE
        self.before = self.state()

    def state(self) -> list[Any]:
        """Everything that an attack could change. Fails if the victim's connection is gone."""
        with self.victim.cursor() as cursor:
            cursor.execute(self._state)
            rows = cursor.fetchall()
        return [*rows, self.file.exists()]

    def refusal_of(self, *attack: str) -> Any:
        """Run statements in a read-only transaction as `query` does, but without the gate: how the database fails one."""
        backend = self.backend({"statement_timeout": 0.3, **self.served.database.settings})
        connection = backend.connect(read_only=True)
        try:
            backend.begin(connection, read_only=True)
            for statement in attack:
                cursor = backend.run(connection, statement, (), read_only=True)
                while cursor.fetchmany(100):
                    pass
                cursor.close()
        except Exception as error:
            return backend.failure(error)
        finally:
            connection.close()

    def backend(self, settings: dict[str, Any]) -> Any:
        from rrext.nodes.base.setup import SetupContext
        from rrext.pipefile.catalog.settings import Settings
        from rrext.threads import Workers

        form = Settings(self.served.node.Config, owner="test")
        config, problems = form.make(settings)
        assert not problems
        return self.served.node.backend(config, SetupContext(Workers()))


@pytest.fixture
def target(served: Served) -> Iterator[Target]:
    file = Path("/tmp") / f"rrext-attacked-{served.server.port}"
    target = Target(served, file)
    yield target
    target.victim.close()
    file.unlink(missing_ok=True)


def test_there_are_enough_attacks() -> None:
    assert min(len(set(POSTGRES_ATTACKS)), len(set(MARIADB_ATTACKS))) >= 60


async def test_no_attack_gets_past_query(target: Target):
    passed: dict[str, Any] = {}
    async with target.served.open(statement_timeout=5.0) as client:
        for attack in target.attacks:
            for tool in ("query", "query_stream"):
                try:
                    passed[attack] = await client.tool(tool=tool, input={"sql": attack})
                except RrextError as refused:
                    if refused.code not in ("not_read_only", "invalid_arguments"):
                        passed[attack] = refused
            assert await asyncio.to_thread(target.state) == target.before, attack
    assert passed == {}


async def test_no_attack_gets_past_an_explanation(target: Target):
    async with target.served.open(statement_timeout=5.0) as client:
        for attack in target.attacks:
            with pytest.raises(RrextError):
                await client.tool(tool="query", input={"sql": attack, "explain": True})
            assert await asyncio.to_thread(target.state) == target.before, attack


@pytest.mark.system
async def test_what_hides_in_comments_and_literals_of_mariadb_does_nothing(mariadb_server, tmp_path):
    mariadb_server.start()
    served = Served(MysqlNode, mariadb_server, mariadb_server.create_database("served"), "", "", "", "")
    target = Target(served, tmp_path / "written")
    async with served.open() as client:
        for attack in MARIADB_DISARMED:
            with contextlib.suppress(RrextError):
                await client.tool(tool="query", input={"sql": attack.replace("{file}", str(target.file))})
            assert target.state() == target.before, attack
    target.victim.close()


def test_the_gate_names_every_attack_as_what_it_is(target: Target):
    for attack in target.attacks:
        with pytest.raises(RrextError) as refused:
            read_only(attack, DIALECTS[target.dialect])
        assert refused.value.code in ("not_read_only", "invalid_arguments"), attack


WRITES = (
    *("INSERT", "REPLACE", "UPDATE", "DELETE", "TRUNCATE", "MERGE", "WITH", "DROP", "ALTER", "RENAME", "CREATE", "GRANT"),
    "DO $$",
)


def test_the_database_itself_refuses_every_write_that_gets_past_the_gate(target: Target):
    """The second wall alone: what would change tables and definitions, also in functions and comments."""
    for attack in target.attacks:
        hidden = "kept" in attack and "{" not in attack and "LOCK" not in attack and "COPY" not in attack
        if not (attack.startswith(WRITES) or (hidden and "DELETE" in attack and "dblink" not in attack)):
            continue
        if attack.startswith(("ALTER SYSTEM", "PREPARE")):  # the latter only writes when it is executed
            continue
        assert target.refusal_of(attack) is not None, attack
        assert target.state() == target.before, attack


@pytest.mark.parametrize("then", ["DELETE FROM kept", "INSERT INTO kept VALUES (7, 'x')", "CREATE TABLE made (a int)"])
def test_nothing_makes_the_read_only_transaction_a_writing_one(target: Target, then: str):
    unlocks = {
        "postgres": ["SET TRANSACTION READ WRITE", "SELECT set_config('transaction_read_only', 'off', true)", "SAVEPOINT s"],
        "mysql": ["SET TRANSACTION READ WRITE", "SAVEPOINT s", "SELECT 1"],
    }[target.dialect]
    for unlock in unlocks:
        assert target.refusal_of(unlock, then) is not None, unlock
        assert target.state() == target.before, unlock


@pytest.mark.system
@pytest.mark.parametrize("list_of", ["postgres", "mysql"])
async def test_the_gates_own_attacks_do_nothing_to_debians_servers(
    list_of: str, tmp_path: Path, request: pytest.FixtureRequest
):
    """The same attacks that the gate is tested with, as an administrator of the server, who may do everything."""
    server = request.getfixturevalue("mariadb_server" if list_of == "mysql" else "debian_postgres")
    server.start()
    database = server.create_database("served")
    database.run(*VICTIMS[list_of])
    await asyncio.to_thread(tmp_path.chmod, 0o777)  # the server runs as somebody else
    node = MysqlNode if list_of == "mysql" else PostgresNode
    served = Served(node, server, database, "", "", "", "")

    async def look() -> dict[str, Any]:
        return {"rows": await asyncio.to_thread(database.run, LOOKS[list_of])}

    world = World(tmp_path, look)
    world.prepare()
    wanted = attacks(list_of)
    assert len(wanted) >= 60
    async with served.open(allow_execute=False, statement_timeout=1.0) as client:
        broken = {attack.sql: await broken_by(attack, world, lambda sql: client.database.query(sql)) for attack in wanted}
    assert {sql: done for sql, (done, _) in broken.items() if done} == {}


VICTIMS = {
    "postgres": [
        "CREATE TABLE victim (id int PRIMARY KEY, name text)",
        "INSERT INTO victim VALUES (1, 'a'), (2, 'b')",
        "CREATE SEQUENCE counter",
        "CREATE MATERIALIZED VIEW shown AS SELECT * FROM victim",
        "CREATE FUNCTION destroy() RETURNS int LANGUAGE sql AS 'DELETE FROM victim RETURNING 1'",
        "CREATE PROCEDURE destroy_all() LANGUAGE sql AS 'DELETE FROM victim'",
    ],
    "mysql": [
        "CREATE TABLE victim (id int PRIMARY KEY, name varchar(50))",
        "INSERT INTO victim VALUES (1, 'a'), (2, 'b')",
        "CREATE SEQUENCE counter",
        "CREATE FUNCTION destroy() RETURNS int BEGIN DELETE FROM victim; RETURN 1; END",
        "CREATE PROCEDURE destroy_all() DELETE FROM victim",
    ],
}
LOOKS = {
    "postgres": """SELECT (SELECT array_agg(victim::text ORDER BY id) FROM victim), (SELECT last_value FROM counter),
      (SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace), (SELECT count(*) FROM pg_roles),
      (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), (SELECT count(*) FROM pg_replication_slots)""",
    "mysql": """SELECT (SELECT GROUP_CONCAT(id, name ORDER BY id) FROM victim), (SELECT next_not_cached_value FROM counter),
      (SELECT count(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'served'), (SELECT count(*) FROM mysql.global_priv),
      @@max_connections""",
}
