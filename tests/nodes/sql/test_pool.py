"""The pool of connections: never more than its size, none lent twice, and callers in line are served in turn."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rrext.errors import Cancelled, Unavailable
from rrext.nodes.databases.database import Pool, PoolExhausted
from rrext.tools.context import ToolContext

LONG = 60.0
SIZE = 3


class Connection:
    """Counts itself in `alive` until it is closed."""

    def __init__(self, alive: set[Connection]) -> None:
        self.alive = alive
        alive.add(self)

    def close(self) -> None:
        self.alive.remove(self)


class Line:
    """A caller on a thread of its own; made when it stands in line, or `begun` is set."""

    def __init__(self, pool: Pool, begun: threading.Event | None = None) -> None:
        self.ctx = ToolContext()
        self.got: tuple[Connection, bool] | None = None
        self.failure: Exception | None = None
        before = len(pool._waiting)
        self.thread = threading.Thread(target=self._take, args=(pool,), daemon=True)
        self.thread.start()
        until(lambda: len(pool._waiting) > before if begun is None else begun.is_set())

    def _take(self, pool: Pool) -> None:
        try:
            self.got = pool.take(self.ctx)
        except Exception as error:
            self.failure = error

    def served(self) -> tuple[Connection, bool]:
        self.thread.join(20)
        assert self.got is not None, self.failure
        return self.got

    def failed(self) -> Exception:
        self.thread.join(20)
        assert self.failure is not None
        return self.failure


def until(condition: Callable[[], object]) -> None:
    """Return when it holds; a thread that begins to wait tells nobody."""
    pause = threading.Event()
    while not condition():
        pause.wait(0.001)


class PoolMachine(RuleBasedStateMachine):
    """Any order of taking, giving back, breaking, waiting, giving up and closing."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: set[Connection] = set()
        self.held: list[Connection] = []
        self.line: list[Line] = []
        self.idle: list[Connection] = []
        self.is_down = self.is_closed = False
        self.pool = Pool(self.connect, SIZE, LONG)

    def connect(self, _: object) -> Connection:
        if self.is_down:
            raise ConnectionError("down")
        return Connection(self.alive)

    def lent(self, got: tuple[Connection, bool], *, is_new: bool) -> None:
        connection, was_new = got
        assert connection in self.alive
        assert connection not in self.held
        assert was_new == is_new
        self.held.append(connection)

    @precondition(lambda self: not self.is_closed and len(self.held) < SIZE)
    @rule()
    def take(self) -> None:
        if self.is_down and not self.idle:
            with pytest.raises(ConnectionError):
                self.pool.take()
            return
        expected = self.idle.pop() if self.idle else None  # the last one that came back
        got = self.pool.take()
        assert expected in (None, got[0])
        self.lent(got, is_new=expected is None)

    @precondition(lambda self: not self.is_closed and len(self.held) == SIZE)
    @rule()
    def wait(self) -> None:
        self.line.append(Line(self.pool))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), is_good=st.booleans())
    def give_back(self, data: st.DataObject, is_good: bool) -> None:
        connection = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.pool.give_back(connection, is_good=is_good)
        assert (connection in self.alive) == (is_good and not self.is_closed)
        if not self.line:
            if is_good and not self.is_closed:
                self.idle.append(connection)
            return
        first = self.line.pop(0)
        if is_good:
            got = first.served()
            assert got[0] is connection
            self.lent(got, is_new=False)
        elif not self.is_down:
            self.lent(first.served(), is_new=True)
        else:  # the right to open one goes from each who cannot to the next
            assert isinstance(first.failed(), ConnectionError)
            for later in self.line:
                assert isinstance(later.failed(), ConnectionError)
            self.line.clear()

    @precondition(lambda self: self.line)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        left = self.line.pop(data.draw(st.integers(0, len(self.line) - 1)))
        left.ctx.token.cancel()
        assert isinstance(left.failed(), Cancelled)

    @rule()
    def break_or_mend(self) -> None:
        self.is_down = not self.is_down

    @rule()
    def close(self) -> None:
        self.pool.close()
        self.is_closed = True
        self.idle.clear()
        for waiting in self.line:
            assert isinstance(waiting.failed(), Unavailable)
        self.line.clear()
        with pytest.raises(Unavailable):
            self.pool.take()

    @invariant()
    def the_books_are_right(self) -> None:
        assert self.alive == {*self.held, *self.idle}
        assert len(self.alive) <= SIZE
        assert self.pool.in_use == len(self.held)
        assert len(self.pool._waiting) == len(self.line)

    def teardown(self) -> None:
        self.pool.close()
        for connection in self.held:
            self.pool.give_back(connection, is_good=True)
        assert not self.alive


