"""Reading changes hands between the loop and a thread that runs quick tools: nobody waits, nothing is lost or doubled."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_client import Server, frame, request, tool


def write(seq: int, pipe: int, data: bytes) -> bytes:
    return request(seq, "rrext_process", {"subcommand": "write", "pipe_id": pipe}, data)


def lead(server: Server, calls: int = 20) -> None:
    """Call a quick tool until a thread reads."""
    for number in range(calls):
        assert server.call("add", {"a": number}) == number + 1


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    """One server for many examples."""
    server = Server()
    yield server
    server.stop()


# -- a tool that stays


@pytest.mark.promise("tool:sync:loop-free")
def test_a_tool_that_parks_on_the_reading_thread_delays_nobody(server: Server) -> None:
    for number in range(5):
        for _ in range(30):
            assert server.call("quick_or_parked") == ""
        parked = server.send_tool("quick_or_parked", {"gate": f"g{number}"})
        assert server.ask("rrext_ping") == {"pong": True}
        assert server.call("add", {"a": number}) == number + 1
        assert server.call("add_later", {"a": number}) == number + 1
        assert parked not in server.answers
        server.call("release", {"gate": f"g{number}"})
        assert server.body(parked)["result"] == f"g{number}"


@pytest.mark.promise("tool:sync:loop-free")
def test_what_was_read_together_with_a_tool_that_parks_is_not_delayed(server: Server) -> None:
    for _ in range(30):
        server.call("quick_or_parked")
    batch = [tool(1000 + number, "quick_or_parked") for number in range(50)]
    batch += [tool(2000, "quick_or_parked", {"gate": "g"})]
    batch += [tool(3000 + number, "add", {"a": number}) for number in range(50)]
    batch += [request(4000, "rrext_ping"), tool(4001, "add_on_loop", {"a": 1}), tool(4002, "quick_or_parked", {"gate": "g"})]
    server.send_bytes(b"".join(batch))
    for seq in [*range(1000, 1050), *range(3000, 3050), 4000, 4001]:
        server.body(seq)
    assert not {2000, 4002} & set(server.answers)
    server.call("release", {"gate": "g"})
    server.body(2000)
    server.body(4002)


@pytest.mark.promise("tool:sync:loop-free")
def test_as_many_tools_park_as_there_are_threads_and_everything_else_answers(spawn: Callable[..., Server]) -> None:
    server = spawn("--threads", "8")
    parked = []
    for number in range(8):
        server.call("quick_or_parked") if number < 7 else None
        parked.append(server.send_tool("quick_or_parked", {"gate": "g"}))
        server.heard("arrived at g\n" * (number + 1))
        assert server.ask("rrext_ping") == {"pong": True}
    waiting = server.send_tool("add", {"a": 1})
    assert server.ask("rrext_ping") == {"pong": True}
    assert waiting not in server.answers
    assert server.ask("cancel", {"requestId": parked[0]}) == {"cancelled": True}
    assert server.code(parked[0]) == "cancelled"
    assert server.ask("rrext_ping") == {"pong": True}
    assert waiting not in server.answers, "a thread that outlives its call keeps its place"


@pytest.mark.promise("cancel:reaches:both-kinds")
def test_a_tool_on_a_thread_that_lost_reading_can_be_cancelled(server: Server) -> None:
    for _ in range(30):
        server.call("quick_or_parked")
    parked = server.send_tool("quick_or_parked", {"gate": "g"})
    assert server.ask("cancel", {"requestId": parked}) == {"cancelled": True}
    assert server.code(parked) == "cancelled"
    server.call("release", {"gate": "g"})
    lead(server)
    assert server.ask("cancel", {"requestId": parked}) == {"cancelled": False}


def test_a_write_that_parks_on_the_reading_thread_delays_its_own_pipe_alone(server: Server, tmp_path: Path) -> None:
    pipe, other = server.open_pipe(), server.open_pipe()
    for number in range(30):
        server.body(server.send("rrext_process", {"subcommand": "write", "pipe_id": pipe}, b"%d" % number))
    parked = server.send("rrext_process", {"subcommand": "write", "pipe_id": pipe}, b"park:g")
    behind = server.send("rrext_process", {"subcommand": "write", "pipe_id": pipe}, b"behind")
    last = server.send("rrext_process", {"subcommand": "close", "pipe_id": pipe})
    assert server.ask("rrext_process", {"subcommand": "write", "pipe_id": other, "data": "x"}) == {}
    assert server.call("add", {"a": 1}) == 2
    assert not {parked, behind, last} & set(server.answers)
    server.call("release", {"gate": "g"})
    assert server.body(parked) == server.body(behind) == {}
    size = sum(len(b"%d" % number) for number in range(30)) + len("park:g") + len("behind")
    assert server.body(last)["reply"] == [f"{size} bytes\n\n"]


# -- exactly one answer


@pytest.mark.promise("call:answer:exactly-one")
def test_ten_thousand_pipelined_requests_of_mixed_kinds_get_one_answer_each(server: Server) -> None:
    pipe = server.open_pipe()
    kinds = [
        lambda seq: tool(seq, "add", {"a": seq}),
        lambda seq: tool(seq, "add_on_loop", {"a": seq}),
        lambda seq: tool(seq, "add_later", {"a": seq}),
        lambda seq: request(seq, "rrext_ping"),
        lambda seq: write(seq, pipe, b"x"),
        lambda seq: tool(seq, "measured", pipe_id=pipe),
        lambda seq: tool(seq, "add", {"a": "no number"}),
        lambda seq: tool(seq, "nobody has this"),
        lambda seq: request(seq, "cancel", {"requestId": seq - 3}),
        lambda seq: request(seq, "tools"),
    ]
    seqs = range(10, 10_010)
    # runs of the same kind, so that reading changes hands; the lengths have no common measure
    server.feed(b"".join(kinds[(seq // 7 + seq // 31) % len(kinds)](seq) for seq in seqs))
    answers = server.all_answers(seqs)
    written = sum(answer["success"] for seq, answer in zip(seqs, answers, strict=True) if (seq // 7 + seq // 31) % 10 == 4)
    assert written > 900
    assert server.call("measured", pipe_id=pipe) == written
    assert server.ask("rrext_ping") == {"pong": True}
    assert server.ask("rrext_get_task_status")["syncCalls"]["used"] == 0


@pytest.mark.promise("call:answer:exactly-one")
def test_requests_read_while_the_interpreter_is_busy_are_all_answered(server: Server) -> None:
    lead(server)
    busy = [server.send_tool("spin", {"gate": "g"}) for _ in range(2)]
    server.begun("g", 2)
    for start in range(1000, 1200, 20):
        batch = b""
        for seq in range(start, start + 20):
            batch += tool(seq, "add", {"a": seq}) if seq % 10 else request(seq, "rrext_ping")
        server.send_bytes(batch)
        server.all_answers(range(start, start + 20))
    server.call("release", {"gate": "g"})
    server.all_answers(busy)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 9)),
        st.tuples(st.just("add_on_loop"), st.integers(0, 9)),
        st.tuples(st.just("add_later"), st.integers(0, 9)),
        st.tuples(st.just("quick"), st.integers(1, 30)),
        st.tuples(st.just("park"), st.sampled_from(["quick_or_parked", "park"])),
        st.tuples(st.just("wait"), st.just(True)),
        st.tuples(st.just("write"), st.integers(0, 5)),
        st.tuples(st.just("write text"), st.integers(0, 5)),
        st.tuples(st.just("pieces"), st.none()),
        st.tuples(st.just("ping"), st.none()),
        st.tuples(st.just("nonsense"), st.integers(0, 3)),
        st.tuples(st.just("cancel"), st.integers(0, 5)),
    ),
    max_size=40,
)


class Example:
    """One schedule: the bytes, what must be answered how, and in which order a pipe's requests take effect."""

    def __init__(self, server: Server, steps: list[tuple[str, Any]]) -> None:
        self.server = server
        self.pipe = server.open_pipe()
        self.bytes = b""
        self.expected: dict[int, Any] = {}
        self.parked: list[int] = []
        self.waiting: list[int] = []
        self.written: list[str] = []
        self.seen: list[tuple[int, list[str]]] = []
        self.anonymous = 0
        self.gate = f"gate of {server.next_seq()}"
        for what, how in steps:
            self.step(what, how)

    def add(self, made: bytes, seq: int, expected: Any = None) -> int:
        self.bytes += made
        self.expected[seq] = expected
        return seq

    def step(self, what: str, how: Any) -> None:
        seq = self.server.next_seq()
        match what:
            case "add" | "add_on_loop" | "add_later":
                self.add(tool(seq, what, {"a": how}), seq, {"result": how + 1})
            case "quick":
                for each in [seq, *(self.server.next_seq() for _ in range(how))]:
                    self.add(tool(each, "quick_or_parked"), each, {"result": ""})
            case "park":
                self.parked.append(self.add(tool(seq, how, {"gate": self.gate}), seq))
            case "wait":
                self.waiting.append(self.add(tool(seq, "wait", {"gate": self.gate}), seq))
            case "ping":
                self.add(request(seq, "rrext_ping"), seq, {"pong": True})
            case "pieces":
                self.add(tool(seq, "small_pieces", pipe_id=self.pipe), seq)
                self.seen.append((seq, list(self.written)))
            case "write" | "write text":
                self.write(seq, "x" * how, raw=what == "write")
            case "nonsense":
                self.nonsense(seq, how)
            case "cancel":
                self.cancel(seq, how)

    def write(self, seq: int, text: str, raw: bool) -> None:
        self.written.append(text)
        arguments = {"subcommand": "write", "pipe_id": self.pipe}
        if raw:
            self.add(request(seq, "rrext_process", arguments, text.encode()), seq, {})
        else:
            self.add(request(seq, "rrext_process", {**arguments, "data": text}), seq, {})

    def cancel(self, seq: int, back: int) -> None:
        """Cancel one of the last requests if it waits, else something that is not there."""
        known = list(self.expected)
        target = known[-1 - back] if back < len(known) else None
        if target in self.waiting:
            self.waiting.remove(target)
            self.expected[target] = "cancelled"
            self.add(request(seq, "cancel", {"requestId": target}), seq, {"cancelled": True})
        else:
            self.add(request(seq, "cancel", {"requestId": 10**9}), seq, {"cancelled": False})

    def nonsense(self, seq: int, how: int) -> None:
        if how == 0:
            self.anonymous += 1
            self.bytes += frame(b"{nonsense")
        else:
            broken = [tool(seq, "nobody"), tool(seq, "add", {"a": []}), request(seq, "rrext_proces")][how - 1]
            self.add(broken, seq, ["tool_not_found", "invalid_arguments", "unknown_command"][how - 1])

    def check(self) -> None:
        """Read every answer that needs nobody else, let the parked ones go, and compare."""
        server = self.server
        stuck = {*self.parked, *self.waiting}
        server.all_answers([seq for seq in self.expected if seq not in stuck])
        assert not stuck & set(server.answers)
        ends = [server.send("cancel", {"requestId": seq}) for seq in self.waiting]
        ends.append(server.send_tool("release", {"gate": self.gate}))
        server.all_answers([*ends, *stuck])
        for seq in self.waiting:
            self.expected[seq] = "cancelled"
        for seq in self.parked:
            self.expected[seq] = {"result": self.gate}
        for seq, pieces in self.seen:
            self.expected[seq] = {"result": pieces}
        for seq, expected in self.expected.items():
            answer = server.answers[seq]
            assert (answer["body"] if answer["success"] else answer["code"]) == expected, answer
        closed = server.ask("rrext_process", {"subcommand": "close", "pipe_id": self.pipe})
        assert closed["reply"] == [f"{sum(map(len, self.written))} bytes\n\n"]
        assert server.unnamed == self.anonymous, "an answer to nobody is missing, or one is too many"
        server.unnamed = 0


