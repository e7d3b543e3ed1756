"""`.ci/check` runs the tests that are nearest to a change, and every way to check a change runs the same linters."""

from __future__ import annotations

import re
import tomllib
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

TESTS = {
    "tests/a/test_frames.py": "from rrext.wire.framing import Framer\nfrom makers import frame",
    "tests/a/test_server.py": "from rrext.server import session",
    "tests/b/test_other.py": "from makers import frame",
}
PACKAGE = {
    "rrext/wire/framing.py": "",
    "rrext/wire/messages.py": "",
    "rrext/server/session.py": "from rrext.server.call_feed import Feed",
    "rrext/server/call_feed.py": "",
}


@pytest.fixture(scope="module")
def check() -> Any:
    loader = SourceFileLoader("check", str(ROOT / ".ci" / "check"))
    spec = spec_from_loader("check", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("tests/b/test_other.py", ["tests/b/test_other.py"]),
        ("tests/a/makers.py", ["tests/a/test_frames.py"]),
        ("rrext/wire/framing.py", ["tests/a/test_frames.py"]),
        ("rrext/server/session.py", ["tests/a/test_server.py"]),
        ("rrext/server/call_feed.py", ["tests/a/test_server.py"]),
        ("rrext/wire/messages.py", []),
        ("README.md", ["tests/readme"]),
        (".gitignore", []),
    ],
)
def test_the_tests_of_a_file_name_it_or_what_imports_it(check: Any, path: str, tests: list[str]) -> None:
    assert list(check.tests_of(path, TESTS, PACKAGE)) == tests


def test_every_page_and_every_quick_test_of_the_house_is_there(check: Any) -> None:
    named = [*check.PAGES, *check.PAGES.values(), *(f"tests/house/test_{name}.py" for name in check.HOUSE)]
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_commits_are_checked_by_the_linters_of_continuous_integration() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    linters = re.findall(r'^ *check "[^"]+" "\$bin/(ruff|basedpyright)"(?: (check|format))?', script, re.MULTILINE)
    assert len(linters) == 3
    for program, command in linters:
        assert re.search(rf"entry: python -m {program} ?{command}", hooks), f"no hook runs {program} {command}"


def test_the_workflow_runs_all_checks_and_each_python_that_the_package_names() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "- run: .ci/run" in workflow
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert re.search(r"python: \[(.+)\]", workflow)[1] == ", ".join(f'"{version}"' for version in named)
    assert project["requires-python"] == f">={named[0]}"


def test_the_rooms_of_the_core_tests_are_there(check: Any) -> None:
    assert [room for room in check.CORE if not list((ROOT / "tests" / room).rglob("test_*.py"))] == []
