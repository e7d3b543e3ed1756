"""A real MariaDB for `system` tests: Debian's package, in a folder and on a port of its own, never the system's service."""

from __future__ import annotations

import contextlib
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
from postgres_server import OWN_SERVER_TIMEOUT, unprivileged

if TYPE_CHECKING:
    import pymysql

SERVER = "/usr/sbin/mariadbd"
PASSWORD = "right/pass word@1"  # what a URL must quote
SETTINGS = {
    "bind-address": "127.0.0.1",
    "max-connections": "40",
    "innodb-buffer-pool-size": "32M",
    "innodb-log-file-size": "8M",
    "innodb-flush-log-at-trx-commit": "0",
    "default-time-zone": "+00:00",
    "secure-file-priv": "",  # FILE may go everywhere: what a test must see refused is refused by us
    "local-infile": "1",
}


@dataclass(frozen=True)
class MariaDatabase:
    """Where one database is: what a node's settings need."""

    host: str
    port: int
    user: str
    password: str
    name: str

    @property
    def url(self) -> str:
        """`mysql://user:password@host:port/name`, quoted."""
        from urllib.parse import quote

        return f"mysql://{quote(self.user)}:{quote(self.password, safe='')}@{self.host}:{self.port}/{self.name}"

    @property
    def settings(self) -> dict[str, Any]:
        """As a node's settings have it."""
        return {"host": self.host, "port": self.port, "user": self.user, "password": self.password, "database": self.name}

    def connect(self) -> pymysql.Connection[Any]:
        """A connection of a test's own, where every statement takes effect at once."""
        import pymysql

        return pymysql.connect(
            host=self.host, port=self.port, user=self.user, password=self.password, database=self.name, autocommit=True
        )

    def run(self, *statements: str) -> tuple[tuple[Any, ...], ...]:
        """Run statements on a connection of their own; the last one's rows."""
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()


class MariadbServer:
    """One server with a folder and a port of its own; `stop`, `start` and `restart` keep both."""

    __slots__ = ("_extra", "_server", "_temporary", "_watch", "folder", "host", "password", "port", "user")

    def __init__(self, **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rrext-maria-"))
        # A server that starts removes every `#sql…` in its folder for temporary tables, also those of another server that runs.
        self._temporary = self.folder / "tmp"
        self._temporary.mkdir()
        self.host = "127.0.0.1"
        self.port = free_port()
        self.user = "root"
        self.password = PASSWORD
        self._extra = settings
        self._server: subprocess.Popen[bytes] | None = None
        # A shell whose input ends when this process does, however it does.
        last_will = 'read _; kill -KILL $(cat "$0/pid"); rm -rf "$0"'
        self._watch: subprocess.Popen[bytes] = subprocess.Popen(
            ["sh", "-c", last_will, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self._create()
            self.start()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<MariadbServer at {self.host}:{self.port}, {'running' if self.running else 'stopped'}>"

    @property
    def running(self) -> bool:
        return self._server is not None and self._server.poll() is None

    @property
    def log(self) -> str:
        """What the server has written so far."""
        return (self.folder / "log").read_text()

    def database(self, name: str = "mysql") -> MariaDatabase:
        """Where a database of this server is, whether it exists or not."""
        return MariaDatabase(self.host, self.port, self.user, self.password, name)

    def create_database(self, name: str) -> MariaDatabase:
        """A fresh, empty database; one of that name is dropped first."""
        self.database().run(f"DROP DATABASE IF EXISTS `{name}`", f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        return self.database(name)

    def start(self) -> None:
        """Start the server if it does not run, and wait until it takes connections."""
        if self.running:
            return
        before = self.log.count("ready for connections") if (self.folder / "log").exists() else 0
        settings = {
            **SETTINGS,
            "datadir": str(self.folder / "data"),
            "socket": str(self.folder / "socket"),
            "pid-file": str(self.folder / "pid"),
            "tmpdir": str(self._temporary),
            "port": str(self.port),
            **self._extra,
        }
        # As root it goes down to `nobody` by itself.
        user = ["--user=nobody"] if os.geteuid() == 0 else []
        command = [SERVER, "--no-defaults", *user, *(f"--{name}={value}" for name, value in settings.items())]
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, cwd="/")
        deadline = time.monotonic() + OWN_SERVER_TIMEOUT
        while self.log.count("ready for connections") == before:
            assert self.running, f"MariaDB did not start:\n{self.log}"
            assert time.monotonic() < deadline, f"MariaDB is not ready:\n{self.log}"
            time.sleep(0.01)

    def stop(self) -> None:
        """End the server in order; whoever is connected is cut off."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """`stop` and `start`: all connections are lost, the data stays."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End the server and remove its folder."""
        self._end(signal.SIGKILL)
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

    def _create(self) -> None:
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
            os.chown(self._temporary, nobody.pw_uid, nobody.pw_gid)
        folders = [f"--datadir={self.folder / 'data'}", f"--tmpdir={self._temporary}"]
        command = ["mariadb-install-db", "--no-defaults", *folders, "--skip-test-db"]
        command += ["--auth-root-authentication-method=normal", "--innodb-log-file-size=8M"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **unprivileged())
        set_password = f"FLUSH PRIVILEGES;\nALTER USER root@localhost IDENTIFIED BY '{PASSWORD}';\n"
        bootstrap = [SERVER, "--no-defaults", "--bootstrap", *folders, "--innodb-log-file-size=8M"]
        subprocess.run(
            bootstrap, input=set_password.encode(), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            **unprivileged(),
        )  # fmt: skip


@contextlib.contextmanager
def running_mariadb(**settings: str) -> Iterator[MariadbServer]:
    """A server for as long as the block runs."""
    server = MariadbServer(**settings)
    try:
        yield server
    finally:
        server.close()
