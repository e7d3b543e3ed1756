"""Rules of the house that a linter does not know."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "rrext"
MAX_LINES = 400

UNFINISHED = ("TO" + "DO", "FIX" + "ME", "XX" + "X")
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "mixins"}


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", sources(), ids=name)
def test_a_module_is_short_enough_to_read_at_once(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES, f"{name(path)} has {lines} lines: it is more than one noun"


@pytest.mark.parametrize("path", [p for p in sources() if "cli" not in p.parts], ids=name)
def test_only_the_command_line_prints(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name))
    lines = [node.lineno for node in calls if node.func.id == "print"]  # type: ignore[attr-defined]
    assert not lines, f"{name(path)} prints in lines {lines}"


@pytest.mark.parametrize("path", sorted([*sources(), *ROOT.joinpath("tests").rglob("*.py")]), ids=name)
def test_nothing_is_left_for_later_in_a_comment(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = [word for word in UNFINISHED if word in text]
    assert not found, f"{name(path)} says {found}: do it, or open an issue"


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = [name(path) for path in sources() if path.stem in VAGUE]
    assert not vague


def test_every_folder_with_modules_is_a_package() -> None:
    """A folder without `__init__.py` is found by a search of the whole path, at every start."""
    folders = {path.parent for path in sources()}
    assert not [name(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()]


def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()


def test_test_files_have_names_of_their_own() -> None:
    """Test folders are no packages, so that two files of one name would hide each other."""
    paths = sorted(ROOT.joinpath("tests").rglob("test_*.py"))
    stems: dict[str, list[str]] = {}
    for path in paths:
        stems.setdefault(path.stem, []).append(name(path))
    assert not [same for same in stems.values() if len(same) > 1]
