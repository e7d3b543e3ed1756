"""The editor's benchmark types what it says that it types, and prints its table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench_editor import BROKEN, VALID, Typist, pipeline
from run_editor import CASES, HEADER

from rrext.editor.text import Text
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline

HERE = Path(__file__).resolve().parent


def after(text: Text, key: bytes) -> Text:
    (change,) = json.loads(key)["params"]["contentChanges"]
    places = [(place["line"], place["character"]) for place in (change["range"]["start"], change["range"]["end"])]
    return text.edited(places[0], places[1], change["text"])


def problems(text: str) -> int:
    return len(load_pipeline(text, Catalog(installed=False), Environment.of_process(()), strict_env=False).problems)


@pytest.mark.parametrize("nodes", [10, 100, 500])
def test_what_is_typed_into_is_sound(nodes: int) -> None:
    text = pipeline(nodes)
    assert problems(text) == 0
    assert len(json.loads(text)["components"]) == nodes


def test_a_letter_leaves_the_file_sound() -> None:
    typist = Typist(pipeline(10), VALID)
    text = Text(typist.text)
    for length in range(1, 20):
        text = after(text, typist.key())
        assert "Do the " + VALID * length + "thing" in text.content
        assert problems(text.content) == 0


def test_a_member_is_typed_and_deleted_again_key_by_key_and_breaks_the_file_meanwhile() -> None:
    typist = Typist(pipeline(10), BROKEN)
    before = Text(typist.text)
    states = [before]
    for _ in range(2 * len(BROKEN)):
        states.append(after(states[-1], typist.key()))
    assert states[-1].content == typist.text
    assert BROKEN in states[len(BROKEN)].content
    assert json.loads(states[len(BROKEN)].content)
    assert [text.content for text in states] == [text.content for text in reversed(states)]
    assert sum(problems(text.content) > 0 for text in states[1 : len(BROKEN)]) > len(BROKEN) // 2


@pytest.mark.system
@pytest.mark.timeout(300)
def test_one_command_prints_the_table() -> None:
    """Figures of a machine that runs tests prove nothing, so none is asserted."""
    command = [sys.executable, str(HERE / "run_editor.py"), "--least", "--rrext", f"{sys.executable} -m rrext"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(lines) == len(CASES) + 3
    assert [cell.strip() for cell in lines[0].strip("|").split("|")] == list(HEADER)
