"""README and its pages say nothing that does not work: their Python blocks and shell lines are run as they stand."""

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
README = (ROOT / "README.md").read_text(encoding="utf-8")
DATA = (ROOT / "rrext" / "nodes" / "DATA.md").read_text(encoding="utf-8")
PROJECT = (ROOT / "rrext" / "PROJECT.md").read_text(encoding="utf-8")
KNOWLEDGE = (ROOT / "rrext" / "nodes" / "KNOWLEDGE.md").read_text(encoding="utf-8")
MAX_LINES = 250


def blocks(page: str, language: str) -> list[tuple[int, str]]:
    """(line, text) of each block of a language."""
    found = re.finditer(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [(page.count("\n", 0, match.start()) + 2, match[1]) for match in found]


def files(*pages: str) -> dict[str, str]:
    """name → text of each block whose first line is a comment with the name of a file."""
    texts = [text for page in pages for language in ("python", "jsonc") for _, text in blocks(page, language)]
    named = [(re.match(r"(?:#|//) (\w+\.\w+)\n", text), text) for text in texts]
    return {match[1]: text for match, text in named if match is not None}


@pytest.fixture(scope="module")
def before() -> set[str]:
    """The lines that were run in the folder."""
    return set()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the examples and README's own files, which may write beside them, for all lines one after another."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "tests" / "examples", folder / "tests" / "examples", ignore=shutil.ignore_patterns("data"))
    for name, text in files(README, DATA).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def run(command: list[str] | str, *, cwd: Path, shell: bool = False) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_CONFIG_HOME": str(cwd / "configuration"),
    }
    return subprocess.run(
        command, shell=shell, cwd=cwd, env=environment, capture_output=True, text=True, timeout=50, check=False
    )


PAGES = {"README": README, "DATA": DATA, "KNOWLEDGE": KNOWLEDGE}
PYTHON = [pytest.param(code, id=f"{name} line {line}") for name, page in PAGES.items() for line, code in blocks(page, "python")]
LINES = [
    pytest.param(text.removeprefix("$ "), id=f"{name} line {line + offset}")
    for name, page in PAGES.items()
    for line, block in blocks(page, "console")
    for offset, text in enumerate(block.splitlines())
]


@pytest.mark.parametrize("code", PYTHON)
def test_a_python_block_runs(code: str, here: Path) -> None:
    done = run([sys.executable, "-c", code], cwd=here)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", range(len(LINES)), ids=[line.id for line in LINES])
def test_a_shell_line_gives_a_result(number: int, here: Path, before: set[str]) -> None:
    """Lines read what those before them of the same pipeline wrote, which another process may have run, in its own folder."""
    lines = [str(*line.values) for line in LINES]
    line = lines[number]
    pipelines = set(re.findall(r"\S+\.pipe", line))
    for earlier in lines[:number]:
        if earlier not in before and pipelines & set(re.findall(r"\S+\.pipe", earlier)):
            run(earlier, shell=True, cwd=here)
            before.add(earlier)
    before.add(line)
    done = run(line, shell=True, cwd=here)
    assert done.returncode == 0, done.stderr
    says = done.stdout or (done.stderr if line.split()[1] in ("init", "space") else "")  # these may have no results
    assert says.strip()


