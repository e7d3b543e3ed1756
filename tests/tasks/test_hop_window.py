"""The messages of a connection between worker and server, whatever is sent, credited and ended in whatever order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.engine.host.host import Host
from rrext.limits import DEFAULTS
from rrext.tasks.hop_window import CREDIT, HopCredit, HopWindow
from rrext.tasks.limits import HOP_WINDOW

pytestmark = pytest.mark.promise("call:unread:bounded")

SIZES = st.sampled_from([100, CREDIT, HOP_WINDOW, 3 * HOP_WINDOW])
STEPS = st.lists(st.one_of(SIZES, st.sampled_from(["credit", "all", "open"])), max_size=40)


class Port:
    """The session of a worker, and the server behind it."""

    def __init__(self) -> None:
        self.left: list[int] = []

    def send(self, pieces: Sequence[bytes]) -> None:
        self.left += map(len, pieces)


@given(STEPS)
def test_messages_leave_in_order_within_the_window_and_all_of_them_with_credit(steps: list[Any]) -> None:
    async def walk() -> None:
        port = Port()
        window = HopWindow(cast(Any, port), asyncio.get_running_loop())
        sent: list[int] = []
        credited = 0
        is_open = False
        for step in steps:
            if isinstance(step, int):
                sent.append(step)
                window.send([b"x" * step])
            elif step == "open":
                is_open = True
                window.open()
            elif (new := len(port.left) - credited) > 0:
                window.give(new if step == "all" else 1)
                credited += new if step == "all" else 1
            await asyncio.sleep(0)
            assert port.left == sent[: len(port.left)]
            assert window.size == sum(sent[len(port.left) :])
            assert is_open or sum(port.left[credited:-1]) < HOP_WINDOW, "more is on the way than the window and a message"
            assert window.is_full == (len(port.left) < len(sent))
        while credited < len(port.left):
            window.give(1)
            credited += 1
            await asyncio.sleep(0)
        assert port.left == sent
        assert not window.is_full

    asyncio.run(walk())


def test_a_window_whose_connection_ended_keeps_nothing_and_holds_up_nobody() -> None:
    async def walk() -> None:
        window = HopWindow(cast(Any, Port()), asyncio.get_running_loop())
        for _ in range(4):
            window.send([bytes(HOP_WINDOW)])
        waiting = asyncio.ensure_future(window.room())
        await asyncio.sleep(0)
        assert window.size == 3 * HOP_WINDOW
        window.break_off()
        await asyncio.wait_for(waiting, 10)
        window.send([bytes(HOP_WINDOW)])
        assert (window.size, window.is_full) == (0, False)

    asyncio.run(walk())


class Outlet:
    """The outbox of a client that reads slowly."""

    def __init__(self) -> None:
        self.is_full = False
        self.changed = asyncio.Event()

    async def room(self) -> None:
        while self.is_full:
            await self.changed.wait()

    def turn(self, *, is_full: bool) -> None:
        self.is_full = is_full
        if not is_full:
            self.changed.set()
            self.changed = asyncio.Event()


@given(st.lists(st.one_of(SIZES, st.booleans()), max_size=40))
def test_credit_is_given_for_each_message_once_and_while_there_is_room_alone(steps: list[int | bool]) -> None:
    async def walk() -> None:
        outlet, given_back = Outlet(), list[int]()
        credit = HopCredit(outlet, Host(asyncio.get_running_loop(), limits=DEFAULTS), watched(outlet, given_back))
        taken = unpaid = 0
        for step in steps:
            if isinstance(step, bool):
                outlet.turn(is_full=step)
            else:
                taken += 1
                credit.took(step)
            for _ in range(3):
                await asyncio.sleep(0)
            unpaid = taken - sum(given_back)
            assert unpaid >= 0
            assert outlet.is_full or credit.nbytes < CREDIT + HOP_WINDOW
        outlet.turn(is_full=False)
        for _ in range(3):
            await asyncio.sleep(0)
        credit.took(2 * HOP_WINDOW)
        assert sum(given_back) == taken + 1

    asyncio.run(walk())


def watched(outlet: Outlet, given_back: list[int]) -> Callable[[int], None]:
    """Notes the credit, which is given only while there is room."""

    def give(messages: int) -> None:
        assert not outlet.is_full
        given_back.append(messages)

    return give
