"""The messages of a connection between worker and server, whatever is sent, credited and ended in whatever order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.engine.host.host import Host
from rrext.limits import DEFAULTS, LARGE_RESULT
from rrext.tasks.hop import CREDIT, HOP_WINDOW, HopCredit, HopWindow, LargeTurns

pytestmark = pytest.mark.promise("call:unread:bounded")

SIZES = st.sampled_from([100, CREDIT, HOP_WINDOW, 3 * HOP_WINDOW])
STEPS = st.lists(st.one_of(SIZES, st.sampled_from(["credit", "all", "open", "stall", "flow"])), max_size=40)


def message(size: int) -> bytes:
    """A frame with a body of that size."""
    return b"Content-Length: %d\r\n\r\n%b" % (size, bytes(size))


def body_size(frame: bytes) -> int:
    """The size of the body."""
    return len(frame.partition(b"\r\n\r\n")[2])


class Port:
    """The session of a worker, and the server behind it, which reads at once or when it is told to."""

    def __init__(self, *, reads: bool = True) -> None:
        self.left: list[int] = []
        self.reads = reads
        self.turns = LargeTurns(cast(Any, self), Host(asyncio.get_running_loop(), limits=DEFAULTS))
        self.size = 0
        """Bytes that wait in the outbox for the pipe."""
        self._written = asyncio.Event()

    def send(self, pieces: Sequence[bytes]) -> None:
        self.left += map(body_size, pieces)
        if not self.reads:
            self.size += sum(map(len, pieces))

    async def until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            await self._written.wait()

    def wait(self, size: int) -> None:
        """Let so many bytes wait."""
        self.size = size
        self._written.set()
        self._written = asyncio.Event()


def window_of(port: Port) -> HopWindow:
    """A window through that port."""
    return HopWindow(cast(Any, port), asyncio.get_running_loop(), port.turns)


async def settled() -> None:
    """Let the loop do what is due."""
    for _ in range(4):
        await asyncio.sleep(0)


@given(STEPS)
def test_messages_leave_in_order_within_the_window_and_all_of_them_with_credit(steps: list[Any]) -> None:
    async def walk() -> None:
        port = Port()
        window = window_of(port)
        sent: list[int] = []
        credited = 0
        is_open = False
        for step in steps:
            before = len(port.left)
            if step in ("stall", "flow"):
                port.wait(HOP_WINDOW + 1 if step == "stall" else 0)
            elif isinstance(step, int):
                sent.append(step)
                window.send([message(step)])
            elif step == "open":
                is_open = True
                window.open()
            elif (new := len(port.left) - credited) > 0:
                new = new if step == "all" else 1
                window.give(sum(port.left[credited : credited + new]))
                credited += new
            await settled()
            assert port.left == sent if is_open else port.left == sent[: len(port.left)]
            stalls = port.size > HOP_WINDOW and not is_open
            assert not (stalls and any(size > LARGE_RESULT for size in port.left[before:])), (
                "a large message stands before others"
            )
            assert window.size == sum(len(message(size)) for size in sent[len(port.left) :])
            assert is_open or sum(port.left[credited:-1]) < HOP_WINDOW, "more is on the way than the window and a message"
            assert window.is_full == (window.size > HOP_WINDOW)
        port.wait(0)
        await settled()
        while credited < len(port.left):
            window.give(port.left[credited])
            credited += 1
            await settled()
        assert port.left == sent
        assert not window.is_full

    asyncio.run(walk())


def test_large_messages_of_all_connections_take_turns_and_small_ones_of_others_pass() -> None:
    async def walk() -> None:
        port = Port(reads=False)
        first, second, third, gone, other = (window_of(port) for _ in range(5))

        async def is_written() -> int:
            port.left.clear()
            port.wait(0)
            await settled()
            return port.left[0] if port.left else 0

        sizes = {window: HOP_WINDOW + number for number, window in enumerate((first, second, gone, third), 1)}
        port.wait(HOP_WINDOW + 1)
        for window, size in sizes.items():
            window.send([message(size)])
            window.send([message(9)])
            await asyncio.sleep(0)
        other.send([message(5)])
        assert port.left == [5], "a small answer waits for those of other connections"
        gone.break_off()
        assert await is_written() == sizes[first]
        first.give(sizes[first])  # its small message leaves, and its next large one asks again
        first.send([message(HOP_WINDOW)])
        await asyncio.sleep(0)
        assert await is_written() == sizes[second]
        assert await is_written() == sizes[third]
        assert await is_written() == HOP_WINDOW
        assert await is_written() == 0
        assert [window.size for window in (first, second, third)] == [0, *2 * [len(message(9))]]

    asyncio.run(walk())


def test_a_window_whose_connection_ended_keeps_nothing_and_holds_up_nobody() -> None:
    async def walk() -> None:
        window = window_of(Port())
        for _ in range(4):
            window.send([message(HOP_WINDOW)])
        waiting = asyncio.ensure_future(window.room())
        await asyncio.sleep(0)
        assert window.size == 3 * len(message(HOP_WINDOW))
        window.break_off()
        await asyncio.wait_for(waiting, 10)
        window.send([message(HOP_WINDOW)])
        assert (window.size, window.is_full) == (0, False)

    asyncio.run(walk())


async def test_credit_for_a_message_that_was_not_counted_widens_no_window() -> None:
    port = Port()
    window = window_of(port)
    window.give(HOP_WINDOW)
    for _ in range(2):
        window.send([message(HOP_WINDOW)])
    await settled()
    assert port.left == [HOP_WINDOW]


def test_what_threads_send_in_another_order_than_they_count_it_is_credited() -> None:
    async def walk() -> None:
        port = Port()
        window = window_of(port)
        small, large = message(100), message(HOP_WINDOW * 9 // 10)
        for frame in (small, small, small, large, large):
            assert window.has_room_for([frame])
        window.send([message(200)])
        assert port.left == [], "the window is used up"
        # The two large ones come to the server before two small ones, for which no credit is due yet.
        window.give(body_size(small) + 2 * body_size(large))
        await settled()
        assert port.left == [200]

    asyncio.run(walk())


class Room:
    """The outbox of a client that reads slowly."""

    def __init__(self) -> None:
        self.size = 0
        self.is_full = False
        self.changed = asyncio.Event()

    async def until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            await self.changed.wait()

    @property
    def held(self) -> int:
        return self.size

    def turn(self, *, is_full: bool) -> None:
        self.size = HOP_WINDOW + 1 if is_full else HOP_WINDOW
        if not is_full:
            self.changed.set()
            self.changed = asyncio.Event()


@given(st.lists(st.one_of(SIZES, st.booleans()), max_size=40))
def test_credit_is_given_for_each_byte_once_and_while_there_is_room_alone(steps: list[int | bool]) -> None:
    async def walk() -> None:
        room, given_back = Room(), list[int]()
        host = Host(asyncio.get_running_loop(), limits=DEFAULTS)
        credit = HopCredit(cast(Any, room), host, watched(room, given_back))
        taken = unpaid = 0
        for step in steps:
            if isinstance(step, bool):
                room.turn(is_full=step)
            else:
                taken += step
                credit.took(step)
            for _ in range(3):
                await asyncio.sleep(0)
            unpaid = taken - sum(given_back)
            assert unpaid >= 0
            assert room.size > HOP_WINDOW or credit.nbytes <= CREDIT
        room.turn(is_full=False)
        for _ in range(3):
            await asyncio.sleep(0)
        credit.took(2 * HOP_WINDOW)
        assert sum(given_back) == taken + 2 * HOP_WINDOW

    asyncio.run(walk())


def watched(room: Room, given_back: list[int]) -> Callable[[int], None]:
    """Notes the credit, which is given only while there is room."""

    def give(nbytes: int) -> None:
        assert room.size <= HOP_WINDOW
        given_back.append(nbytes)

    return give
