"""Much at once, much in one piece, and readers that do not read: nothing is lost, and memory stays flat."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from raw_client import Message, Server, frame, request, tool

MIB = 1024 * 1024
GROWTH = 12 * MIB
"""What a limit of 8 MiB and an allocator may cost."""


def write(seq: int, pipe: int, data: bytes) -> bytes:
    return request(seq, "rrext_process", {"subcommand": "write", "pipe_id": pipe}, data)


def warm(server: Server) -> int:
    """Its memory once everything has been used."""
    for name in ("add", "add_later", "add_on_loop"):
        server.all_answers([server.send_tool(name, {"a": number}) for number in range(50)])
    server.call("text", {"size": 1000})
    server.body(server.send_tool("report", {"times": 3}, progress=True))
    return server.memory()


# -- many


def test_fifty_concurrent_calls_on_one_pipe_see_its_objects(server: Server) -> None:
    pipe = server.open_pipe()
    server.body(server.send("rrext_process", {"subcommand": "write", "pipe_id": pipe}, b"x" * 100))
    parked = [server.send_tool("park", {"gate": "g"}, pipe_id=pipe) for _ in range(25)]
    waiting = [server.send_tool("wait", {"gate": "w"}, pipe_id=pipe) for _ in range(25)]
    server.begun("g", 25)
    server.begun("w", 25)
    assert server.call("measured", pipe_id=pipe) == 100
    closing = server.send("rrext_process", {"subcommand": "close", "pipe_id": pipe})
    for seq in waiting:
        assert server.ask("cancel", {"requestId": seq}) == {"cancelled": True}
    server.call("release", {"gate": "g"})
    assert [server.body(seq)["result"] for seq in parked] == ["g"] * 25
    assert {server.code(seq) for seq in waiting} == {"cancelled"}
    assert server.body(closing)["reply"] == ["100 bytes\n\n"]


def test_requests_beyond_max_inflight_are_refused_and_the_others_answered(server: Server) -> None:
    batch = [tool(seq, "wait", {"gate": "g"}) for seq in range(1000, 1000 + 4096)]
    server.feed(b"".join(batch) + tool(9000, "add", {"a": 1}) + request(9001, "rrext_process", {"subcommand": "open"}))
    assert server.code(9000) == "too_many_requests"
    assert server.answers[9000]["data"] == {"limit": "max_inflight", "maximum": 4096}
    assert server.ask("rrext_ping") == {"pong": True}
    cancels = [request(seq + 10_000, "cancel", {"requestId": seq}) for seq in range(1000, 1000 + 4096)]
    server.feed(b"".join(cancels))
    assert {server.code(seq) for seq in range(1000, 1000 + 4096)} == {"cancelled"}
    assert server.body(9001)["pipe_id"]
    assert server.call("add", {"a": 1}) == 2


def test_thousands_of_calls_leave_nothing_behind(server: Server) -> None:
    warm(server)
    descriptors, before = server.call("descriptors"), 0
    names = ("add", "add_on_loop", "add_later", "nobody")
    for start in range(10_000, 22_000, 1000):
        server.feed(b"".join(tool(seq, names[seq // 100 % 4], {"a": seq}) for seq in range(start, start + 1000)))
        server.all_answers(range(start, start + 1000))
        server.answers.clear()
        if start == 13_000:
            before = server.memory()
    assert server.memory() - before < 5 * MIB
    assert server.call("threads") < 2 * 64 + 10  # 64 that run, and as many that answer what they ran
    assert server.call("descriptors") == descriptors


def test_pipes_that_are_opened_and_closed_leave_nothing_behind(server: Server) -> None:
    before = 0
    for number in range(300):
        pipe = server.open_pipe()
        server.body(server.send("rrext_process", {"subcommand": "write", "pipe_id": pipe}, b"x" * 1000))
        assert server.ask("rrext_process", {"subcommand": "close", "pipe_id": pipe})["reply"] == ["1000 bytes\n\n"]
        if number == 50:
            before = server.memory()
    assert server.memory() - before < 2 * MIB
    assert server.ask("rrext_get_task_status")["threads"]["used"] == 0


# -- large


@pytest.mark.parametrize("raw", [False, True])
def test_a_result_of_15_mib_arrives_whole_and_the_next_call_works(server: Server, raw: bool) -> None:
    server.ask("initialize", {"rawTail": raw})
    size = 15 * MIB
    assert server.call("text", {"size": size}) == "x" * size
    if raw:
        assert server.body(server.send_tool("blob", {"size": size}))["data"] == bytes(range(256)) * (size // 256)
    assert server.code(server.send_tool("text", {"size": 17 * MIB})) == "result_too_large"
    assert server.call("add", {"a": 1}) == 2


@pytest.mark.promise("wire:oversize:skipped")
def test_a_frame_of_17_mib_is_answered_and_the_next_one_works(server: Server) -> None:
    server.feed(tool(1000, "echo", {"value": "x" * 17 * MIB}) + request(1001, "rrext_ping"))
    assert server.code(1000) == "frame_too_large"
    assert server.body(1001) == {"pong": True}
    before = server.memory()
    for seq in range(1002, 1008):
        server.feed(frame(b"y" * 40 * MIB) + request(seq, "rrext_ping"))
        server.body(seq)
    assert server.unnamed == 6
    assert server.memory() - before < GROWTH


def test_max_frame_is_an_option(spawn: Callable[..., Server]) -> None:
    server = spawn("--max-frame", "1000")
    assert server.ask("initialize")["limits"]["maxFrame"] == 1000
    assert server.code(server.send_tool("echo", {"value": "x" * 1000})) == "frame_too_large"
    assert server.call("echo", {"value": "x" * 500}) == "x" * 500


def test_much_in_raw_chunks_is_counted_and_memory_stays_flat(server: Server) -> None:
    warm(server)
    pipe = server.open_pipe()
    chunk = bytes(range(256)) * 4096
    in_flight: list[int] = []
    readings = []
    for number in range(300):
        in_flight.append(server.send("rrext_process", {"subcommand": "write", "pipe_id": pipe}, chunk))
        if len(in_flight) == 8:
            assert server.body(in_flight.pop(0)) == {}
        if number in (50, 100, 200, 299):
            readings.append(server.memory())
    assert server.all_answers(in_flight)
    assert max(readings[1:]) - readings[0] < 10 * MIB
    assert server.call("measured", pipe_id=pipe) == 300 * MIB


# -- a reader that does not read


@pytest.mark.promise("progress:ordered:bounded")
def test_ten_thousand_progress_reports_to_a_stalled_reader_cost_no_memory(server: Server) -> None:
    before = warm(server)
    seq = server.send_tool("report", {"times": 100_000, "gate": "g"}, progress=True)
    server.heard("arrived at g")  # all is reported, and nobody has read any of it
    assert server.memory() - before < GROWTH
    cancel_target = server.send_tool("wait", {"gate": "w"})
    server.send("cancel", {"requestId": cancel_target})
    server.send_tool("release", {"gate": "g"})
    assert server.body(seq)["result"] == 100_000
    values = [event["body"]["progress"] for event in server.events if event["body"]["request"] == seq]
    assert values == sorted(set(values))
    assert values[-1] == 100_000
    assert len(values) < 60_000, "more than the outbox holds was sent"


@pytest.mark.promise("progress:ordered:bounded")
def test_a_report_that_was_held_back_arrives_without_another_one(server: Server) -> None:
    warm(server)
    seq = server.send_tool("report", {"times": 100_000, "gate": "g"}, progress=True)
    server.heard("arrived at g")
    last: Message = {}
    while last.get("progress") != 100_000:
        last = server.read()["body"]
    assert seq not in server.answers
    server.call("release", {"gate": "g"})
    assert server.body(seq)["result"] == 100_000
    assert server.events[-1]["body"]["progress"] == 100_000


def test_big_results_to_a_stalled_reader_cost_a_bounded_amount_and_all_arrive(server: Server) -> None:
    before = warm(server)
    stopped = server.send_tool("park_until_cancelled", {"gate": "stopped"})
    server.heard("arrived at stopped")
    seqs = [server.send_tool("text", {"size": MIB}) for _ in range(200)]
    pings = [server.send("rrext_ping") for _ in range(10)]
    cancel = server.send("cancel", {"requestId": stopped})
    server.wait_until_read()
    held = server.send("cancel", {"requestId": seqs[-1]})
    server.wait_until_read()
    assert server.memory() - before < 90 * MIB, "more than 64 calls ran, or their results are kept twice"
    assert [len(server.body(seq)["result"]) for seq in seqs[:-1]] == [MIB] * 199
    assert server.code(seqs[-1]) == "cancelled"
    assert server.code(stopped) == "cancelled"
    assert server.body(cancel) == server.body(held) == {"cancelled": True}
    assert server.all_answers(pings)
    assert server.call("add", {"a": 1}) == 2


@pytest.mark.promise("call:unread:bounded")
def test_small_answers_to_a_stalled_reader_cost_a_bounded_amount_and_all_arrive(server: Server) -> None:
    before = warm(server)
    stopped = server.send_tool("park_until_cancelled", {"gate": "stopped"})
    server.heard("arrived at stopped")
    numbers = range(1_000_000, 1_120_000)
    server.feed(b"".join(request(number, "rrext_ping") for number in numbers))
    server.wait_until_paused()
    assert server.memory() - before < 40 * MIB
    for number in numbers:
        assert server.body(number) == {"pong": True}
    assert server.ask("cancel", {"requestId": stopped}) == {"cancelled": True}
    assert server.code(stopped) == "cancelled"


@pytest.mark.promise("call:unread:bounded")
def test_a_stalled_reader_is_heard_when_it_cancels_and_when_it_ends(spawn: Callable[..., Server]) -> None:
    server = spawn("--drain", "0.2")
    stopped = server.send_tool("park_until_cancelled", {"gate": "stopped"})
    server.heard("arrived at stopped")
    before = server.memory()
    server.feed(b"".join(request(number, "rrext_services") for number in range(1000, 2200)))
    server.wait_until_blocked()
    assert server.memory() - before < 40 * MIB
    server.send("cancel", {"requestId": stopped})
    server.heard("stopped was cancelled")
    server.send("shutdown")
    assert server.wait() == 1  # with answers that nobody read


@pytest.mark.promise("call:unread:bounded")
def test_a_server_whose_reading_has_paused_ends_when_it_is_told_to(spawn: Callable[..., Server]) -> None:
    server = spawn("--drain", "2")  # with less the watchdog may take a busy machine for a stuck server
    # Large ones, of which few wait: to fail a hundred thousand of them takes a busy machine longer than an end may take.
    server.feed(b"".join(request(number, "rrext_services", {"ignored": "x" * 65536}) for number in range(1000, 3000)))
    server.wait_until_paused()
    server.signal(signal.SIGTERM)
    assert server.wait() == 1


def test_a_stalled_reader_of_chunks_stops_their_producer(server: Server) -> None:
    before = warm(server)
    seq = server.send_tool("chunks", {"times": 400, "size": MIB // 4}, stream=True)
    server.wait_until_blocked()
    assert server.memory() - before < GROWTH + 10 * MIB
    assert server.body(seq) == {"result": None}
    chunks = [event["body"] for event in server.events if event["event"] == "rrext_chunk"]
    assert [chunk["index"] for chunk in chunks] == list(range(400))
    assert all(len(chunk["chunk"]) == MIB // 4 for chunk in chunks)


def test_a_stalled_reader_can_cancel_what_produces_chunks(server: Server) -> None:
    seq = server.send_tool("chunks", {"times": 10_000, "size": MIB // 4}, stream=True)
    server.wait_until_blocked()
    cancel = server.send("cancel", {"requestId": seq})
    server.wait_until_read()
    assert server.code(seq) == "cancelled"
    assert server.body(cancel) == {"cancelled": True}
    assert len(server.events) < 200
    assert server.call("add", {"a": 1}) == 2


def test_requests_of_a_pipe_do_not_overtake_a_call_that_waits_for_a_stalled_reader(server: Server) -> None:
    pipe = server.open_pipe()
    server.body(server.send("rrext_process", {"subcommand": "write", "pipe_id": pipe}, b"before"))
    flood = [server.send_tool("text", {"size": 4 * MIB}) for _ in range(10)]
    server.wait_until_read()
    asked = [server.send_tool("small_pieces", pipe_id=pipe)]
    written = server.send("rrext_process", {"subcommand": "write", "pipe_id": pipe}, b"after")
    asked.append(server.send_tool("small_pieces", pipe_id=pipe))
    closed = server.send("rrext_process", {"subcommand": "close", "pipe_id": pipe})
    server.wait_until_read()
    assert all(server.answer(seq)["success"] for seq in flood)
    assert server.body(asked[0])["result"] == ["before"]
    assert server.body(written) == {}
    assert server.body(asked[1])["result"] == ["before", "after"]
    assert server.body(closed)["reply"] == ["11 bytes\n\n"]


def test_a_stalled_reader_costs_no_processor_time(server: Server) -> None:
    flood = [server.send_tool("text", {"size": 4 * MIB}) for _ in range(10)]
    server.wait_until_blocked()
    parked = server.send_tool("report", {"times": 1, "gate": "g"}, progress=True)
    server.wait_until_read()
    before = server.cpu_ticks()
    with pytest.raises(subprocess.TimeoutExpired):
        server.wait(0.3)
    assert server.cpu_ticks() - before < 10
    assert all(server.answer(seq)["success"] for seq in flood)
    server.begun("g")
    server.call("release", {"gate": "g"})
    server.body(parked)


# -- everything at once


@pytest.mark.promise("call:answer:exactly-one")
def test_a_big_mixture_through_a_small_pool(spawn: Callable[..., Server], tmp_path: Path) -> None:
    server = spawn("--threads", "4")
    pipes = [server.open_pipe() for _ in range(2)]
    expected: dict[int, object] = {}
    data = b""
    for seq in range(1000, 4000):
        match seq % 9:
            case 0:
                made, expected[seq] = write(seq, pipes[seq % 2], b"x" * (seq % 3000)), {}
            case 1:
                made, expected[seq] = tool(seq, "text", {"size": seq * 20}), {"result": "x" * seq * 20}
            case 2:
                made, expected[seq] = request(seq, "rrext_ping"), {"pong": True}
            case 3:
                made, expected[seq] = tool(seq, "add_later", {"a": seq}), {"result": seq + 1}
            case 4:
                made, expected[seq] = tool(seq, "echo", {"value": "y" * (seq * 10)}), {"result": "y" * (seq * 10)}
            case 5:
                made, expected[seq] = tool(seq, "raises", {"kind": "exit"}), "tool_failed"
            case 6:
                made, expected[seq] = tool(seq, "add", {"a": "x"}), "invalid_arguments"
            case _:
                made, expected[seq] = tool(seq, "add", {"a": seq}), {"result": seq + 1}
        data += made
    server.feed(data)
    for seq, value in expected.items():
        answer = server.answer(seq)
        assert (answer["body"] if answer["success"] else answer["code"]) == value
    sizes = [sum(seq % 3000 for seq in range(1000, 4000) if seq % 9 == 0 and seq % 2 == half) for half in range(2)]
    for pipe, size in zip(pipes, sizes, strict=True):
        closed = server.ask("rrext_process", {"subcommand": "close", "pipe_id": pipe})
        assert closed["reply"] == [f"{size} bytes\n\n"]
    assert server.ask("rrext_get_task_status")["threads"]["used"] == 0


@pytest.mark.parametrize("long", ["message", "hint", "data", "code"])
@pytest.mark.promise("error:failure:stays-failure")
def test_an_error_of_a_tool_is_no_longer_than_a_result(server: Server, long: str) -> None:
    seq = server.send_tool("fails_at_length", {long: 20_000_000})
    answer = server.answer(seq)
    assert answer["code"] == ("tool_failed" if long == "code" else "ccc")
    assert answer["data"] == {"limit": "max_result", "maximum": 16 * MIB}
    assert len(answer["message"]) < 5000
    seq = server.send_tool("fails_at_length", {"message": 100_000})
    assert len(server.answer(seq)["message"]) == 100_000


# -- without memory


@pytest.mark.promise("wire:no-memory")
@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
@pytest.mark.parametrize("more", [6, 40])
def test_every_request_is_answered_though_there_is_no_memory_for_the_large_ones(
    spawn: Callable[..., Server], more: int
) -> None:
    idle = spawn()
    idle.call("add", {"a": 1})
    size = next(line for line in Path(f"/proc/{idle.pid}/status").read_text().splitlines() if line.startswith("VmPeak"))
    limit = (int(size.split()[1]) << 10) + (more << 20)
    server = spawn(before=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    for given in ("x" * 12_000_000, ["x"] * 3_000_000, [{}] * 4_000_000):
        large = server.send("rrext_ping", {"ignored": given})
        assert server.call("add", {"a": 1}) == 2
        assert server.answer(large)["success"] or server.code(large) == "unavailable"
    server.close_stdin()
    assert server.wait() == 0
    assert "Traceback" not in server.stderr_text()
