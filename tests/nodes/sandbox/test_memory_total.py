"""The memory of all programs together: who is over it, and who is killed for it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from guests import Guests, descendants
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import Cancelled
from rrext.nodes.sandbox.grant import MIB, SHARES, SandboxLimits, Usage

HOLD = "held = bytearray({0} * 1024 * 1024)\nfor place in range(0, len(held), 4096): held[place] = 1\n"
WAIT = "import time\ntime.sleep(600)\n"


@pytest.mark.promise("python:memory:total")
@given(st.lists(st.integers(0, 100), min_size=1, max_size=8), st.integers(0, 400))
def test_over_the_total_one_of_the_largest_is_too_many_and_else_none(sizes: list[int], total: int) -> None:
    usage = Usage()
    shares = [usage.take() for _ in sizes]
    for share, size in zip(shares, sizes, strict=True):
        assert share is not None
        share.note(size)
    chosen = [size for share, size in zip(shares, sizes, strict=True) if share is not None and share.is_one_too_many(total)]
    assert chosen == ([max(sizes)] if sum(sizes) > total else [])


def test_a_share_that_was_given_back_counts_no_more_and_may_be_taken_again() -> None:
    usage = Usage()
    shares = [usage.take() for _ in range(SHARES)]
    assert usage.take() is None
    first = shares[0]
    assert first is not None
    first.note(100)
    usage.give_back(first)
    again = usage.take()
    assert again is not None
    assert not again.is_one_too_many(99)


class Waiting:
    """A program that holds memory until it is cancelled, or killed."""

    def __init__(self, guests: Guests, size: int, **limits: Any) -> None:
        self.outcome: Any = None
        self._cancel: Any = None
        self._thread = threading.Thread(target=self._run, args=(guests, size, limits))
        self._thread.start()

    def _run(self, guests: Guests, size: int, limits: dict[str, Any]) -> None:
        def keep(cancel: Any) -> None:
            self._cancel = cancel

        try:
            self.outcome = guests.sandbox.run(HOLD.format(size) + WAIT, SandboxLimits(timeout=60, **limits), keep)
        except Cancelled as error:
            self.outcome = error

    def end(self) -> Any:
        self._cancel()
        self._thread.join()
        return self.outcome


def resident(guests: Guests) -> int:
    found = 0
    for pid in descendants(guests.warden):
        try:
            with open(f"/proc/{pid}/statm") as statm:
                found += int(statm.read().split()[1]) * 4096
        except OSError:
            continue
    return found


@pytest.mark.promise("python:memory:total")
@pytest.mark.system
def test_programs_that_use_too_much_together_lose_the_largest_and_the_others_go_on(guests: Guests) -> None:
    guests.run("1")
    first = Waiting(guests, 100, total_memory=300 * MIB)
    while resident(guests) < 100 * MIB:
        pass
    killed = guests.run(HOLD.format(400) + WAIT, timeout=60.0, total_memory=300 * MIB)
    assert (killed.exit_code, killed.timed_out) == (137, False)
    assert killed.stderr.endswith("Killed: programs that ran together had more than 300 MiB, this one the most of it\n")
    assert guests.result(HOLD.format(50) + "result = len(held)", total_memory=300 * MIB) == 50 * MIB
    assert isinstance(first.end(), Cancelled)


@pytest.mark.system
def test_memory_of_programs_that_have_ended_counts_no_more(guests: Guests) -> None:
    for _ in range(5):
        assert guests.result(HOLD.format(150) + "result = 1", total_memory=250 * MIB) == 1


@pytest.mark.system
@pytest.mark.parametrize("how", ["os.fork()", "os.posix_spawn('/bin/true', ['true'], {})"])
def test_a_program_has_no_second_process_whose_memory_could_be_forgotten(guests: Guests, how: str) -> None:
    run = guests.run(f"import os\n{how}")
    assert run.exit_code == 1
    assert "Error" in run.stderr
