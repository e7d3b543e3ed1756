"""The figures for typing come from checks that found the right things."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typing_latency

SCRIPT = Path(typing_latency.__file__)


def test_it_says_how_long_every_kind_of_edit_took() -> None:
    command = [sys.executable, str(SCRIPT), "--nodes", "20", "--edits", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    rows = {line[:16].strip(): line[16:].split() for line in done.stdout.splitlines()[1:6]}
    assert {kind: int(cells[2]) for kind, cells in rows.items()} == {
        "another letter": 3,
        "a sign comes": 3,
        "a sign goes": 3,
        "undone": 9,
        "from scratch": 18,
    }


def test_a_result_that_differs_from_a_check_from_scratch_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    typist = typing_latency.Typist()
    text = typing_latency.document(5)
    check = typist.check
    monkeypatch.setattr(typist, "check", lambda kind, text, before=None: check(kind, text if before is None else "{}", before))
    typist.check_again("a sign comes", text, check("first", text))
    assert typist.differing == 1