@pytest.mark.promise("call:answer:exactly-one")
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=STEPS, cuts=st.lists(st.integers(0, 10_000), max_size=8), pause=st.booleans())
def test_any_schedule_gets_one_answer_each_and_keeps_the_order_of_a_pipe(
    shared: Server, steps: list[tuple[str, Any]], cuts: list[int], pause: bool
) -> None:
    if pause:
        lead(shared, 3)
    example = Example(shared, steps)
    places = sorted({cut % (len(example.bytes) + 1) for cut in cuts})
    for start, end in zip([0, *places], [*places, len(example.bytes)], strict=True):
        shared.send_bytes(example.bytes[start:end])
        if pause:  # what was sent so far is read before the rest comes
            shared.wait_until_read()
    example.check()


@pytest.mark.promise("cancel:next-call-unharmed")
def test_two_hundred_pairs_of_cancel_and_call(server: Server) -> None:
    for number in range(200):
        kind = ("wait", "park_until_cancelled", "quick_or_parked", "add", "add_later")[number % 5]
        given = {"a": 1} if kind.startswith("add") else {"gate": "g"}
        seq, cancel, after = (server.next_seq() for _ in range(3))
        server.send_bytes(
            tool(seq, kind, given)
            + request(cancel, "cancel", {"requestId": seq})
            + tool(after, ("add", "add_later")[number % 2], {"a": number})
        )
        assert server.body(after)["result"] == number + 1
        was_running = server.body(cancel)["cancelled"]
        assert server.answer(seq)["success"] is not was_running
        if was_running:
            assert server.code(seq) == "cancelled"
    server.call("release", {"gate": "g"})
    assert server.ask("rrext_get_task_status")["threads"]["waiting"] == 0


