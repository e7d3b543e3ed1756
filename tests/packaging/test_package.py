"""What is built from the sources installs and runs, in places where the sources are not."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import rrext
import rrext.blocking
import rrext.testing

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXAMPLES = ROOT / "tests" / "examples"

LINK = "from rrext.faces.lsp.diagnostics import Manual; print(Manual().link('unknown_provider'))"

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command as a stranger would: no variables of the test run, no sources on the path. Its stdout."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command} exited with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources as a fresh clone has them."""
    clone = tmp_path_factory.mktemp("clone") / "rrext"
    if (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
        )
        names = [name for name in listed.stdout.decode().split("\0") if name]
        assert names, "the repository tracks no file"
        for name in names:
            target = clone / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
    else:
        shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns("v", "t", ".venv", "__pycache__"))
    return clone


@pytest.fixture(scope="module")
def built(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(wheel, sdist): those in the folder `RREXT_DIST`, before they are published; else made here."""
    if given := os.environ.get("RREXT_DIST"):
        out = ROOT / given
    else:
        out = tmp_path_factory.mktemp("dist")
        run(sys.executable, "-m", "build", "--outdir", out, sources, cwd=out)
    (wheel,) = out.glob("*.whl")
    (sdist,) = out.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a fresh virtual environment with nothing but the wheel."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=True)
    run(folder / "bin" / "pip", "install", "-q", built[0], cwd=folder)
    return folder / "bin"


def test_the_wheel_has_types_licence_and_nothing_but_the_package(built: tuple[Path, Path]) -> None:
    names = zipfile.ZipFile(built[0]).namelist()
    pages = ["protocol.md", "REFERENCE.md", "nodes/DATA.md", "nodes/AGENTS.md", "nodes/REFERENCE.md", "faces/lsp/EDITORS.md"]
    pages += ["faces/ws/OPERATING.md", "tasks/CLUSTER.md"]
    assert {"rrext/py.typed", *(f"rrext/{page}" for page in pages)} <= set(names)
    assert any(re.fullmatch(r"rrext-[\d.]+\.dist-info/licenses/LICENSE", name) for name in names)
    assert {re.split(r"[/-]", name)[0] for name in names} == {"rrext"}
    assert not [name for name in names if "typescript" in name]


def test_the_sdist_has_types_licence_docs_and_tests(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"rrext/py.typed", "LICENSE", "README.md", "protocol.md", "pyproject.toml", "tests/conftest.py"} <= names
    client = {"package.json", "tsconfig.json", "README.md", "src/index.ts", "test/client.test.mjs"}
    assert {f"rrext/typescript/{name}" for name in client} <= names
    assert not [name for name in names if re.search(r"__pycache__|typescript/(dist|node_modules)", name)]


def test_the_sdist_builds_the_same_package(built: tuple[Path, Path], tmp_path: Path) -> None:
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", tmp_path, built[1], cwd=tmp_path)
    (again,) = tmp_path.glob("*.whl")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(built[0]).namelist())


def test_the_command_and_the_module_say_the_same_version(installed: Path, tmp_path: Path) -> None:
    said = run(installed / "rrext", "--version", cwd=tmp_path)
    assert said == run(installed / "python", "-m", "rrext", "--version", cwd=tmp_path)
    version = run(installed / "python", "-c", "import rrext; print(rrext.__version__)", cwd=tmp_path).strip()
    assert re.search(rf"\b{re.escape(version)}$", said.strip())


def test_a_tool_is_called_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "peers" / "peer_nodes.py", tmp_path)
    shutil.copy(ROOT / "tests" / "peers" / "peer.pipe", tmp_path)
    said = run(
        installed / "rrext",
        "tool",
        "--nodes",
        "peer_nodes.py",
        "peer.pipe",
        "greet",
        "--input",
        '{"name": "Ada"}',
        cwd=tmp_path,
    )
    assert "Hello Ada" in said


def test_problem_codes_in_an_editor_link_to_the_page_in_the_package(installed: Path, tmp_path: Path) -> None:
    said = run(installed / "python", "-c", LINK, cwd=tmp_path).strip()
    path, _, line = said.removeprefix("file://").partition("#L")
    assert Path(path).is_relative_to(installed.parent)
    assert Path(path).read_text(encoding="utf-8").splitlines()[int(line) - 1].startswith("| `unknown_provider` |")


def test_a_typed_program_checks_against_the_installed_package(installed: Path, tmp_path: Path) -> None:
    shutil.copy(HERE / "consumer.py", tmp_path)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    checker = Path(sys.executable).with_name("basedpyright")
    said = run(checker, "--pythonpath", installed / "python", "consumer.py", cwd=tmp_path)
    assert "0 errors" in said


def test_the_first_command_of_the_readme_works_in_a_fresh_clone(sources: Path) -> None:
    readme = (sources / "README.md").read_text(encoding="utf-8")
    commands = [line for line in readme.splitlines() if re.match(r"python3 -m venv \S+ && .* install \. && ", line)]
    assert len(commands) == 1, "README.md has one line that installs rrext and calls a tool"
    assert run("bash", "-c", commands[0], cwd=sources).strip()


def test_the_types_of_all_public_names_are_complete(installed: Path, tmp_path: Path) -> None:
    names = [
        f"{value.__module__}.{value.__qualname__}"
        for module in (rrext, rrext.blocking, rrext.testing)
        for value in (getattr(module, name) for name in module.__all__)
        if not isinstance(value, ModuleType)
    ]
    done = subprocess.run(
        [Path(sys.executable).with_name("basedpyright"), "--verifytypes", "rrext", "--ignoreexternal", "--outputjson"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{installed}:{os.environ['PATH']}"},  # the Python whose packages it looks at
        capture_output=True,
        text=True,
        check=False,
    )
    is_known = {symbol["name"]: symbol["isTypeKnown"] for symbol in json.loads(done.stdout)["typeCompleteness"]["symbols"]}
    assert set(names) <= set(is_known)
    public = [name for name in is_known if name in names or name.rpartition(".")[0] in names]
    assert [name for name in public if not is_known[name]] == []
