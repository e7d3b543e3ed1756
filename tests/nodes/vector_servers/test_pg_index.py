"""The index of a large table is built beside the calls, by one process, and not while the store is closed."""

from __future__ import annotations

import logging

import pytest
from pg_stores import call, chunk, fill, names, open_store, until
from postgres_server import Database

from rrext.nodes.vectors.postgres.store import PgVectorStore

BUILDING = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND state = 'active'"


def index_of(store: PgVectorStore) -> str:
    return store.stats(call()).details["index"]


def filled(database: Database) -> PgVectorStore:
    store = open_store(database, threshold=20)
    fill(store, [chunk(f"o{n}", content=f"number {n}") for n in range(30)])
    return store


def test_filling_builds_no_index_and_searching_does(postgres_database: Database) -> None:
    store = filled(postgres_database)
    assert index_of(store) == "none"
    names(store, "number 3", "keyword")
    assert index_of(store) == "none", "words need no index of vectors"
    names(store, "number 3", "dense")
    until(lambda: index_of(store) == "hnsw", "the index is built")
    store.close()


def test_a_build_waits_for_no_call_and_ends_with_its_store(postgres_database: Database) -> None:
    store = filled(postgres_database)
    with postgres_database.connect() as other:
        other.execute("BEGIN")
        other.execute("DELETE FROM chunks WHERE object_id = 'o1'")
        names(store, "number 3", "dense")
        until(lambda: postgres_database.run(BUILDING) == [(1,)], "the build waits for the other transaction")
        assert index_of(store) == "building"
        assert names(store, "number 3", "dense", top_k=1) == ["o3/0"]
        fill(store, [chunk("new", content="number 99")])
        assert names(store, "number 99", "dense", top_k=1) == ["new/0"]
        store.close()
        until(lambda: postgres_database.run(BUILDING) == [(0,)], "the build is over")
    again = open_store(postgres_database, threshold=20)
    assert names(again, "number 3", "dense", top_k=1) == ["o3/0"]
    until(lambda: index_of(again) == "hnsw", "what was left is built anew")
    assert postgres_database.run("SELECT count(*) FROM pg_index WHERE NOT indisvalid") == [(0,)]
    again.close()


def test_one_process_builds_and_the_others_go_on(postgres_database: Database) -> None:
    store, other = filled(postgres_database), open_store(postgres_database, threshold=20)
    for one in (store, other):
        names(one, "number 3", "dense")
    until(lambda: index_of(store) == index_of(other) == "hnsw", "the index is built")
    indexes = "SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE amname = 'hnsw'"
    assert postgres_database.run(indexes) == [(1,)]
    for one in (store, other):
        one.close()


def test_an_index_that_cannot_be_built_is_logged_and_searches_go_on(
    postgres_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    filled(postgres_database).close()
    postgres_database.run(
        "DROP ROLE IF EXISTS guest",
        "CREATE ROLE guest LOGIN PASSWORD 'only'",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest",
    )
    guest = open_store(postgres_database, {"user": "guest", "password": "only"}, threshold=20)
    with caplog.at_level(logging.WARNING, "rrext.store_pgvector"):
        assert names(guest, "number 3", "dense", top_k=1) == ["o3/0"]
        until(lambda: bool(caplog.records), "the failure is logged")
    assert "must be owner" in caplog.records[0].getMessage()
    assert index_of(guest) == "none"
    guest.close()
    postgres_database.run("DROP OWNED BY guest", "DROP ROLE guest")
