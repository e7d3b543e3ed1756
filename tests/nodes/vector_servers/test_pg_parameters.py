"""A node connects to the server that its settings name, and to no other; why it could not is said without secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from free_ports import free_port
from pg_stores import call, open_store, settings_of
from postgres_server import Database

from rrext.errors import RrextError, ToolError, Unavailable
from rrext.nodes.databases.postgres import PostgresSettings, confined_parameters, connection_parameters, place_of


def parameters(**settings: Any) -> dict[str, str]:
    given = PostgresSettings()
    for name, value in settings.items():
        setattr(given, name, value)
    return connection_parameters(given)


def test_variables_and_files_of_the_process_change_nothing(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pass").write_text("*:*:*:*:from-a-file\n")
    (tmp_path / "pass").chmod(0o600)
    for name, value in {
        "PGHOST": "/nowhere",
        "PGHOSTADDR": "10.255.255.1",
        "PGDATABASE": "nowhere",
        "PGPASSFILE": str(tmp_path / "pass"),
        "PGPASSWORD": "wrong",
        "PGOPTIONS": "-c search_path=nowhere",
        "PGSSLMODE": "verify-full",
        "PGSSLROOTCERT": "/nowhere",
        "PGTARGETSESSIONATTRS": "standby",
        "PGAPPNAME": "somebody else",
        "PGCLIENTENCODING": "LATIN1",
        "PGREQUIRESSL": "1",
    }.items():
        monkeypatch.setenv(name, value)
    with psycopg.connect(**parameters(**postgres_database.settings)) as connection:  # pyright: ignore[reportArgumentType]
        row = connection.execute(
            "SELECT current_database(), current_setting('search_path'), current_setting('application_name')"
        )
        assert row.fetchone() == (postgres_database.name, '"$user", public', "rrext")
    with pytest.raises(psycopg.OperationalError, match="no password supplied"):
        psycopg.connect(**parameters(**{**postgres_database.settings, "password": ""}))  # pyright: ignore[reportArgumentType]


def test_a_url_says_all_or_a_part(postgres_database: Database) -> None:
    whole = parameters(url=postgres_database.url)
    assert place_of(whole) == place_of(parameters(**postgres_database.settings))
    assert whole["password"] == postgres_database.password
    part = parameters(url="postgres+psycopg://db.example/data?sslmode=require", user="reader", password="p", port=5433)
    assert place_of(part) == 'PostgreSQL at db.example:5433 (database "data", user "reader")'
    assert part["sslmode"] == "require"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://user:secret@host/data",
        "postgresql://user:se%zzcret@host/data",
        "postgresql://user:secret@host/data?passfile=/etc/passwd",
        "postgresql://user:secret@host/data?sslkeylogfile=/tmp/x",
        "postgresql://user:secret@host/data?connect_timeout=soon",
        "host=db password=secret",
        "secret",
    ],
)
def test_a_url_that_is_none_or_asks_for_files_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(Unavailable) as failure:
        parameters(url=url)
    assert "cret" not in f"{failure.value} {failure.value.hint} {failure.value.data}"


def test_a_confined_node_reaches_neither_sockets_nor_files_outside(tmp_path: Path) -> None:
    for host in (str(tmp_path), "@abstract", f"db.example,{tmp_path}"):
        with pytest.raises(Unavailable, match="socket"):
            confined_parameters(parameters(host=host), path=str, confined=True)
    with pytest.raises(Unavailable, match="socket"):
        confined_parameters(parameters(url="postgresql:///data?host=/tmp"), path=str, confined=True)
    asked: list[str] = []
    confined_parameters(parameters(sslrootcert="ca.pem"), path=lambda name: asked.append(name) or name, confined=True)
    assert asked == ["ca.pem"]


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "wrong password": ({"password": "hunter2"}, "connection_refused", "password authentication failed"),
    "no password": ({"password": ""}, "connection_refused", "no password supplied"),
    "no such database": ({"database": "nowhere"}, "connection_refused", 'database "nowhere" does not exist'),
    "no TLS there": ({"sslmode": "require"}, "connection_refused", "does not support SSL"),
    "nobody listens": ({"port": free_port()}, "unavailable", "Connection refused"),
    "no such socket": ({"host": "/nowhere"}, "unavailable", "No such file or directory"),
    "no such host": ({"host": "nowhere.invalid"}, "unavailable", "nowhere.invalid"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_why_it_could_not_connect_is_said_at_once_with_what_to_do(postgres_database: Database, case: str) -> None:
    changes, code, reason = REFUSED[case]
    store = open_store(postgres_database, settings=changes)
    with pytest.raises(RrextError) as failure:
        store.stats(call())
    assert failure.value.code == code
    assert reason in failure.value.message
    assert failure.value.hint
    told = f"{failure.value} {failure.value.hint} {failure.value.data}"
    assert "hunter2" not in told
    assert postgres_database.password not in told
    assert failure.value.__cause__ is None, "what the driver raised goes no further"
    store.close()


def test_a_store_is_there_again_when_its_server_is(postgres_server: Any, postgres_database: Database) -> None:
    store = open_store(postgres_database)
    assert store.space(call()) is None
    postgres_server.stop()
    with pytest.raises((ToolError, Unavailable)) as failure:
        store.space(call())
    assert failure.value.code in ("connection_lost", "unavailable")
    with pytest.raises(Unavailable):
        store.space(call())
    postgres_server.start()
    assert store.space(call()) is None
    postgres_server.restart()
    assert store.space(call()) is None, "a connection that ended while nobody used it is no failure"
    store.close()


def test_a_place_names_no_password() -> None:
    assert "secret" not in place_of(connection_parameters(settings_of(Database("h", 1, "u", "secret", "d", Path("/")))))
