"""Settings of the nodes of database servers: TLS, what the surroundings may not add, and what a confined node may not use."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mariadb_server import MariadbServer, running_mariadb
from postgres_server import DEBIAN_POSTGRES, Database, PostgresServer, running_postgres
from served import Served

from rrext.errors import RrextError, ToolError, Unavailable
from rrext.nodes.sql.mysql import MysqlNode
from rrext.nodes.sql.postgres.node import PostgresNode
from rrext.testing import open_node

system = pytest.mark.system
CIPHER = "WHERE VARIABLE_NAME = 'Ssl_cipher'"


async def answer(node: Any, settings: dict[str, Any], sql: str = "SELECT 1 AS one", **how: Any) -> Any:
    """The first cell of a query on a node with these settings."""
    async with open_node(node, settings, **how) as client:
        return (await client.tool(tool="query", input={"sql": sql, "row_mode": "array"}))["rows"][0][0]


async def refusal(node: Any, settings: dict[str, Any], **how: Any) -> RrextError:
    with pytest.raises(RrextError) as refused:
        await answer(node, settings, **how)
    return refused.value


# what the surroundings may not add


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PGHOST", "elsewhere.invalid"),
        ("PGHOSTADDR", "192.0.2.1"),
        ("PGPORT", "1"),
        ("PGDATABASE", "other"),
        ("PGUSER", "other"),
        ("PGOPTIONS", "-c search_path=evil"),
        ("PGSSLMODE", "require"),
        ("PGTARGETSESSIONATTRS", "standby"),
        ("PGAPPNAME", "evil"),
    ],
)
async def test_variables_of_postgresql_change_nothing(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
):
    monkeypatch.setenv(variable, value)
    sql = "SELECT current_setting('application_name') || current_setting('search_path')"
    assert await answer(PostgresNode, postgres_database.settings, sql) == 'rrext"$user", public'


@pytest.mark.parametrize("variable", ["PGSERVICE", "PGREQUIREAUTH"])
async def test_a_variable_that_no_setting_undoes_is_named(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch, variable: str
):
    monkeypatch.setenv(variable, "none")
    refused = await refusal(PostgresNode, postgres_database.settings)
    assert refused.code == "connection_refused"
    assert variable in str(refused.hint)


async def test_no_password_of_the_surroundings_is_used(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    home = tmp_path / "home"
    home.mkdir()
    passfile = home / ".pgpass"
    passfile.write_text(f"*:*:*:*:{postgres_database.password.replace(':', chr(92) + ':')}\n")
    passfile.chmod(0o600)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    monkeypatch.setenv("PGPASSWORD", postgres_database.password)
    refused = await refusal(PostgresNode, {**postgres_database.settings, "password": ""})
    assert refused.code == "connection_refused"
    assert "no password supplied" in refused.message


@system
async def test_no_option_file_of_mysql_is_read(mariadb_server: MariadbServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    mariadb_server.start()
    (tmp_path / ".my.cnf").write_text(f"[client]\npassword={mariadb_server.password}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MYSQL_PWD", mariadb_server.password)
    settings = {**mariadb_server.database().settings, "password": ""}
    assert (await refusal(MysqlNode, settings)).code == "connection_refused"


# what a confined node may not use


async def test_a_socket_is_for_nodes_that_are_not_confined(postgres_server: PostgresServer, tmp_path: Path):
    settings = {**postgres_server.database().settings, "host": str(postgres_server.folder), "password": ""}
    assert await answer(PostgresNode, settings) == 1
    refused = await refusal(PostgresNode, settings, root=tmp_path)
    assert isinstance(refused, Unavailable)
    assert "confined to its root" in refused.message


async def test_a_url_reaches_no_socket_and_no_file_either(postgres_server: PostgresServer, tmp_path: Path):
    folder = str(postgres_server.folder).replace("/", "%2F")
    for url in (f"postgresql://postgres@{folder}/postgres", f"postgresql:///postgres?host={folder}"):
        assert "confined" in (await refusal(PostgresNode, {"url": url}, root=tmp_path)).message
    for parameter in ("passfile=/etc/passwd", "service=x", "sslkeylogfile=/tmp/x", "require_auth=none"):
        refused = await refusal(PostgresNode, {"url": f"{postgres_server.database().url}?{parameter}"})
        assert f"may not set {parameter.partition('=')[0]}" in refused.message


async def test_certificates_and_keys_stay_below_the_root(served: Served, tmp_path: Path):
    settings = {**served.database.settings, "sslmode": "verify-ca", "sslrootcert": "/etc/ssl/certs/ca-certificates.crt"}
    refused = await refusal(served.node, settings, root=tmp_path)
    assert "leads out of the root" in refused.message


@system
async def test_a_socket_of_mysql_stays_below_the_root(mariadb_server: MariadbServer, tmp_path: Path):
    mariadb_server.start()
    settings = {**mariadb_server.database().settings, "host": "unused.invalid", "socket": str(mariadb_server.folder / "socket")}
    assert await answer(MysqlNode, settings) == 1
    assert "leads out of the root" in (await refusal(MysqlNode, settings, root=tmp_path)).message
    assert await answer(MysqlNode, settings, root=mariadb_server.folder) == 1


async def test_settings_that_cannot_be_are_found_before_anything_runs(served: Served):
    for wrong in ({"port": 0}, {"port": 70000}, {"sslmode": "maybe"}, {"connect_timeout": 0}):
        with pytest.raises(RrextError) as refused:
            await answer(served.node, {**served.database.settings, **wrong})
        assert refused.value.code == "invalid_pipeline"


# secrets


def ask_for_the_password(listener: socket.socket, heard: list[bytes]) -> None:
    """Be a server that wants a password in clear text, and note what the client says."""

    def packet(number: int, payload: bytes) -> bytes:
        return len(payload).to_bytes(3, "little") + bytes([number]) + payload

    client, _ = listener.accept()
    with client:
        low, high = (0xF7FF).to_bytes(2, "little"), (0x0008).to_bytes(2, "little")  # no TLS, ways to log in by name
        greeting = b"\x0a8.0.0\0" + (1).to_bytes(4, "little") + b"12345678\0" + low + b"\x2d\x02\0" + high
        client.sendall(packet(0, greeting + b"\x15" + bytes(10) + b"123456789012\0mysql_native_password\0"))
        heard.append(client.recv(4096))
        client.sendall(packet(2, b"\xfemysql_clear_password\0"))
        heard.append(client.recv(4096))


async def test_no_server_gets_the_password_in_clear_text_without_tls():
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=ask_for_the_password, args=(listener, heard))
        serving.start()
        settings = {"host": "127.0.0.1", "port": listener.getsockname()[1], "password": "the-passw0rd"}
        refused = await refusal(MysqlNode, settings)
        serving.join()
    assert "clear text" in refused.message
    assert len(heard) == 2
    assert b"the-passw0rd" not in b"".join(heard)


async def test_a_connection_without_a_demand_for_tls_reads_no_certificates(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: pytest.fail("certificates are read"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
    assert "Connection refused" in (await refusal(MysqlNode, {"host": "127.0.0.1", "port": free})).message


@pytest.mark.promise("data:secrets:never-shown")
async def test_passwords_are_in_no_log_and_no_text_of_an_object(served: Served, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    async with served.open() as client:
        await client.tool(tool="query", input={"sql": "SELECT 1 AS a"})
        await asyncio.to_thread(served.server.restart)
        await client.tool(tool="query", input={"sql": "SELECT 1 AS a"})
        with pytest.raises(RrextError):
            await client.tool(tool="execute", input={"sql": "SELECT no_such_column"})
    async with served.open(password="not-the-passw0rd") as client:
        with pytest.raises(ToolError):
            await client.tool(tool="query", input={"sql": "SELECT 1 AS a"})
    assert served.database.password not in caplog.text
    assert "not-the-passw0rd" not in caplog.text


# TLS


@pytest.fixture(scope="module")
def tls_postgres(certificates: Path) -> Iterator[PostgresServer]:
    """A PostgreSQL that speaks TLS."""
    certificate, key = str(certificates / "server.crt"), str(certificates / "server.key")
    with running_postgres(DEBIAN_POSTGRES, ssl="on", ssl_cert_file=certificate, ssl_key_file=key) as server:
        yield server


@pytest.fixture(scope="module")
def tls_mariadb(certificates: Path) -> Iterator[MariadbServer]:
    """A MariaDB that speaks TLS."""
    certificate, key = str(certificates / "server.crt"), str(certificates / "server.key")
    with running_mariadb(**{"ssl-cert": certificate, "ssl-key": key}) as server:
        yield server


@system
@pytest.mark.parametrize("server", ["tls_postgres", "tls_mariadb"])
async def test_tls_is_used_and_verified_as_the_settings_say(server: str, certificates: Path, request: pytest.FixtureRequest):
    database = request.getfixturevalue(server).database()
    node, sql = {
        "tls_postgres": (PostgresNode, "SELECT ssl::int FROM pg_stat_ssl WHERE pid = pg_backend_pid()"),
        "tls_mariadb": (MysqlNode, "SELECT VARIABLE_VALUE <> '' FROM information_schema.SESSION_STATUS " + CIPHER),
    }[server]
    own = str(certificates / "server.crt")
    for mode, encrypted in (("disable", 0), ("prefer", 1), ("require", 1)):
        assert await answer(node, {**database.settings, "sslmode": mode}, sql) == encrypted, mode
    for mode in ("verify-ca", "verify-full"):
        assert await answer(node, {**database.settings, "sslmode": mode, "sslrootcert": own}, sql) == 1, mode
    stranger = {**database.settings, "sslmode": "verify-full"}
    assert "certificate" in (await refusal(node, stranger)).message.lower()
    elsewhere = {**database.settings, "host": "localhost", "sslmode": "verify-full", "sslrootcert": own}
    assert "localhost" in (await refusal(node, elsewhere)).message