TestPoolMachine = PoolMachine.TestCase
TestPoolMachine.settings = settings(stateful_step_count=25)


def test_who_waits_too_long_is_told_so_and_leaves_the_line() -> None:
    pool = Pool(lambda _: Connection(set()), 1, 0.01)
    connection, _ = pool.take()
    with pytest.raises(PoolExhausted):
        pool.take()
    pool.give_back(connection, is_good=True)
    assert pool.take() == (connection, False)


def test_without_patience_a_free_connection_is_lent_all_the_same() -> None:
    pool = Pool(lambda _: Connection(set()), 1, 0)
    connection, _ = pool.take()
    with pytest.raises(PoolExhausted):
        pool.take()
    pool.give_back(connection, is_good=False)
    assert pool.take()[1]


def test_a_call_that_is_over_already_takes_no_place_in_line() -> None:
    pool = Pool(lambda _: Connection(set()), 1, LONG)
    pool.take()
    ctx = ToolContext()
    ctx.token.cancel()
    with pytest.raises(Cancelled):
        pool.take(ctx)


def test_a_connection_that_cannot_be_closed_frees_its_place() -> None:
    class Stuck:
        def close(self) -> None:
            raise OSError("gone")

    pool = Pool(lambda _: Stuck(), 1, 0)
    pool.give_back(pool.take()[0], is_good=False)
    assert pool.take()[1]


def test_a_slow_connect_holds_up_nobody_who_needs_none() -> None:
    begun, go_on = threading.Event(), threading.Event()
    slow = False

    def connect(_: object) -> Connection:
        if slow:
            begun.set()
            assert go_on.wait(20)
        return Connection(set())

    pool = Pool(connect, 2, LONG)
    first, _ = pool.take()
    slow = True
    connecting = Line(pool, begun)
    pool.give_back(first, is_good=True)
    assert pool.take() == (first, False)
    go_on.set()
    assert connecting.served()[1]


@pytest.mark.promise("data:pool:in-turn")
def test_who_came_first_is_served_first() -> None:
    pool = Pool(lambda _: Connection(set()), 1, LONG)
    connection, _ = pool.take()
    waiting = [Line(pool) for _ in range(3)]
    for first in waiting:
        pool.give_back(connection, is_good=True)
        assert first.served() == (connection, False)


@pytest.mark.promise("data:pool:in-turn")
def test_a_bad_connection_is_closed_before_another_is_opened_for_who_waits() -> None:
    seen: list[int] = []

    class Closing(Connection):
        def close(self) -> None:
            seen.append(len(pool._waiting))
            super().close()

    pool = Pool(lambda _: Closing(set()), 1, LONG)
    bad, _ = pool.take()
    line = Line(pool)
    pool.give_back(bad, is_good=False)
    assert seen == [1], "who waits is not served yet"
    assert line.served()[1]


@pytest.mark.promise("data:pool:in-turn")
def test_many_threads_share_few_connections() -> None:
    alive: set[Connection] = set()
    pool = Pool(lambda _: Connection(alive), 2, LONG)
    used: set[Connection] = set()
    wrong: list[str] = []

    def work(number: int) -> None:
        for turn in range(200):
            connection, _ = pool.take()
            if connection in used:
                wrong.append("lent twice")
            used.add(connection)
            if len(alive) > 2:
                wrong.append("too many")
            used.discard(connection)
            pool.give_back(connection, is_good=(number + turn) % 5 != 0)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(50)
    finally:
        sys.setswitchinterval(switch)
    assert not wrong
    assert pool.in_use == 0
    pool.close()
    assert not alive
