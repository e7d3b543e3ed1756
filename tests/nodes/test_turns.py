"""What one process at a time may have open is opened at first use, given away when another waits, and opened again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from rrext.errors import Cancelled
from rrext.nodes.files import turns as turns_module
from rrext.nodes.files.turns import Turns


class Thing:
    """Something that is open; `wanted` says that another process waits for it."""

    def __init__(self) -> None:
        self.wanted = threading.Event()
        self.closed = threading.Event()

    def is_wanted(self) -> bool:
        return self.wanted.is_set()

    def close(self) -> None:
        assert not self.closed.is_set()
        self.closed.set()


class Things:
    """Opens one after the other, when `free` is set."""

    def __init__(self) -> None:
        self.opened: list[Thing] = []
        self.free = threading.Event()
        self.free.set()
        self.turns: Turns[Thing] = Turns(self.open, refusal=lambda: RuntimeError("closed"))

    def open(self, check: Callable[[], object]) -> Thing | None:
        while not self.free.wait(0.005):
            check()
        self.opened.append(Thing())
        return self.opened[-1]


def wanted() -> None:
    """The check of a call that is waited for."""


@pytest.fixture
def things(monkeypatch: pytest.MonkeyPatch) -> Iterator[Things]:
    monkeypatch.setattr(turns_module, "TURN_LOOK", 0.005)
    things = Things()
    yield things
    things.turns.close(0)


def test_it_stays_open_while_nobody_else_waits(things: Things) -> None:
    for _ in range(3):
        with things.turns.use(wanted), things.turns.use(wanted):
            pass
    assert len(things.opened) == 1
    assert not things.opened[0].closed.is_set()


def test_it_is_given_away_when_it_is_idle_and_opened_again_by_the_next_use(things: Things) -> None:
    with things.turns.use(wanted) as first:
        pass
    assert first is not None
    first.wanted.set()
    assert first.closed.wait(30)
    with things.turns.use(wanted) as second:
        assert second is things.opened[1]


def test_a_use_goes_on_until_it_ends_though_another_waits(things: Things, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "TURN", 0.0)
    monkeypatch.setattr(turns_module, "LAST_USES", 0.01)
    with things.turns.use(wanted) as first:
        assert first is not None
        first.wanted.set()
        assert not first.closed.wait(0.2)
        with things.turns.use(wanted) as same:
            assert same is first
    assert first.closed.wait(30)


def test_a_busy_process_gives_it_away_after_its_turn(things: Things, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "TURN", 0.02)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            with things.turns.use(wanted):
                stop.wait(0.002)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(3):
        while len(things.opened) <= number:
            threads[0].join(0.002)
        things.opened[number].wanted.set()
        assert things.opened[number].closed.wait(30)
    stop.set()
    for thread in threads:
        thread.join(30)
    assert all(thing.closed.is_set() for thing in things.opened[:-1])


def test_a_call_that_nobody_waits_for_does_not_wait_for_its_turn(things: Things) -> None:
    things.free.clear()
    opening = threading.Thread(target=lambda: things.turns.enter(wanted), daemon=True)
    opening.start()

    def unwanted() -> None:
        raise Cancelled

    with pytest.raises(Cancelled), things.turns.use(unwanted):
        pass
    things.free.set()
    opening.join(30)
    assert len(things.opened) == 1


def test_what_fails_to_open_is_tried_by_the_next_use(things: Things) -> None:
    things.free.clear()
    with pytest.raises(ZeroDivisionError), things.turns.use(lambda: 1 / 0):
        pass
    things.free.set()
    with things.turns.use(wanted) as opened:
        assert opened is things.opened[0]


def test_after_its_end_nothing_is_opened(things: Things) -> None:
    with things.turns.use(wanted) as opened:
        pass
    things.turns.close()
    assert opened is not None
    assert opened.closed.is_set()
    with pytest.raises(RuntimeError, match="closed"), things.turns.use(wanted):
        pass


def test_who_waits_to_open_it_is_told_at_once_that_it_ended(things: Things) -> None:
    things.free.clear()
    failures: list[BaseException] = []

    def use() -> None:
        try:
            things.turns.enter(wanted)
        except RuntimeError as error:
            failures.append(error)

    opening = threading.Thread(target=use, daemon=True)
    opening.start()
    while not things.turns._is_moving:  # pyright: ignore[reportPrivateUsage]
        opening.join(0.002)
    things.turns.close()
    opening.join(30)
    assert [str(error) for error in failures] == ["closed"]
    assert things.opened == []


def test_what_was_opened_when_it_ended_is_closed_at_once(things: Things) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def opened(check: Callable[[], object]) -> Thing | None:
        entered.set()
        assert go_on.wait(30)
        things.opened.append(Thing())
        return things.opened[-1]

    turns: Turns[Thing] = Turns(opened, refusal=lambda: RuntimeError("closed"))
    failures: list[BaseException] = []

    def use() -> None:
        try:
            turns.enter(wanted)
        except RuntimeError as error:
            failures.append(error)

    opening = threading.Thread(target=use, daemon=True)
    opening.start()
    assert entered.wait(30)
    turns.close(0)
    go_on.set()
    opening.join(30)
    assert [str(error) for error in failures] == ["closed"]
    assert things.opened[0].closed.is_set()
