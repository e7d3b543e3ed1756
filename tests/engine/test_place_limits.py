"""Places and the gate of a pipe: limits that are true, lines that are fair, whoever leaves them and when."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from rrext.engine.host.places import FREE, FairLock, HeldPlace, Loan, LockTurn, Place, Places
from rrext.engine.interface.call import Caller
from rrext.threads import OwnThread


class PlacesMachine(RuleBasedStateMachine):
    """Places against a model: a counter, a line for each connection, and users and their connections in the order of turns."""

    places = Bundle("places")

    def __init__(self) -> None:
        super().__init__()
        self.limit = 2
        self.real = Places(self.limit)
        self.held: list[Place | HeldPlace] = []
        self.users: dict[str, dict[str, deque[Place | HeldPlace]]] = {}
        self.woken: list[Place | HeldPlace] = []
        self.awaited: set[int] = set()

    @property
    def line(self) -> list[Place | HeldPlace]:
        return [place for lines in self.users.values() for line in lines.values() for place in line]

    def pass_on(self) -> None:
        if self.users and len(self.held) < self.limit:
            user = next(iter(self.users))
            lines = self.users.pop(user)
            connection = next(iter(lines))
            line = lines.pop(connection)
            self.held.append(line.popleft())
            if line:
                lines[connection] = line  # after all others of the user
            if lines:
                self.users[user] = lines  # after all others

    @rule(target=places, user=st.sampled_from(("ada", "bob", None)), connection=st.sampled_from("abc"))
    def take(self, user: str | None, connection: str) -> Place | HeldPlace:
        is_free = not self.users and len(self.held) < self.limit
        place = self.real.take(Caller(connection, user_id=user, is_keyed=user is not None))
        assert isinstance(place, HeldPlace) == is_free
        self.users.setdefault(user or f"connection {connection}", {}).setdefault(connection, deque()).append(place)
        self.pass_on()
        return place

    @rule(place=places)
    def wait(self, place: Place | HeldPlace) -> None:
        if place in self.held or place in self.line:
            waits = place.when_granted(lambda: self.woken.append(place))
            assert waits == (place in self.line)
            if waits:
                self.awaited.add(id(place))

    @rule(place=places)
    def release(self, place: Place | HeldPlace) -> None:
        if isinstance(place, HeldPlace) and place not in self.held:
            return  # whoever holds one releases it once
        place.release()
        if place in self.held:
            self.held.remove(place)
        for user, lines in list(self.users.items()):
            for connection, line in list(lines.items()):
                if place in line:
                    line.remove(place)
                if not line:
                    del lines[connection]
            if not lines:
                del self.users[user]
        self.pass_on()

    @invariant()
    def agrees(self) -> None:
        assert self.real.used == len(self.held) <= self.limit
        assert self.real.waiting == len(self.line)
        assert all(place.granted for place in self.held)
        assert not any(place.granted for place in self.line)
        granted = [place for place in self.held if id(place) in self.awaited]
        assert all(self.woken.count(place) == 1 for place in granted)
        assert not any(place in self.woken for place in self.line)


TestPlaces = PlacesMachine.TestCase
TestPlaces.settings = settings(max_examples=60, stateful_step_count=40)


class GateMachine(RuleBasedStateMachine):
    """A gate against a model: who is inside, and a line that nobody overtakes in."""

    passes = Bundle("passes")

    def __init__(self) -> None:
        super().__init__()
        self.real = FairLock()
        self.inside: list[LockTurn] = []
        self.line: deque[LockTurn] = deque()
        self.woken: list[LockTurn] = []
        self.awaited: set[int] = set()

    def admit(self) -> None:
        while self.line:
            first = self.line[0]
            if self.inside and (first.exclusive or self.inside[0].exclusive):
                return
            self.inside.append(self.line.popleft())

    @rule(target=passes, exclusive=st.booleans())
    def enter(self, exclusive: bool) -> LockTurn:
        turn = self.real.enter(exclusive)
        self.line.append(turn)
        self.admit()
        return turn

    @rule(turn=passes)
    def wait(self, turn: LockTurn) -> None:
        if turn in self.inside or turn in self.line:
            waits = turn.when_granted(lambda: self.woken.append(turn))
            assert waits == (turn in self.line)
            if waits:
                self.awaited.add(id(turn))

    @rule(turn=passes)
    def release(self, turn: LockTurn) -> None:
        turn.release()
        if turn in self.inside:
            self.inside.remove(turn)
        elif turn in self.line:
            self.line.remove(turn)
        self.admit()

    @invariant()
    def agrees(self) -> None:
        assert all(turn.granted for turn in self.inside)
        assert not any(turn.granted for turn in self.line)
        assert len(self.inside) <= 1 or not any(turn.exclusive for turn in self.inside)
        assert self.real.is_idle == (not self.inside and not self.line)
        assert all(self.woken.count(turn) == 1 for turn in self.inside if id(turn) in self.awaited)
        assert not any(turn in self.woken for turn in self.line)


TestGate = GateMachine.TestCase
TestGate.settings = settings(max_examples=60, stateful_step_count=40)


@pytest.mark.promise("pool:limit:true")
def test_threads_that_take_lend_and_give_back_never_are_more_than_the_limit() -> None:
    places = Places(3)
    lock, running, peak = threading.Lock(), 0, 0

    def count(by: int) -> None:
        nonlocal running, peak
        with lock:
            running += by
            peak = max(peak, running)

    def work(seed: int) -> None:
        random = Random(seed)
        for _ in range(200):
            place, granted = places.take(), threading.Event()
            if place.when_granted(granted.set):
                if random.random() < 0.3:
                    place.release()
                    continue
                assert granted.wait(20)
            count(+1)
            if random.random() < 0.5:
                loan = Loan(places)
                count(-1)
                with loan:
                    pass
                count(+1)
            count(-1)
            place.release()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
    assert peak <= 3
    assert (places.used, places.waiting) == (0, 0)


def test_who_takes_a_place_back_comes_before_everybody_in_line() -> None:
    places, order, began = Places(1), [], threading.Event()
    place = places.take()

    def caller() -> None:
        with Loan(places):
            began.set()
            assert gate.wait(10)
        order.append("back")
        place.release()

    gate = threading.Event()
    thread = threading.Thread(target=caller)
    thread.start()
    assert began.wait(10)
    callee, stranger = places.take(), places.take()
    assert callee.granted
    stranger.when_granted(lambda: order.append("stranger"))
    gate.set()
    while places.waiting < 2:
        threading.Event().wait(0.001)
    callee.release()
    thread.join(10)
    assert order == ["back", "stranger"]


def test_whoever_takes_a_place_back_first_has_it_first() -> None:
    places, order = Places(1), []
    holder = places.take()
    may_return = [threading.Event(), threading.Event()]

    def caller(number: int, lent: threading.Event) -> None:
        with Loan(places):
            lent.set()
            assert may_return[number].wait(10)
        order.append(number)
        holder.release()

    threads: list[threading.Thread] = []
    for number in range(2):
        lent = threading.Event()
        thread = threading.Thread(target=caller, args=(number, lent))
        thread.start()
        threads.append(thread)
        assert lent.wait(10)
        assert places.take().granted  # the next caller's, and in the end the callee's
    for number in range(2):
        may_return[number].set()
        while places.waiting <= number:
            threading.Event().wait(0.001)
    holder.release()
    for thread in threads:
        thread.join(10)
    assert order == [0, 1]
    assert (places.used, places.waiting, places.lent) == (0, 0, [])


def test_a_job_inside_of_one_that_takes_its_place_back_has_the_place_first() -> None:
    """The outer job goes on only after the inner one: a place that came to it meanwhile would help nobody."""
    places, own = Places(1), OwnThread("one")
    lent, may_return, both = threading.Event(), threading.Event(), threading.Barrier(2)
    outer = places.take()

    def run_outer() -> None:
        with Loan(places):
            lent.set()
            assert may_return.wait(10)  # what it waited for came before it looked at inner jobs
        outer.release()
        both.wait(10)

    own.run(run_outer)
    assert lent.wait(10)
    inner = places.take()
    assert inner.granted

    def run_inner() -> None:
        with Loan(places):
            pass
        inner.release()

    own.run_inner(run_inner)
    may_return.set()
    both.wait(10)
    own.stop()
    assert (places.used, places.waiting, places.lent) == (0, 0, [])


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads give way to each other at nearly every step."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("switching")
@pytest.mark.parametrize("limit", [1, 2])
def test_no_place_is_lost_or_granted_twice_whatever_threads_do_at_once(limit: int) -> None:
    places, running, told = Places(limit), list[int](), list[int]()
    peak = 0

    def enter() -> None:
        nonlocal peak
        running.append(1)
        peak = max(peak, len(running))

    def work(seed: int) -> None:
        random = Random(seed)
        for _ in range(400):
            place, granted = places.take(Caller(random.choice("abc"))), threading.Event()
            if random.random() < 0.2:
                place.release()  # cancelled, wherever it is
                continue
            if place.when_granted(granted.set):
                if random.random() < 0.3:
                    place.release()
                    continue
                assert granted.wait(20)
            enter()
            if random.random() < 0.4:
                running.pop()
                with Loan(places):
                    assert threading.get_ident() in places.lent
                enter()
            running.pop()
            place.release()

    def look() -> None:
        while any(thread.is_alive() for thread in threads):
            if places.when_free(lambda: told.append(places.used)):
                threading.Event().wait(0.001)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(10)]
    for thread in [*threads, threading.Thread(target=look)]:
        thread.start()
    for thread in threads:
        thread.join(40)
    assert peak <= limit
    assert (places.used, places.waiting, places.lent) == (0, 0, [])
    assert not places.when_free(lambda: None)


@pytest.mark.usefixtures("switching")
def test_the_last_place_that_is_given_back_is_always_told() -> None:
    for _ in range(150):
        places, told = Places(2), threading.Event()
        held = [places.take(), places.take()]
        begin = threading.Barrier(3)

        def give_back(place: Place | HeldPlace, begin: threading.Barrier = begin) -> None:
            begin.wait(10)
            place.release()

        threads = [threading.Thread(target=give_back, args=(place,)) for place in held]
        for thread in threads:
            thread.start()
        begin.wait(10)
        if places.when_free(told.set):
            assert told.wait(10)
        for thread in threads:
            thread.join(10)
        assert places.used == 0


def test_threads_of_one_call_lend_its_place_once() -> None:
    places = Places(2)
    places.take()
    loan = Loan(places)
    with loan:
        assert places.used == 0
        with loan:
            assert places.used == 0
        assert places.used == 0
    assert places.used == 1


def test_whoever_waits_for_the_last_place_is_told_when_it_is_given_back() -> None:
    places, told = Places(2), []
    first, second = places.take(), places.take()
    assert places.when_free(lambda: told.append(places.used))
    first.release()
    assert told == []
    second.release()
    assert told == [0]
    assert not places.when_free(lambda: None)


def test_a_place_that_counts_nowhere_is_held_and_may_be_given_back_often() -> None:
    place = FREE
    assert place.granted
    place.release()
    place.release()


def test_what_was_given_back_cannot_be_waited_for() -> None:
    places = Places(1)
    places.take()
    place = places.take()
    place.release()
    turn = FairLock().enter(True)
    turn.release()
    for ticket in (place, turn):
        with pytest.raises(RuntimeError):
            ticket.when_granted(lambda: None)


MANY = 200_000
"""So many that looking for each in the line would take minutes, which the test's own timeout does not give."""


def test_many_leave_the_line_before_a_limit_from_its_end() -> None:
    places = Places(0)
    waiting = [places.take() for _ in range(MANY)]
    for place in reversed(waiting):
        place.release()
    assert places.waiting == 0


def test_many_leave_the_line_before_a_gate_from_its_end() -> None:
    gate = FairLock()
    inside = gate.enter(True)
    waiting = [gate.enter(True) for _ in range(MANY)]
    for turn in reversed(waiting):
        turn.release()
    inside.release()
    assert gate.is_idle


def test_all_kinds_of_turns_say_how_they_stand() -> None:
    places, gate = Places(1), FairLock()
    held, waits = places.take(), places.take()
    inside, outside = gate.enter(True), gate.enter(False)
    assert [repr(held), repr(waits)] == ["<Held>", "<Place waiting>"]
    assert [repr(inside), repr(outside)] == ["<LockTurn exclusive inside>", "<LockTurn shared waiting>"]
    held.release()
    inside.release()
    assert repr(waits) == "<Place held>"
    waits.release()
    assert repr(waits) == "<Place released>"
    assert [repr(inside), repr(outside)] == ["<LockTurn exclusive gone>", "<LockTurn shared inside>"]
