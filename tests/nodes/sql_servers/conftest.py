"""The servers of this folder: PostgreSQL 18 in plain tests; Debian's PostgreSQL 15 and MariaDB in `system` tests."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from mariadb_server import MariadbServer, running_mariadb
from postgres_server import DEBIAN_POSTGRES, PostgresServer, running_postgres
from served import Served

from rrext.nodes.sql.mysql import MysqlNode
from rrext.nodes.sql.postgres.node import PostgresNode

# What all SQL backends do alike, and what none may do.
sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("sql", "sql_gate")]
DATABASE = "served"


@pytest.fixture(scope="session")
def debian_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL 15 with the extensions that come with it, `dblink` among them."""
    with running_postgres(DEBIAN_POSTGRES) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariadbServer]:
    """A MariaDB."""
    with running_mariadb() as server:
        yield server


@pytest.fixture(scope="session")
def certificates() -> Iterator[Path]:
    """A folder with `server.crt` and `server.key` for 127.0.0.1, signed by themselves, that servers can read."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "server.key", "-out", "server.crt"]
    with tempfile.TemporaryDirectory(prefix="rrext-tls-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        (folder / "server.key").chmod(0o600)
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(folder / "server.key", nobody.pw_uid, nobody.pw_gid)
        yield folder


@pytest.fixture(
    params=[
        "postgres_server",
        pytest.param("debian_postgres", marks=pytest.mark.system),
        pytest.param("mariadb_server", marks=pytest.mark.system),
    ]
)
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    """A fresh database, on each kind of server in turn. The server runs again after a test that stopped it."""
    server = request.getfixturevalue(request.param)
    server.start()
    database = server.create_database(DATABASE)
    if isinstance(server, MariadbServer):
        yield Served(
            node=MysqlNode,
            server=server,
            database=database,
            sleep="SELECT SLEEP(60)",
            running="SELECT count(*) FROM information_schema.PROCESSLIST WHERE INFO = 'SELECT SLEEP(60)'",
            many="SELECT seq FROM seq_1_to_1000000",
            boolean="1",
        )
    else:
        yield Served(
            node=PostgresNode,
            server=server,
            database=database,
            sleep="SELECT pg_sleep(60)",
            running="SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = 'SELECT pg_sleep(60)'",
            many="SELECT n FROM generate_series(1, 1000000) AS s (n)",
            boolean="true",
        )
    server.start()