# -- ends while a thread reads


@pytest.mark.parametrize("how", ["end of stdin", "SIGTERM", "shutdown"])
def test_an_end_while_a_thread_reads_is_noticed_and_all_is_answered(server: Server, how: str) -> None:
    lead(server)
    seqs = [server.send_tool("add", {"a": number}) for number in range(100)]
    if how == "end of stdin":
        server.close_stdin()
    elif how == "shutdown":
        seqs.append(server.send("shutdown"))
    else:
        server.all_answers(seqs)
        server.signal(signal.SIGTERM)
    assert all(answer["success"] for answer in server.all_answers(seqs))
    assert server.until_end() == []
    assert server.wait() == 0


def test_an_end_while_a_tool_holds_the_reading_thread_is_noticed(server: Server) -> None:
    for _ in range(30):
        server.call("quick_or_parked")
    parked = server.send_tool("quick_or_parked", {"gate": "g"})
    server.close_stdin()
    assert server.code(parked) == "cancelled"
    assert server.wait() == 0


@pytest.mark.parametrize("cut", range(0, 170, 10))
def test_a_frame_cut_anywhere_across_a_change_of_hands_is_one_frame(shared: Server, cut: int) -> None:
    first, second, third = (shared.next_seq() for _ in range(3))
    whole = tool(first, "add", {"a": 1}) + tool(second, "add_later", {"a": 2}) + tool(third, "add", {"a": 3})
    lead(shared, 3)
    shared.send_bytes(whole[:cut])
    shared.wait_until_read()
    shared.send_bytes(whole[cut:])
    assert [shared.body(seq)["result"] for seq in (first, second, third)] == [2, 3, 4]


