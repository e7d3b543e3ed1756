"""The plugin of pytest: files of cases are tests, where they stand beside a pipeline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rrext.cli.main import main
from rrext.pytest_plugin import OPTIONS

HERE = Path(__file__).resolve().parent
CONTROL = [{"classType": "tool", "from": "w"}]
PIPE = json.dumps({"components": [{"id": "w", "provider": "tools"}, {"id": "d", "provider": "desk", "control": CONTROL}]})


def pytest_in(folder: Path, *args: str) -> tuple[int, str]:
    """The exit code and the output of pytest in a folder."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", *args]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}  # of our own run
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_cases_beside_a_pipeline_are_tests(tmp_path: Path):
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nrrext_nodes = {HERE / 'case_nodes.py'}\n")
    (tmp_path / "desk.pipe").write_text(PIPE)
    add = {"tool": "add", "input": {"a": 1, "b": 2}}
    cases = [{"name": "adds", **add, "expect": {"$at": {"/sum": 3}}}, {"name": "fails", **add, "expect": {"$at": {"/sum": 4}}}]
    text = json.dumps({"cases": cases}, indent=1)
    (tmp_path / "desk.cases.json").write_text(text)
    (tmp_path / "alone.cases.json").write_text("of another program")
    code, told = pytest_in(tmp_path)
    assert code == 1, told
    assert "1 failed, 1 passed" in told
    line = text[: text.index('"fails"')].count("\n")  # the brace of the case
    assert f"{tmp_path / 'desk.cases.json'}:{line}: fails\n/sum: expected 4, got 3" in told
    assert pytest_in(tmp_path, "-p", "no:rrext")[0] == 5  # nothing was collected


def test_a_file_of_cases_that_is_wrong_is_told_with_its_line(tmp_path: Path):
    (tmp_path / "desk.pipe").write_text(PIPE)
    (tmp_path / "desk.cases.json").write_text('{"cases": [\n{"name": "a", "tol": "b"}]}')
    code, told = pytest_in(tmp_path)
    assert code == 2, told
    assert f'{tmp_path / "desk.cases.json"}:2:15: unexpected property "tol": did you mean "tool"?' in told


def test_a_setting_that_is_wrong_fails_the_cases_in_a_line(tmp_path: Path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nrrext_connections = none.toml\n")
    (tmp_path / "desk.pipe").write_text(PIPE)
    (tmp_path / "desk.cases.json").write_text('{"cases": [{"name": "a", "tool": "add"}]}')
    code, told = pytest_in(tmp_path)
    assert code == 1, told
    assert "none.toml" in told
    assert "Traceback" not in told
    assert "1 failed" in told


def test_nothing_of_rrext_is_loaded_without_cases(tmp_path: Path):
    (tmp_path / "test_a.py").write_text(
        "import sys\ndef test_it(): assert sorted(m for m in sys.modules if m.startswith('rrext.')) == "
        "['rrext.pytest_plugin', 'rrext.version']\n"
    )
    code, told = pytest_in(tmp_path, "--import-mode=importlib")
    assert code == 0, told


def test_its_settings_are_the_options_of_the_command_line():
    from argparse import ArgumentParser

    from rrext.cli.options import add_pipeline_options

    parser = ArgumentParser()
    add_pipeline_options(parser)
    assert set(OPTIONS) == set(vars(parser.parse_args([])))


def test_a_trusted_project_gives_what_the_settings_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "rrext.toml").write_text(f'nodes = ["{HERE / "case_nodes.py"}"]')
    (folder / "desk.pipe").write_text(PIPE)
    cases = [{"name": "adds", "tool": "add", "input": {"a": 1, "b": 2}, "expect": {"$at": {"/sum": 3}}}]
    (folder / "desk.cases.json").write_text(json.dumps({"cases": cases}))
    code, told = pytest_in(folder)
    assert code == 1, told
    assert "nodes ignored: it is not trusted" in told
    assert pytest_in(folder, "-o", "rrext_project=rrext.toml")[0] == 0
    assert main(["trust", "--yes", str(folder)]) == 0
    assert pytest_in(folder)[0] == 0
    assert pytest_in(folder, "-o", "rrext_no_project=true")[0] == 1
