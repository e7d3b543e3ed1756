"""Calls from threads beside the event loop, as the blocking client makes them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from rrext.client import blocking
from rrext.client.client import Client
from rrext.errors import NotConnected, RrextError, ServerExited, ToolTimeout, UsageError
from rrext.limits import CLIENT_DEFAULTS

HERE = Path(__file__).resolve().parent
SERVER = [sys.executable, str(HERE / "scripted_child.py")]
ENV = {"PYTHONPATH": str(HERE.parents[1])}
THREADS = 8


@pytest.fixture
def client() -> Iterator[blocking.Client]:
    with blocking.Client.spawn(command=[*SERVER, "narrow"], env=ENV) as connected:
        yield connected


def together(work: Callable[[int], Any]) -> list[Any]:
    """What `work` returned or raised in each of several threads."""
    outcomes: list[Any] = [None] * THREADS

    def run(number: int) -> None:
        try:
            outcomes[number] = work(number)
        except RrextError as error:
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return outcomes


def state(client: blocking.Client) -> str:
    """What is in flight, and which places are free."""
    session: Any = client.wrapped._session
    return f"{session.endpoint!r} {session.slots!r} {session.pipe_slots!r}"


def test_threads_wait_for_places_in_turn_and_every_call_is_answered(client: blocking.Client) -> None:
    before = state(client)

    def work(number: int) -> int:
        return sum(client.tool(tool="echo", input={"n": n})["n"] == n for n in range(50))

    assert together(work) == [50] * THREADS
    assert state(client) == before


def test_large_frames_of_many_threads_leave_whole(client: blocking.Client) -> None:
    def work(number: int) -> bool:
        given = {"text": str(number) * 100_000}
        return all(client.tool(tool="echo", input=given) == given for _ in range(5))

    assert together(work) == [True] * THREADS


def test_a_timeout_ends_the_call_of_its_thread_and_cancels_it_in_the_server(client: blocking.Client) -> None:
    def work(number: int) -> Any:
        return client.request("rrext_process", {"subcommand": "tool", "tool": "never answered"}, timeout=0.05)

    outcomes = together(work)
    assert [type(outcome) for outcome in outcomes] == [ToolTimeout] * THREADS
    assert client.tool(tool="cancelled") == THREADS


def test_a_server_that_dies_fails_the_calls_of_all_threads(client: blocking.Client) -> None:
    def work(number: int) -> Any:
        return client.request("rrext_process", {"subcommand": "tool", "tool": "never answered" if number else "die"})

    assert [type(outcome) for outcome in together(work)] == [ServerExited] * THREADS


def test_a_client_that_is_closed_fails_the_calls_of_other_threads(client: blocking.Client) -> None:
    def work(number: int) -> Any:
        if number == 0:
            return client.close()
        return client.request("rrext_process", {"subcommand": "tool", "tool": "never answered"})

    closed, *others = together(work)
    assert closed is None
    assert [type(other) for other in others] == [NotConnected] * (THREADS - 1)


def test_threads_write_to_one_pipe_one_after_the_other(client: blocking.Client) -> None:
    with client.pipe() as pipe:
        assert together(lambda number: pipe.write(b"x" * 10_000)) == [None] * THREADS
    assert pipe.result == {"written": THREADS * 10_000}


def test_callbacks_that_are_behind_may_use_the_client_and_see_every_chunk() -> None:
    """More waits for each of them than is read while nobody else calls: a call of theirs has reading go on."""
    size, count = CLIENT_DEFAULTS.chunk_backlog // 4, 12

    def work(number: int) -> list[int]:
        seen: list[int] = []

        def take(chunk: str) -> None:
            assert len(chunk) == size
            seen.append(client.tool(tool="echo", input={"n": len(seen)})["n"])

        assert client.tool(tool="chunks", input={"size": size, "count": count}, on_chunk=take) == "all"
        return seen

    with blocking.Client.spawn(command=SERVER, env=ENV) as client:
        assert work(0) == list(range(count))
        assert together(work) == [list(range(count))] * THREADS
        assert "<Endpoint 0 calls" in state(client)


def test_the_loop_may_be_trios() -> None:
    wrapped = Client.spawn(command=[*SERVER, "narrow"], env=ENV)
    with blocking.Client(wrapped, backend="trio") as client:
        assert together(lambda number: client.tool(tool="echo", input={"n": number}, timeout=30)["n"]) == list(range(THREADS))
        with pytest.raises(ToolTimeout):
            client.request("rrext_process", {"subcommand": "tool", "tool": "never answered"}, timeout=0.05)
        assert client.tool(tool="cancelled") == 1


def test_an_async_callback_runs_on_the_loop_and_is_waited_for(client: blocking.Client) -> None:
    seen: list[Any] = []

    async def report(value: float, total: float | None, message: str | None) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append((value, threading.get_ident()))

    assert client.tool(tool="report", progress=report) == "reported"
    [(value, thread)] = seen
    assert value == 1
    assert thread != threading.get_ident()


def test_the_loops_own_thread_is_told_that_it_cannot_block() -> None:
    seen: list[RrextError] = []

    def heard(_: bytes) -> None:
        with pytest.raises(UsageError, match="event loop's thread") as caught:
            client.tool(tool="pid")
        seen.append(caught.value)

    with blocking.Client.spawn(command=[*SERVER, "narrow"], env=ENV, on_stderr=heard) as client:
        client.tool(tool="noise")
    assert seen
