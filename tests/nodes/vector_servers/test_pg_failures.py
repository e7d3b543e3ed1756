"""Calls that are cancelled, too late or too many; users without rights; processes that race or are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pg_child import BATCH
from pg_stores import SIZE, SPACE, call, chunk, fill, names, open_store, until, vectors_of
from postgres_server import Database, PostgresServer

from rrext.errors import Cancelled, RrextError, ToolError, ToolTimeout, Unavailable
from rrext.nodes.vectors.postgres import connection_pool
from rrext.nodes.vectors.postgres.store import PgVectorStore
from rrext.nodes.vectors.store import Scope, Search
from rrext.tools.context import CancelToken, ToolContext

HERE = Path(__file__).parent
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rrext' AND wait_event_type = 'Lock'"
BUSY = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rrext' AND state <> 'idle'"
CHILD_PATH = os.pathsep.join([str(HERE), str(HERE.parents[1]), str(HERE.parents[2])])


class Outcome:
    """A call on a thread of its own, and how it ended."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.error: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.error = error

    def wait(self) -> BaseException | None:
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self.error


def locked(database: Database, table: str = "chunks") -> psycopg.Connection[Any]:
    """A connection that holds a table for itself until it is closed."""
    connection = database.connect()
    connection.execute("BEGIN")
    connection.execute(f'LOCK TABLE "{table}"'.encode())
    return connection


CALLS: dict[str, Callable[[PgVectorStore, ToolContext], Any]] = {
    "search": lambda store, ctx: store.search(Search("hybrid", 3, "words", [1.0] * SIZE), ctx),
    "upsert": lambda store, ctx: store.upsert([chunk("b")], [[1.0] * SIZE], SPACE, ctx),
    "delete": lambda store, ctx: store.delete(Scope(prefix="/"), ctx),
    "stats": lambda store, ctx: store.stats(ctx),
}


@pytest.mark.parametrize("name", CALLS)
def test_who_cancels_ends_the_statement_in_the_server(store: PgVectorStore, postgres_database: Database, name: str) -> None:
    fill(store, [chunk("a")])
    token = CancelToken()
    with locked(postgres_database):
        outcome = Outcome(lambda: CALLS[name](store, call(token=token)))
        until(lambda: postgres_database.run(WAITING) == [(1,)], "the statement waits")
        token.cancel()
        assert isinstance(outcome.wait(), Cancelled)
        until(lambda: postgres_database.run(WAITING) == [(0,)], "the statement is over")
    assert names(store, "some words") == ["a/0"], "nothing was changed, and the store goes on"


def test_the_server_ends_a_statement_at_the_deadline_of_its_call(store: PgVectorStore, postgres_database: Database) -> None:
    fill(store, [chunk("a")])
    with locked(postgres_database):
        # Nothing cancels this call here: only the server knows its deadline.
        outcome = Outcome(lambda: names_before_deadline(store))
        assert isinstance(outcome.wait(), ToolTimeout)
    assert names(store, "some words") == ["a/0"]


def names_before_deadline(store: PgVectorStore) -> None:
    store.search(Search("keyword", 3, "words"), call(0.2))


def test_a_server_that_does_not_heed_a_cancel_is_left_alone(
    store: PgVectorStore, postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_pool, "CUT_AFTER", 0.3)
    fill(store, [chunk("a")])
    pids = "SELECT pid FROM pg_stat_activity WHERE application_name = 'rrext' AND wait_event_type = 'Lock'"
    token = CancelToken()
    with locked(postgres_database):
        outcome = Outcome(lambda: store.stats(call(token=token)))
        until(lambda: len(postgres_database.run(pids)) == 1, "the statement waits")
        pid = postgres_database.run(pids)[0][0]
        os.kill(pid, signal.SIGSTOP)
        try:
            token.cancel()
            assert isinstance(outcome.wait(), Cancelled)
        finally:
            os.kill(pid, signal.SIGCONT)
    assert names(store, "some words") == ["a/0"]


