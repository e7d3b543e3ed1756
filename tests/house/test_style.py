"""Rules of the house that a linter does not know."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "rrext"

VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "mixins"}


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


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
    """Test folders are no packages, so that two files of one name would hide each other: one is imported for both."""
    paths = [path for path in sorted(ROOT.joinpath("tests").rglob("*.py")) if path.stem != "conftest"]
    stems: dict[str, list[str]] = {}
    for path in paths:
        stems.setdefault(path.stem, []).append(name(path))
    assert not [same for same in stems.values() if len(same) > 1]


def test_a_class_name_means_one_thing_in_the_whole_package() -> None:
    """But for the settings of nodes, and the blocking client, whose classes are named after those that they block for."""
    named: dict[str, list[str]] = {}
    for path in sources():
        if path.parent.name == "client" and path.name.startswith("blocking"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name != "Config":
                named.setdefault(node.name, []).append(name(path))
    assert {class_name: paths for class_name, paths in named.items() if len(paths) > 1} == {}