def test_large_raw_writes_between_tool_calls_arrive_whole(server: Server) -> None:
    pipe = server.open_pipe()
    chunk = bytes(range(256)) * 4096
    data, expected = b"", {}
    for number in range(40):
        seq = 100 + 3 * number
        data += tool(seq, "add", {"a": number}) + write(seq + 1, pipe, chunk) + tool(seq + 2, "add_on_loop", {"a": number})
        expected |= {seq: {"result": number + 1}, seq + 1: {}, seq + 2: {"result": number + 1}}
    server.feed(data)
    assert {seq: server.body(seq) for seq in expected} == expected
    assert server.call("measured", pipe_id=pipe) == 40 * len(chunk)


# -- what waits is bounded


def test_reading_pauses_behind_64_mib_and_goes_on(spawn: Callable[..., Server], tmp_path: Path) -> None:
    server = spawn("--log-level", "debug")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    pipe = server.open_pipe()
    chunk = bytes(1024 * 1024)
    data = write(1000, pipe, f"park:{gate}".encode())
    data += b"".join(write(seq, pipe, chunk) for seq in range(1001, 1201))
    data += tool(1300, "measured", pipe_id=pipe)
    before = server.memory()
    server.feed(data)
    server.heard("reading pauses")
    assert server.memory() - before < 100 * 1024 * 1024
    gate.write_bytes(b"")
    assert all(server.body(seq) == {} for seq in range(1000, 1201))
    assert server.body(1300) == {"result": 200 * len(chunk) + len(f"park:{gate}")}
    assert server.memory() - before < 100 * 1024 * 1024
    server.heard("reading goes on")
    lead(server)


