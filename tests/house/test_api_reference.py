"""What is public stands in one place, has texts, and is what the reference says."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from test_drivers import HEAVY

import rrext
import rrext.blocking
import rrext.testing
from rrext.nodes import ALIASES, BUILTIN
from rrext.pipefile.catalog.foreign_nodes import foreign_nodes

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = [rrext, rrext.blocking, rrext.testing]
"""The modules that others import; their `__all__` says what."""


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_every_public_name_has_a_text(module: ModuleType) -> None:
    assert [name for name in module.__all__ if not inspect.getdoc(getattr(module, name))] == []


CHECK_WITHOUT = """
import json, runpy, sys
for name in json.loads(sys.argv.pop(1)):
    sys.modules[name] = None
sys.path.insert(0, ".ci")
runpy.run_path(".ci/reference", run_name="__main__")
"""
NODES = ROOT / "rrext" / "nodes"
PAGES = [NODES / "REFERENCE.md", NODES / "ROCKETRIDE.md", *sorted(NODES.glob("*/REFERENCE.md"))]


@pytest.mark.parametrize("without", [[], HEAVY], ids=["with all packages", "without the packages of nodes"])
def test_the_reference_is_what_the_code_says(without: list[str]) -> None:
    command = [sys.executable, "-c", CHECK_WITHOUT, json.dumps(without), "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def headings(page: Path) -> set[str]:
    """The names of its headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(NODES)))
def test_every_link_of_the_pages_of_nodes_leads_to_a_heading(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]*)\)", page.read_text(encoding="utf-8"))
    assert links
    for link in links:
        path, _, name = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not name or name in headings(target), link


def test_each_node_of_rocketride_stands_in_one_table_of_the_page_about_it() -> None:
    page = (NODES / "ROCKETRIDE.md").read_text(encoding="utf-8")
    here, _, rest = page.partition("### Here:")[2].partition("### Not here:")
    missing, _, ours = rest.partition("### Only here")
    theirs = set(re.findall(r"^\| `([^`]+)` \|", here, re.MULTILINE))
    assert theirs <= {*BUILTIN, *ALIASES}
    assert set(re.findall(r"`([^`]+)`", " ".join(line.split("|")[1] for line in missing.splitlines() if "`" in line))) == set(
        foreign_nodes()
    )
    assert {ALIASES.get(name, name) for name in theirs} | set(re.findall(r"`([^`]+)`", ours)) == set(BUILTIN)
