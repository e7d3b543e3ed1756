"""The books of the placer: the resources that the placer gives out, and the later numbers of Ray."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rrext.cluster import placer, ray_placement
from rrext.cluster.placer import NoRoom, Placer
from rrext.cluster.ray_placement import RayPlacement
from rrext.engine.host.host import Host
from rrext.limits import DEFAULTS
from rrext.pipefile.resources import Resources
from rrext.transports.process import ChildProcess

TWO = Resources(cpu=2)


class Books:
    """What Ray tells of one node, late."""

    def __init__(self, cpu: float) -> None:
        self.free: dict[str, dict[str, float]] = {"n1": {"CPU": cpu}}
        self._node = {"NodeID": "n1", "NodeName": "sun", "Alive": True, "NodeManagerAddress": "127.0.0.1", "NodeManagerPort": 1}
        self._node["Resources"] = {"CPU": cpu}

    def nodes(self) -> list[dict[str, Any]]:
        """The node."""
        return [self._node]


@pytest.fixture
def books(monkeypatch: pytest.MonkeyPatch) -> Books:
    monkeypatch.setattr(placer, "answers", lambda address, port: True)
    monkeypatch.setattr(placer, "ROOM_PATIENCE", 0.05)
    monkeypatch.setattr(placer, "ROOM_INTERVAL", 0.01)
    return Books(4.0)


def made(books: Books) -> Placer:
    """A placer with these books."""
    own = Placer("")
    own._ray, own._free = books, lambda: books.free
    return own


def test_what_was_given_out_is_counted_before_ray_tells_it_and_once_after(books: Books) -> None:
    own = made(books)
    first = own._choose(TWO, frozenset())
    books.free = {"n1": {"CPU": 2.0}}  # by now Ray knows
    own._choose(TWO, frozenset())
    with pytest.raises(NoRoom, match=r"no node has cpu 2: free is sun \(cpu 0, "):
        own._choose(TWO, frozenset())
    books.free = {"n1": {"CPU": 0.0}}
    assert own._chosen(books.nodes(), TWO, frozenset(), is_last=False) is None
    books.free = {"n1": {"CPU": 2.0}}  # a host has ended
    assert own._choose(TWO, frozenset()) is not first


def test_two_that_are_placed_at_the_same_moment_do_not_get_the_same(books: Books) -> None:
    own, together = made(books), threading.Barrier(3)

    def choose() -> bool:
        together.wait()
        try:
            own._choose(TWO, frozenset())
        except NoRoom:
            return False
        return True

    with ThreadPoolExecutor(3) as threads:
        assert sorted(each.result() for each in [threads.submit(choose) for _ in range(3)]) == [False, True, True]


def test_what_a_host_of_a_node_holds_that_is_up_for_a_second_is_in_its_books(books: Books) -> None:
    own = made(books)
    given = own._choose(Resources(cpu=4), frozenset())
    assert own._chosen(books.nodes(), TWO, frozenset(), is_last=False) is None
    given.until = 0.0  # another one's end hides it from who compares the sums
    own._choose(TWO, frozenset())


async def test_a_placer_that_ends_before_it_is_told_anything_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    made_children, again = list[ChildProcess](), asyncio.Event()

    class Noted(ChildProcess):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            made_children.append(self)
            if len(made_children) > 1:
                again.set()

        async def write(self, *given: Any, **more: Any) -> None:
            await self.wait()
            raise BrokenPipeError

    monkeypatch.setattr(ray_placement, "ChildProcess", Noted)
    monkeypatch.setattr(ray_placement, "COMMAND", ("false",))
    host = Host(asyncio.get_running_loop(), limits=DEFAULTS)
    placement = RayPlacement(host, "127.0.0.1:1", "", {})
    async with asyncio.timeout(30):
        await again.wait()
    assert made_children[0]._stderr_fd == -1
    await placement.close()
    await host.aclose()
