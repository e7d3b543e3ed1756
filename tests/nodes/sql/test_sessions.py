"""Transactions that outlive a call: whose they are, and that none is forgotten, whatever comes in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rrext.errors import Cancelled, RrextError, ToolError
from rrext.nodes.databases.calls import collected
from rrext.nodes.databases.database import DatabaseSession, TimerThread
from rrext.nodes.sql.database import PoolLimits, SqlDatabase
from rrext.nodes.sql.node import SqlCall
from rrext.nodes.sql.sqlite import MEMORY, SqliteBackend
from rrext.tools.context import ToolContext


def new_database(path: str = MEMORY, *, connections: int = 4, idle: float = 300.0) -> SqlDatabase:
    backend = SqliteBackend(path, create=True, lock_timeout=0.05, foreign_keys=True)
    return SqlDatabase(backend, PoolLimits(connections, 0.05, 30.0, idle))


@pytest.fixture
def database() -> Iterator[SqlDatabase]:
    made = new_database()
    yield made
    made.close()


def until(condition: Callable[[], object]) -> None:
    """Return when it holds; what threads do tells nobody."""
    pause = threading.Event()
    while not condition():
        pause.wait(0.001)


def asker(connection: str | None = "c1") -> ToolContext:
    return ToolContext(connection_id=connection)


def test_a_connection_lost_while_its_session_begins_leaves_none(database: SqlDatabase) -> None:
    ctx = asker()
    begin = database.begin

    def begin_slowly(ctx: ToolContext, *, read_only: bool):
        transaction = begin(ctx, read_only=read_only)
        ctx.token.cancel("disconnected")  # as the engine does: first the calls, then the listeners
        database.sessions.lost("c1")
        return transaction

    database.sessions._begin = begin_slowly
    with pytest.raises(Cancelled):
        database.sessions.begin(ctx)
    assert len(database.sessions) == 0
    assert database.connections_in_use == 0


def test_a_connection_lost_right_after_its_session_began_leaves_none(database: SqlDatabase) -> None:
    database.sessions.begin(asker())
    kept = database.sessions.begin(asker("c2"))
    database.sessions.lost("c1")
    assert len(database.sessions) == 1
    assert database.connections_in_use == 1
    with database.sessions.using(kept.id, asker("c2")) as session:
        assert session is kept


def test_a_connection_lost_while_its_session_is_used_ends_it_after_the_use(database: SqlDatabase) -> None:
    session = database.sessions.begin(asker())
    with database.sessions.using(session.id, asker()):
        database.sessions.lost("c1")
        assert database.connections_in_use == 1  # whoever uses the connection must not lose it under his hands
        assert len(database.sessions) == 0
    assert database.connections_in_use == 0


def test_who_waits_for_a_session_that_ends_is_told_so(database: SqlDatabase) -> None:
    session = database.sessions.begin(asker())
    told: list[str] = []

    def wait() -> None:
        try:
            with database.sessions.using(session.id, asker()):
                told.append("used")
        except ToolError as error:
            told.append(error.code)

    with database.sessions.using(session.id, asker()) as used:
        waiting = threading.Thread(target=wait)
        waiting.start()
        used.end()
    waiting.join(20)
    assert told == ["session_not_found"]


def test_who_waits_for_a_session_may_be_cancelled(database: SqlDatabase) -> None:
    session = database.sessions.begin(asker())
    ctx = asker()
    failed: list[BaseException] = []

    def wait() -> None:
        try:
            with database.sessions.using(session.id, ctx):
                pass
        except Cancelled as error:
            failed.append(error)

    with database.sessions.using(session.id, asker()):
        waiting = threading.Thread(target=wait)
        waiting.start()
        ctx.token.cancel()
        waiting.join(20)
    assert len(failed) == 1


def test_a_statement_that_ends_the_transaction_ends_its_session(database: SqlDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rrext.nodes.sql.node.check_statement", lambda sql: None)  # as if one were hidden from it
    ctx = asker()
    session = database.sessions.begin(ctx)
    with pytest.raises(ToolError) as ended:
        SqlCall(database, ctx, "object").execute("COMMIT", (), 10, session_id=session.id)
    assert ended.value.code == "transaction_ended"
    assert len(database.sessions) == 0
    assert database.connections_in_use == 0


def test_closing_the_database_ends_sessions_in_use_too() -> None:
    database = new_database()
    session = database.sessions.begin(asker())
    with database.sessions.using(session.id, asker()):
        database.close()
    assert database.connections_in_use == 0
    with pytest.raises(RrextError):
        database.sessions.begin(asker())


def test_a_session_in_use_is_not_idle(tmp_path: Path) -> None:
    database = new_database(str(tmp_path / "a.db"), idle=1.0)
    session = database.sessions.begin(asker())
    looked = threading.Event()
    reap = database.sessions._reap

    def look(session: DatabaseSession) -> float | None:
        again = reap(session)
        looked.set()
        return again

    with database.sessions.using(session.id, asker()):
        database._watch.set(session, monotonic(), lambda: look(session))
        assert looked.wait(20)
        assert len(database.sessions) == 1
    until(lambda: not len(database.sessions))
    database.close()


class SessionMachine(RuleBasedStateMachine):
    """Any order of begin, write, commit, rollback, and lost connections keeps what was committed and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.database = new_database(connections=3)
        self.committed: set[int] = set()
        self.sessions: dict[str, tuple[str, set[int]]] = {}
        self.next = 0
        self.write("CREATE TABLE t (n INTEGER PRIMARY KEY)")

    def write(self, sql: str) -> None:
        with self.database.transaction(ToolContext(), read_only=False) as transaction:
            with transaction.statement(sql, (), asker()):
                pass
            transaction.commit()

    @property
    def is_locked(self) -> bool:
        return any(written for _, written in self.sessions.values())

    @rule(owner=st.sampled_from(["a", "b"]))
    def begin(self, owner: str) -> None:
        if len(self.sessions) == 3:
            with pytest.raises(ToolError) as caught:
                self.database.sessions.begin(asker(owner))
            assert caught.value.code == "pool_exhausted"
        else:
            self.sessions[self.database.sessions.begin(asker(owner)).id] = (owner, set())

    @precondition(lambda self: self.sessions)
    @rule(data=st.data())
    def insert(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([*self.sessions]))
        owner, written = self.sessions[name]
        self.next += 1
        blocked = self.is_locked and not written
        refused = pytest.raises(ToolError, match="database is locked") if blocked else nullcontext()
        with self.database.sessions.using(name, asker(owner)) as session:
            statement = session.transaction.statement(f"INSERT INTO t VALUES ({self.next})", (), asker(owner))
            with refused, statement:
                pass
            if blocked:
                session.end()
        if blocked:
            del self.sessions[name]
        else:
            written.add(self.next)

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), keep=st.booleans())
    def end(self, data: st.DataObject, keep: bool) -> None:
        name = data.draw(st.sampled_from([*self.sessions]))
        owner, written = self.sessions.pop(name)
        with self.database.sessions.using(name, asker(owner)) as session:
            if keep:
                session.transaction.commit()
                self.committed |= written
            session.end()

    @rule(owner=st.sampled_from(["a", "b"]))
    def lose(self, owner: str) -> None:
        self.database.sessions.lost(owner)
        self.sessions = {name: kept for name, kept in self.sessions.items() if kept[0] != owner}

    @precondition(lambda self: self.sessions)
    @rule(data=st.data())
    def steal(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([*self.sessions]))
        with pytest.raises(ToolError), self.database.sessions.using(name, asker("thief")):
            pass

    @invariant()
    def what_is_committed_is_seen(self) -> None:
        with (
            self.database.transaction(ToolContext(), read_only=True) as transaction,
            transaction.statement("SELECT n FROM t", (), asker()) as result,
        ):
            rows = collected(result, 1000)
        assert {row[0] for row in rows} == self.committed
        assert len(self.database.sessions) == len(self.sessions)
        assert self.database.connections_in_use == len(self.sessions)

    def teardown(self) -> None:
        self.database.close()


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(max_examples=settings.default.max_examples // 4, stateful_step_count=20)


def test_a_watch_does_what_is_due_in_order_and_forgets_what_is_dropped() -> None:
    watch = TimerThread()
    done: list[str] = []
    last = threading.Event()
    now = monotonic()

    def fail() -> None:
        raise ValueError("an action that fails holds up nobody")

    def twice() -> float | None:
        done.append("twice")
        return monotonic() if done.count("twice") < 2 else None

    watch.set("never", now + 3600, lambda: done.append("never"))
    watch.set("dropped", now + 0.02, lambda: done.append("dropped"))
    watch.set("second", now + 0.02, lambda: done.append("second"))
    watch.set("first", now, lambda: done.append("first"))
    watch.set("fails", now + 0.01, fail)
    watch.set("twice", now + 0.03, twice)
    watch.set("last", now + 0.05, last.set)
    watch.drop("dropped")
    watch.drop("unknown")
    assert last.wait(20)
    watch.close()
    assert done == ["first", "second", "twice", "twice"]
