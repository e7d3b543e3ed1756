"""What a supervisor's answer means, and that a guest's report is never believed beyond its form."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import Cancelled, ToolError, Unavailable
from rrext.nodes.sandbox.grant import SandboxLimits
from rrext.nodes.sandbox.node import probe, verdict
from rrext.nodes.sandbox.outcome import ProgramEnd, PythonRun, outcome
from rrext.nodes.sandbox.values import MAX_DEPTH
from rrext.tools.results import LARGE_TEXT, LARGE_VALUES

LIMITS = SandboxLimits(timeout=2.5)
LIBRARY = os.path.dirname(os.path.realpath(os.__file__))


def answered(report: bytes = b"", **parts: Any) -> PythonRun:
    answer = ProgramEnd(**{"why": "ended", "exit_code": 0, "signal": 0, "stdout": "", "stderr": "", **parts})
    return outcome(answer, report, LIMITS)


def test_a_report_gives_code_and_result() -> None:
    run = answered(b'{"exit_code": 258, "result": [1]}', exit_code=2)
    assert (run.exit_code, run.result, run.has_result) == (258, [1], True)


@pytest.mark.parametrize(
    ("members", "picture"),
    [
        (b'"result": "b..", "picture": "iVBORw0KGgo="', b"\x89PNG\r\n\x1a\n"),
        (b'"result": "iVBORw0KGgo="', b"\x89PNG\r\n\x1a\n"),
        (b'"result": "iVBORw0KGgo?"', None),
        (b'"result": 1, "picture": "R0lGODlh"', None),
        (b'"result": ["iVBORw0KGgo="]', None),
    ],
)
def test_a_picture_is_a_png_whatever_a_guest_claims(members: bytes, picture: bytes | None) -> None:
    assert answered(b'{"exit_code": 0, %b}' % members).picture == picture


def test_one_thread_at_a_time_has_the_value_of_a_large_report() -> None:
    large = b'{"exit_code": 0, "result": [%b{}]}' % (b"{}," * LARGE_TEXT)
    runs: list[PythonRun] = []
    thread = threading.Thread(target=lambda: runs.append(answered(large)), daemon=True)
    with LARGE_VALUES:
        thread.start()
        assert answered(b'{"exit_code": 0, "result": {"a": [1, {}]}}').result_text == b'{"a":[1,{}]}'
        assert not runs
    thread.join()
    assert len(runs[0].result) == LARGE_TEXT + 1


def test_a_status_that_contradicts_the_report_wins() -> None:
    assert answered(b'{"exit_code": 0}', exit_code=9).exit_code == 9


@pytest.mark.parametrize("number", [2**1023, -(2**1023), 10**4200])
def test_a_number_that_no_guest_sends_is_not_passed_on(number: int) -> None:
    run = answered(b'{"exit_code": 0, "result": [{"a": %d}]}' % number)
    assert (run.exit_code, run.has_result) == (1, False)
    assert "could not be read" in run.stderr
    assert "could not be read" in answered(b'{"exit_code": %d}' % (number << 8)).stderr


@pytest.mark.parametrize(("start", "end"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[1,{"a":', b"},2]")])
def test_a_result_deeper_than_any_guest_sends_is_not_passed_on(start: bytes, end: bytes) -> None:
    times = MAX_DEPTH // (start.count(b"[") + start.count(b"{"))
    deepest = start * times + b"0" + end * times
    assert answered(b'{"exit_code": 0, "result": %s}' % deepest).result == msgspec.json.decode(deepest)
    run = answered(b'{"exit_code": 0, "result": [%s]}' % deepest)
    assert (run.exit_code, run.has_result) == (1, False)
    assert "could not be read" in run.stderr


@pytest.mark.parametrize("value", [2**1023 - 1, 1 - 2**1023, "9" * 5000, "[" * 5000, 0.1])
def test_other_numbers_and_texts_are(value: object) -> None:
    assert answered(b'{"exit_code": 0, "result": %s}' % msgspec.json.encode(value)).result == value


def test_a_word_that_no_guest_has_is_no_note() -> None:
    assert answered(b'{"exit_code": 1, "lack": "everything"}', exit_code=1).stderr == ""
    assert len(answered(b'{"exit_code": 1, "lack": "module:%s"}' % (b"{x}" * 10**5), exit_code=1).stderr) == LIMITS.output


@given(st.binary(max_size=200) | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(msgspec.json.encode))
def test_any_report_gives_an_answer_or_a_note(report: bytes) -> None:
    run = answered(report)
    if run.exit_code == 0 and report:
        assert msgspec.json.decode(report)["exit_code"] == 0
    elif report and run.exit_code == 1:
        assert "could not be read" in run.stderr or msgspec.json.decode(report)["exit_code"] == 1


@pytest.mark.parametrize("why", ["timeout", "threads"])
def test_a_killed_program_has_no_result_whatever_it_reported(why: str) -> None:
    run = answered(b'{"exit_code": 0, "result": 1}', why=why, exit_code=-1, signal=9, stderr="half a line")
    assert run.has_result is False
    assert run.timed_out is (why == "timeout")
    assert run.exit_code == (-1 if why == "timeout" else 137)
    assert run.stderr.startswith("half a line\nKilled: ")


@pytest.mark.parametrize(
    ("number", "note"),
    [
        (6, "Killed by SIGABRT\n"),
        (9, "Killed by SIGKILL, by the system: perhaps its memory ran out\n"),
        (77, "Killed by signal 77\n"),
    ],
)
def test_a_signal_has_a_name_and_a_code(number: int, note: str) -> None:
    run = answered(exit_code=-1, signal=number)
    assert (run.exit_code, run.stderr) == (128 + number, note)


def test_a_cancelled_call_is_no_run() -> None:
    with pytest.raises(Cancelled):
        answered(why="cancelled")


def test_a_missing_wall_is_unavailable_and_says_which() -> None:
    with pytest.raises(Unavailable, match=r"did not run: Seccomp \(detail\)"):
        answered(why="walls: Seccomp", stderr="detail\n")


def test_a_bug_of_the_supervisor_is_a_failed_tool_that_says_so() -> None:
    with pytest.raises(ToolError, match="The sandbox failed, and the program was killed: KeyError: 'x'"):
        answered(why="broken: KeyError: 'x'")


def test_the_interpreters_place_is_not_told() -> None:
    run = answered(stderr=f'File "{LIBRARY}/json/decoder.py", line 1')
    assert run.stderr == 'File "<python>/json/decoder.py", line 1'


def test_a_note_does_not_make_stderr_longer_than_its_limit() -> None:
    run = answered(why="timeout", stderr="x" * LIMITS.output)
    assert len(run.stderr) == LIMITS.output
    assert run.stderr.endswith("Killed: the time limit of 2.5 s was reached\n")


def test_the_test_program_finds_missing_walls(tmp_path: Path) -> None:
    # Outside, all it tries succeeds: but for replacing itself, after which it could not tell.
    secret = tmp_path / "secret"
    secret.write_text("")
    before = "import os\ndef refused(*_): raise OSError\nos.execv = refused\n"
    after = "\nimport json\nprint(json.dumps(result))\n"
    left = Path("/dev/shm/rrext-probe")
    left.unlink(missing_ok=True)
    try:
        ended = subprocess.run([sys.executable, "-c", before + probe(str(secret)) + after], capture_output=True, check=True)
    finally:
        left.unlink(missing_ok=True)
    found = msgspec.json.decode(ended.stdout)
    assert {
        "read a file",
        "list a directory",
        "open a socket",
        "open a local socket",
        "signal its parent",
        "start a process",
    } <= set(found)
    if sys.platform == "linux":
        assert {"read its environment", "write a file"} <= set(found)


def test_only_an_empty_list_from_a_clean_end_passes() -> None:
    def ended(result: bytes | None = b"[]", **parts: Any) -> PythonRun:
        return PythonRun(**{"stdout": "", "stderr": "", "exit_code": 0, "timed_out": False, "result_text": result, **parts})

    assert verdict(ended()) is None
    assert verdict(ended(b'["read a file","list"]')) == "the test program could read a file, list"
    for wrong in (ended(exit_code=1, stderr="boom"), ended(None), ended(b'""')):
        assert "did not come to its end" in str(verdict(wrong))