def test_the_lines_of_the_page_about_projects_run_one_after_another(tmp_path: Path) -> None:
    said = ""
    for _, block in blocks(PROJECT, "console"):
        for line in block.splitlines():
            done = run(line.removeprefix("$ "), cwd=tmp_path, shell=True)
            assert done.returncode == 0, (line, done.stderr)
            said += done.stdout
    assert '[{"id":1,"status":"open","total":12.5}]\n{"id":2,' in said
    assert f"{tmp_path}/shop/rrext.toml\n" in said
    ((_, shown),) = blocks(PROJECT, "toml")
    (tmp_path / "shop" / "rrext.toml").write_text(shown)
    done = run(["rrext", "trust", "shop", "--yes"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n  ") == 8


def test_a_server_that_stays_answers_each_command_and_ends(here: Path) -> None:
    (script,) = (block for _, block in blocks(README, "sh") if "--listen" in block)
    done = run(script, cwd=here, shell=True)
    assert done.returncode == 0, done.stderr
    first, second, _, row = done.stdout.splitlines()
    assert [json.loads(line)["path"] for line in (first, second)] == ["welcome.txt", "notes"]
    assert row.split()[:2] == ["filesystem", "Running"]
    assert not (here / "library.sock").exists()


def test_the_first_command_activates_what_all_further_commands_need(here: Path) -> None:
    """`python3 -m venv` and `pip install` do nothing here; `v/bin/activate` adds the programs of this environment."""
    (_, first), (_, second), *_ = blocks(README, "sh")
    _, further = blocks(README, "console")[0]
    (here / "stubs").mkdir()
    for name in ("python3", "pip"):
        (here / "stubs" / name).write_text("#!/bin/sh\n")
        (here / "stubs" / name).chmod(0o755)
    (here / "v" / "bin").mkdir(parents=True)
    (here / "v" / "bin" / "activate").write_text(f"PATH=stubs:{Path(sys.executable).parent}:$PATH\n")
    script = f"set -e\nPATH=stubs:/usr/bin:/bin\n{first}{further.replace('$ ', '')}"
    done = run(["bash", "-c", script], cwd=here)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0])["content"]
    assert second.strip() == 'python3 -m venv t && t/bin/pip install ".[test]" && t/bin/python -m pytest'


def test_a_pipeline_is_shown_before_the_first_use_of_another_one() -> None:
    shown = README.index("// notes.pipe")
    assert README.count("tests/examples/", 0, shown) == 1  # the first command


def test_the_pipelines_of_the_pages_are_right(here: Path) -> None:
    pipelines = [name for name in files(README, DATA) if name.endswith(".pipe")]
    assert {"notes.pipe", "weather.pipe", "meaning.pipe"} <= set(pipelines)
    pipelines.remove("private.pipe")  # the page says of what it is warned
    done = run(["rrext", "check", "--no-probe", "--nodes", "weather.py", *pipelines], cwd=here)
    assert (done.returncode, done.stdout) == (0, ""), done
    done = run(["rrext", "check", "--no-probe", "private.pipe"], cwd=here)
    warned = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("private.pipe:")]
    assert (done.returncode, warned, done.stdout.count("[caution]")) == (0, ["warning:"] * 2, 2), done


@pytest.mark.system
def test_the_recipe_with_a_model_finds_what_shares_no_word(here: Path) -> None:
    (script,) = (block for _, block in blocks(DATA, "sh") if "meaning.pipe" in block)
    done = run(["bash", "-ec", script], cwd=here)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout.splitlines()[-1])["results"]
    assert found["content"] == "A lost volume costs ten euros."


def test_every_command_of_the_program_is_named() -> None:
    from rrext.cli.main import COMMANDS

    rows = set(re.findall(r"^\| `rrext (\w+)", README, re.MULTILINE))
    named = set(re.findall(r"`rrext (\w+)", README))
    assert rows <= set(COMMANDS) <= named


def test_every_built_in_node_has_a_place() -> None:
    from rrext.nodes import BUILTIN

    assert not [provider for provider in BUILTIN if f"`{provider}`" not in README]


def test_every_extra_that_users_install_has_a_row() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"]) - {"test", "test-core", "dev"}
    assert not [extra for extra in extras if f"`{extra}`" not in DATA]


def test_the_readme_is_read_in_one_sitting() -> None:
    assert len(README.splitlines()) <= MAX_LINES


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "rrext/nodes/DATA.md",
        "rrext/nodes/AGENTS.md",
        "rrext/PROJECT.md",
        "rrext/faces/lsp/EDITORS.md",
        "rrext/faces/ws/OPERATING.md",
        "rrext/tasks/CLUSTER.md",
    ],
)
def test_every_link_to_a_file_leads_somewhere(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\((?!\w+:)([^)#]+)", path.read_text(encoding="utf-8"))
    assert links
    assert not [link for link in links if not (path.parent / link).exists()]
