"""The PostgreSQL that tests are given."""

from __future__ import annotations

import psycopg
import pytest
from postgres_server import Database, PostgresServer


def test_it_is_a_real_server_with_pgvector(postgres_database: Database):
    rows = postgres_database.run("CREATE EXTENSION vector", "SELECT '[1,2]'::vector <-> '[1,4]'::vector, version()")
    assert rows[0][0] == 2.0
    assert rows[0][1].startswith("PostgreSQL 18")


def test_every_test_finds_an_empty_database(postgres_database: Database):
    assert postgres_database.run("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace") == [(0,)]


def test_a_wrong_password_is_refused(postgres_database: Database):
    right = postgres_database
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(host=right.host, port=right.port, user=right.user, password="wrong", dbname=right.name)


def test_a_restart_keeps_the_port_and_the_data(postgres_database: Database, postgres_server: PostgresServer):
    postgres_database.run("CREATE TABLE kept (a int)", "INSERT INTO kept VALUES (7)")
    postgres_server.restart()
    assert postgres_database.run("SELECT a FROM kept") == [(7,)]
