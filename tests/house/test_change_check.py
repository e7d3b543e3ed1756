"""`.ci/check` runs the tests that are nearest to a change."""

from __future__ import annotations

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
    "rrext/wire/header.py": "",
    "rrext/server/session.py": "from rrext.server.feed import Feed",
    "rrext/server/feed.py": "",
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
        ("rrext/server/feed.py", ["tests/a/test_server.py"]),
        ("rrext/wire/header.py", []),
        ("README.md", ["tests/readme"]),
        (".gitignore", []),
    ],
)
def test_the_tests_of_a_file_name_it_or_what_imports_it(check: Any, path: str, tests: list[str]) -> None:
    assert list(check.tests_of(path, TESTS, PACKAGE)) == tests


def test_every_page_and_every_quick_test_of_the_house_is_there(check: Any) -> None:
    named = [*check.PAGES, *check.PAGES.values(), *(f"tests/house/test_{name}.py" for name in check.HOUSE)]
    assert [path for path in named if not (ROOT / path).exists()] == []
