"""README says nothing that does not work: its Python blocks and shell lines are run as they stand there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[tuple[int, str]]:
    found = re.finditer(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [(PAGE.count("\n", 0, match.start()) + 2, match[1]) for match in found]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the examples alone, which may write beside them, for all lines one after another."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "tests" / "examples", folder / "tests" / "examples", ignore=shutil.ignore_patterns("data"))
    return folder


def run(command: list[str] | str, *, cwd: Path, shell: bool = False) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        command, shell=shell, cwd=cwd, env=environment, capture_output=True, text=True, timeout=50, check=False
    )


PYTHON = [pytest.param(code, id=f"line {line}") for line, code in blocks("python")]
LINES = [
    pytest.param(text.removeprefix("$ "), id=f"line {line + offset}")
    for line, block in blocks("console")
    for offset, text in enumerate(block.splitlines())
]


@pytest.mark.parametrize("code", PYTHON)
def test_a_python_block_runs(code: str, here: Path) -> None:
    done = run([sys.executable, "-c", code], cwd=here)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", LINES)
def test_a_shell_line_gives_a_result(line: str, here: Path) -> None:
    done = run(line, shell=True, cwd=here)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_a_server_that_stays_answers_each_command_and_ends(here: Path) -> None:
    (script,) = (block for _, block in blocks("sh") if "--listen" in block)
    done = run(script, cwd=here, shell=True)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["path"] for line in done.stdout.splitlines()] == ["welcome.txt", "notes"]
    assert not (here / "library.sock").exists()


def test_the_first_command_calls_a_tool_and_the_second_runs_the_tests(here: Path) -> None:
    (_, first), (_, second), *_ = blocks("sh")
    command = re.search(r"v/bin/rrext (.*)$", first.strip())
    assert command is not None
    done = run(f"{sys.executable} -m rrext {command[1]}", shell=True, cwd=here)
    assert done.returncode == 0, done.stderr
    assert "content" in done.stdout
    assert second.strip() == 'python3 -m venv t && t/bin/pip install ".[test]" && t/bin/python -m pytest'


def test_every_command_of_the_program_has_a_row() -> None:
    from rrext.cli.main import COMMANDS

    rows = set(re.findall(r"^\| `rrext (\w+)", PAGE, re.MULTILINE))
    assert rows == set(COMMANDS)


def test_every_built_in_node_has_a_place() -> None:
    from rrext.nodes import BUILTIN

    assert not [provider for provider in BUILTIN if f"`{provider}`" not in PAGE]


def test_every_extra_that_users_install_has_a_row() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"]) - {"test", "dev"}
    assert not [extra for extra in extras if f"`{extra}`" not in PAGE]