def test_a_call_waits_for_a_connection_until_it_is_cancelled_or_late(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(postgres_database, connections=1)
    fill(store, [chunk("a")])
    first, second = CancelToken(), CancelToken()
    with locked(postgres_database):
        holder = Outcome(lambda: store.stats(call(token=first)))
        until(lambda: postgres_database.run(WAITING) == [(1,)], "the only connection is in use")
        waiter = Outcome(lambda: store.stats(call(token=second)))
        with pytest.raises(ToolTimeout):
            store.stats(call(0.05))
        monkeypatch.setattr(store._connections._pool, "_wait", 0.05)
        with pytest.raises(ToolError) as failure:
            store.stats(ToolContext())
        assert failure.value.code == "database_busy"
        second.cancel()
        assert isinstance(waiter.wait(), Cancelled)
        first.cancel()
        assert isinstance(holder.wait(), Cancelled)
    assert store.stats(call()).chunks == 1
    store.close()


def test_a_store_that_is_closed_lets_go_of_its_connections(store: PgVectorStore, postgres_database: Database) -> None:
    fill(store, [chunk("a")])
    mine = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rrext'"
    assert postgres_database.run(mine) == [(1,)]
    store.close()
    until(lambda: postgres_database.run(mine) == [(0,)], "the connections are closed")
    with pytest.raises(Unavailable):
        store.stats(call())


def test_a_lost_connection_is_told_and_the_next_call_connects_again(store: PgVectorStore, postgres_database: Database) -> None:
    fill(store, [chunk("a")])
    with locked(postgres_database):
        outcome = Outcome(lambda: fill(store, [chunk("b")]))
        until(lambda: postgres_database.run(WAITING) == [(1,)], "the statement waits")
        postgres_database.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rrext'")
        error = outcome.wait()
        assert isinstance(error, ToolError)
        assert error.code == "connection_lost"
    assert names(store, "some words") == ["a/0"]


def test_a_server_that_dies_keeps_what_was_answered(postgres_server: PostgresServer, postgres_database: Database) -> None:
    # The test server answers before it has written; a real one does not.
    postgres_database.run(f"ALTER DATABASE {postgres_database.name} SET synchronous_commit = on")
    store = open_store(postgres_database)
    for n in range(20):
        fill(store, [chunk(f"o{n}")])
    postgres_server.crash()
    with pytest.raises(RrextError):
        store.stats(call())
    postgres_server.start()
    assert store.stats(call()).chunks == 20
    store.close()


def test_a_user_who_only_reads_reads_and_is_told_what_it_may_not(store: PgVectorStore, postgres_database: Database) -> None:
    fill(store, [chunk("a")])
    postgres_database.run(
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader LOGIN PASSWORD 'only'",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
    )
    reader = open_store(postgres_database, {"user": "reader", "password": "only"})
    assert names(reader, "some words") == ["a/0"]
    assert reader.stats(call()).chunks == 1
    for change in (lambda: fill(reader, [chunk("b")]), lambda: reader.delete(Scope(prefix="/"), call())):
        with pytest.raises(ToolError) as failure:
            change()
        assert failure.value.code == "not_permitted"
        assert "permission denied for table chunks" in failure.value.message
    reader.close()
    elsewhere = open_store(postgres_database, {"user": "reader", "password": "only"}, table="mine")
    with pytest.raises(ToolError) as failure:
        fill(elsewhere, [chunk("b")])
    assert failure.value.code == "not_permitted"
    elsewhere.close()
    postgres_database.run("DROP OWNED BY reader", "DROP ROLE reader")


def test_a_session_that_may_only_read_is_told_so(store: PgVectorStore, postgres_database: Database) -> None:
    fill(store, [chunk("a")])
    store.close()
    postgres_database.run(f"ALTER DATABASE {postgres_database.name} SET default_transaction_read_only = on")
    standby = open_store(postgres_database)
    with pytest.raises(ToolError) as failure:
        fill(standby, [chunk("b")])
    assert failure.value.code == "not_permitted"
    assert "read-only" in failure.value.message
    standby.close()


def test_without_the_extension_it_is_said_what_creates_it(postgres_database: Database) -> None:
    postgres_database.run("DROP ROLE IF EXISTS writer", "CREATE ROLE writer LOGIN PASSWORD 'only'")
    postgres_database.run("GRANT CREATE ON SCHEMA public TO writer")
    writer = open_store(postgres_database, {"user": "writer", "password": "only"})
    with pytest.raises(Unavailable) as failure:
        fill(writer, [chunk("a")])
    assert "CREATE EXTENSION vector" in str(failure.value.hint)
    postgres_database.run("CREATE EXTENSION vector")
    fill(writer, [chunk("a")])
    assert names(writer, "some words") == ["a/0"], "it needs no new store when the extension is there"
    writer.close()
    postgres_database.run("DROP OWNED BY writer", "DROP ROLE writer")


def test_an_extension_in_a_schema_of_its_own_is_found(postgres_database: Database) -> None:
    postgres_database.run("CREATE SCHEMA extensions", "CREATE EXTENSION vector SCHEMA extensions")
    store = open_store(postgres_database, schema="app", threshold=1)
    fill(store, [chunk("a"), chunk("b", content="other things")])
    assert names(store, "some words", "dense", top_k=1) == ["a/0"]
    until(lambda: store.stats(call()).details["index"] == "hnsw", "the index is built")
    assert names(store, "some words", "hybrid", top_k=1) == ["a/0"]
    store.close()


def child(database: Database, table: str, name: str, batches: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(HERE / "pg_child.py"), database.url, table, name, str(batches)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": CHILD_PATH},
    )


def test_processes_that_create_the_same_store_at_once_share_it(postgres_database: Database) -> None:
    children = [child(postgres_database, "shared", f"p{n}", 3) for n in range(4)]
    for one in children:
        answered, _ = one.communicate(timeout=50)
        assert one.returncode == 0
        assert answered.split() == ["0", "1", "2"]
    store = open_store(postgres_database, table="shared")
    assert store.stats(call()).chunks == 4 * 3 * BATCH
    assert store.space(call()) == SPACE
    store.close()


def test_threads_that_create_stores_at_once_do_not_get_into_each_others_way(postgres_database: Database) -> None:
    stores = [open_store(postgres_database, schema=f"s{n % 2}", table=f"t{n % 3}") for n in range(8)]
    outcomes = [Outcome(lambda n=n, store=store: fill(store, [chunk(f"o{n}")])) for n, store in enumerate(stores)]
    assert [outcome.wait() for outcome in outcomes] == [None] * 8
    assert sum(store.stats(call()).chunks for store in stores[:6]) == 8
    for store in stores:
        store.close()


def test_a_killed_process_leaves_every_batch_whole_and_each_that_was_answered(postgres_database: Database) -> None:
    writer = child(postgres_database, "killed", "p", 100_000)
    assert writer.stdout is not None
    answered = [writer.stdout.readline().strip() for _ in range(5)]
    writer.kill()
    answered += writer.stdout.read().split()
    writer.wait()
    writer.stdout.close()
    until(
        lambda: postgres_database.run("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rrext'") == [(0,)],
        "the server has noticed",
    )
    rows = postgres_database.run("SELECT object_id, count(*) FROM killed GROUP BY object_id")
    assert {count for _, count in rows} == {BATCH}
    assert {f"p-{batch}" for batch in answered} <= {object_id for object_id, _ in rows}


def test_changes_of_the_same_chunks_in_any_order_all_succeed(store: PgVectorStore) -> None:
    fill(store, [chunk("a")])
    chunks = [chunk(f"o{n}", content=f"words {n}") for n in range(40)]

    def work(turn: int) -> None:
        for k in range(6):
            some = chunks[:: (-1) ** (turn + k)]
            store.upsert(some, vectors_of(some), SPACE, call())
            if turn == 0:
                store.delete(Scope(prefix="/"), call())

    outcomes = [Outcome(lambda turn=turn: work(turn)) for turn in range(4)]
    assert [outcome.wait() for outcome in outcomes] == [None] * 4
    assert store.stats(call()).chunks in (0, 40)


@pytest.mark.promise("vector:request:whole")
def test_a_request_of_many_statements_is_whole_when_its_process_is_killed(postgres_database: Database) -> None:
    store = open_store(postgres_database, table="killed")
    for answers in (1, 2, 4, 7):
        writer = child(postgres_database, "killed", "versions", 100_000)
        assert writer.stdout is not None
        answered = [int(writer.stdout.readline()) for _ in range(answers)][-1]
        writer.kill()
        answered = max([answered, *(int(line) for line in writer.stdout if line.endswith("\n"))])
        writer.wait()
        writer.stdout.close()
        until(lambda: postgres_database.run(BUSY) == [(0,)], "the server sees that its client is gone")
        kept = store.get("a", 0, 1000, call()).chunks
        version = int(kept[0].content.split()[1])
        assert version in (answered, answered + 1)
        assert len(kept) == BATCH - version % 3 * 10
        assert {one.content.split()[1] for one in kept} == {str(version)}
    store.close()
