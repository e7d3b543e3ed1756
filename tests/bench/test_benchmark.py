"""The benchmark says what it measured, and says why when it could not."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from bench_client import FIRST_ID, Dap, Mcp, Server, write_all
from bench_peers import Missing, python_floor, run
from bench_sockets import call, message, whole
from bench_table import HEADER, ROWS, Row, cells, judge, table

HERE = Path(__file__).resolve().parent
TITLES = {
    "floor": "C floor",
    "floor-py": "Python floor",
    "mcp": "MCP Python",
    "mcp-ts": "MCP TypeScript",
    "node": "vscode-jsonrpc",
}
LATENCY = Row("one call", "calls", "p50 µs", ("floor", "p50 µs"), 4.5, 3)
SPEED = Row("many calls", "calls", "calls/s", ("mcp", "calls/s"), 35, 60, more=True)
GROWTH = Row("memory", "memory", "soak MiB", None, 5, 0.5)


@pytest.mark.parametrize(
    ("row", "value", "verdict"),
    [
        (LATENCY, 3.0, "stretch"),
        (LATENCY, 3.1, "required"),
        (LATENCY, 4.6, "MISSED"),
        (SPEED, 60, "stretch"),
        (SPEED, 59, "required"),
        (SPEED, 34, "MISSED"),
        (GROWTH, -1.0, "stretch"),
        (GROWTH, 5.1, "MISSED"),
    ],
)
def test_a_figure_is_judged_against_both_marks(row: Row, value: float, verdict: str) -> None:
    assert judge(row, value) == verdict


def test_a_row_shows_both_figures_and_their_ratio() -> None:
    line = cells(LATENCY, {("rrext", "p50 µs"): 28.0, ("floor", "p50 µs"): 7.0}, TITLES, {})
    assert line == ("one call", "28.0 µs", "C floor 7.0 µs", "4.00×", "≤ 4.50×", "≤ 3.00×", "required")


def test_a_row_without_a_peer_judges_the_figure_itself() -> None:
    line = cells(GROWTH, {("rrext", "soak MiB"): 7.25}, TITLES, {})
    assert line == ("memory", "7.2 MiB", "itself", "–", "≤ 5 MiB", "≤ 0.5 MiB", "MISSED")


def test_a_row_may_stand_beside_another_figure_of_rrext() -> None:
    row = Row("with timeout", "shapes", "with timeout p50 µs", ("rrext", "plain def p50 µs"), 1.4, 1.2)
    line = cells(row, {("rrext", "with timeout p50 µs"): 26.0, ("rrext", "plain def p50 µs"): 20.0}, TITLES, {})
    assert line[1:] == ("26.0 µs", "plain def 20.0 µs", "1.30×", "≤ 1.40×", "≤ 1.20×", "required")


def test_a_row_says_why_its_peer_is_missing() -> None:
    line = cells(LATENCY, {("rrext", "p50 µs"): 28.0}, TITLES, {("floor", ""): "no C compiler (cc or gcc)"})
    assert line[1:4] == ("28.0 µs", "C floor", "–")
    assert line[-1] == "not measured: no C compiler (cc or gcc)"


def test_a_row_says_why_rrext_was_not_measured() -> None:
    line = cells(LATENCY, {("floor", "p50 µs"): 7.0}, TITLES, {("rrext", "calls"): "ServerGone: it ended"})
    assert line[-1] == "not measured: ServerGone: it ended"


def test_the_table_has_a_line_for_each_row_and_columns_of_one_width() -> None:
    lines = table([cells(row, {}, TITLES, {}) for row in ROWS]).splitlines()
    assert len(lines) == len(ROWS) + 2
    assert len({len(line) for line in lines}) == 1
    assert [cell.strip() for cell in lines[0].strip("|").split("|")] == list(HEADER)


def test_a_failed_install_names_its_last_line() -> None:
    with pytest.raises(Missing, match="no such package"):
        run(sys.executable, "-c", "import sys; sys.exit('working\\nno such package')")


@pytest.mark.parametrize("dialect", [Dap(), Mcp()])
def test_the_client_counts_whole_answers_only(dialect: Dap | Mcp) -> None:
    server = Server.__new__(Server)
    server.dialect = dialect
    frames = server.frames(3, "add", b"{}")
    data = b"".join(frames)
    for cut in range(len(data) + 1):
        count, left = server.count(data[:cut])
        assert (count, left) == (cut // len(frames[0]), data[:cut][cut // len(frames[0]) * len(frames[0]) :])
    assert str(FIRST_ID + 2).encode() in frames[2]


@pytest.mark.parametrize("size", [0, 125, 126, 65535])
def test_the_client_of_websockets_counts_whole_messages_and_no_pings(size: int) -> None:
    payload, ping = bytes(size), b"\x89\x01p"
    sent = message(payload)
    head, masked = sent[: -size - 4], 0x80
    answer = bytes((head[0], head[1] - masked)) + head[2:] + payload
    data = answer + ping + answer
    for cut in {*range(20), *range(len(answer) - 5, len(data) + 1)} & {*range(len(data) + 1)}:
        count, left = whole(data[:cut])
        assert count == (cut >= len(answer)) + (cut == len(data))
        assert data[:cut].endswith(left)


@pytest.mark.parametrize("answer", ["short", "long" * 1000])
def test_the_client_of_websockets_finds_an_answer_between_pings(answer: str) -> None:
    payload, ping = json.dumps(answer).encode(), b"\x89\x01p"
    head = bytes((0x81, len(payload))) if len(payload) < 126 else b"\x81\x7e" + len(payload).to_bytes(2, "big")
    end, server = socket.socketpair()
    with end, server:
        server.sendall(ping + ping + head + payload + ping)
        assert call(end, b"request") == answer


def test_a_dap_request_carries_other_arguments_beside_tool_and_input() -> None:
    request = json.loads(Dap().request(7, "add", b'{"a":1}', timeout=30, context={"userId": "u"}))
    assert request["seq"] == 7
    assert request["arguments"] == {
        "subcommand": "tool",
        "tool": "add",
        "input": {"a": 1},
        "timeout": 30,
        "context": {"userId": "u"},
    }


def test_the_python_floor_answers_each_frame_of_a_batch() -> None:
    with Server(python_floor(), Dap()) as server:
        write_all(server.to, [b"".join(server.frames(3, "add", b'{"a":1,"b":2}'))])
        assert list(server.results(3)) == [{"sum": 3}] * 3


@pytest.mark.system
@pytest.mark.timeout(500)
def test_one_command_prints_the_table(tmp_path: Path) -> None:
    """Here only the small peers take part; figures of a machine that runs tests prove nothing, so none is asserted."""
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        pytest.skip("install a C compiler: the floor is a C program")
    command = [
        sys.executable,
        str(HERE / "run.py"),
        "--least",
        "--without",
        "mcp,mcp-ts",
        "--cache",
        str(tmp_path),
    ]
    command += ["--rrext", f"{sys.executable} -m rrext"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout.count("\n|") == len(ROWS) + 1
    measured = [line for line in done.stdout.splitlines() if line.startswith("|") and "not measured" not in line]
    assert len(measured) - 2 == sum(row.peer is None or row.peer[0] not in ("mcp", "mcp-ts") for row in ROWS), done.stdout


def test_the_benchmark_of_a_cluster_measures_all_that_it_has_limits_for() -> None:
    done = subprocess.run(
        [sys.executable, HERE / "run_cluster.py", "--least"], capture_output=True, text=True, timeout=50, check=True
    )
    assert [line[:20].strip() for line in done.stdout.splitlines() if "limit" in line] == [
        "call",
        "calls together",
        "raw writes",
        "execute",
        "MiB a task",
        "server KiB a task",
    ]


def test_the_benchmark_of_agents_measures_all_that_it_has_limits_for() -> None:
    done = subprocess.run(
        [sys.executable, HERE / "run_agents.py", "--least"], capture_output=True, text=True, timeout=50, check=True
    )
    assert [line.split()[0] for line in done.stdout.splitlines() if "limit" in line] == [
        "run",
        "events",
        "stalled",
        "tool",
        "late",
    ]
