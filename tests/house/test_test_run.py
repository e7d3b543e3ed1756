"""The test run itself: the proofs of one promise, and a start by a shell that ignores Ctrl-C."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from promises import PROMISES

ROOT = Path(__file__).resolve().parents[2]


def pytest_says(*arguments: str, folder: str = "tests/house", start: str = 'exec "$@"') -> tuple[int, str]:
    """The exit code and the words of a test run, which a shell starts."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, folder]
    done = subprocess.run(
        ["sh", "-c", start, "sh", *command], cwd=ROOT, capture_output=True, text=True, timeout=50, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_the_proofs_of_one_promise_are_run() -> None:
    code, said = pytest_says("--promise", "data:driver:off-the-loop", "--collect-only")
    assert code == 0, said
    names = [line for line in said.splitlines() if "::" in line]
    assert names
    assert all("test_drivers.py::" in name for name in names)


def test_a_promise_that_is_none_names_those_like_it() -> None:
    code, said = pytest_says("--promise", "data:driver:of-the-loop")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "no promise 'data:driver:of-the-loop'" in said
    assert "data:driver:off-the-loop" in said
    assert "data:driver:off-the-loop" in PROMISES


def test_ctrl_c_reaches_what_tests_start_though_the_shell_ignores_it() -> None:
    code, said = pytest_says(
        "-k", "what_was_taken_is_given_back", folder="tests/cli/test_interrupts.py", start="trap '' INT; exec \"$@\""
    )
    assert code == 0, said
    assert "1 passed" in said