@pytest.mark.parametrize("how", ["text", "base64"])
def test_reading_pauses_also_behind_writes_of_text_and_base64(spawn: Callable[..., Server], tmp_path: Path, how: str) -> None:
    server = spawn("--log-level", "debug")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    pipe = server.open_pipe()
    given = {"data": "x" * 1_000_000} if how == "text" else {"data_base64": "AAAA" * 250_000}
    each = 1_000_000 if how == "text" else 750_000
    data = write(10, pipe, f"park:{gate}".encode())
    data += b"".join(request(seq, "rrext_process", {"subcommand": "write", "pipe_id": pipe, **given}) for seq in range(11, 111))
    server.feed(data)
    server.heard("reading pauses")
    gate.write_bytes(b"")
    assert all(server.body(seq) == {} for seq in range(10, 111))
    assert server.call("measured", pipe_id=pipe) == 100 * each + len(f"park:{gate}")


def test_reading_pauses_behind_large_inputs_of_tools_that_wait(spawn: Callable[..., Server], tmp_path: Path) -> None:
    server = spawn("--log-level", "debug", "--threads", "1")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    data = tool(10, "park", {"gate": str(gate)})
    data += b"".join(tool(seq, "echo", {"value": "x" * 1_000_000}) for seq in range(11, 111))
    server.feed(data)
    server.heard("reading pauses")
    gate.write_bytes(b"")
    assert all(len(server.body(seq)["result"]) == 1_000_000 for seq in range(11, 111))


def test_a_client_that_goes_while_reading_is_paused_is_noticed(spawn: Callable[..., Server], tmp_path: Path) -> None:
    requests = tmp_path / "requests"
    large = (tool(seq, "echo", {"value": "x" * 1_000_000}) for seq in range(2, 100))
    requests.write_bytes(tool(1, "park", {"gate": "never"}) + b"".join(large))
    with subprocess.Popen(["cat", requests], stdout=subprocess.PIPE) as client:
        server = spawn("--log-level", "debug", "--threads", "1", stdin=client.stdout)
        assert client.stdout is not None
        client.stdout.close()
        server.heard("reading pauses")
        client.kill()
    assert server.code(1) == server.code(2) == "cancelled"
    assert {answer["code"] for answer in server.until_end()} == {"cancelled"}
    assert server.wait() == 0
