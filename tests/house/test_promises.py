"""A promise is data: each has a test, and each mark names a promise."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from promises import PROMISES

TESTS = Path(__file__).resolve().parents[1]


def marks(source: str) -> Iterator[str]:
    """The ids of all `pytest.mark.promise("…")` in a file."""
    for node in ast.walk(ast.parse(source)):
        is_named_so = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "promise"
        if is_named_so and ast.unparse(node.func) == "pytest.mark.promise":
            for arg in node.args:
                assert isinstance(arg, ast.Constant), f"line {arg.lineno}: a promise is named by a literal"
                yield str(arg.value)


@cache
def marked() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted([*TESTS.rglob("test_*.py"), *TESTS.rglob("*_contract.py")]):  # contracts are tests of several files
        for promise in marks(path.read_text(encoding="utf-8")):
            found.setdefault(promise, []).append(str(path.relative_to(TESTS)))
    return found


def test_every_promise_is_proved_by_a_test() -> None:
    found = marked()
    missing = [promise for promise in PROMISES if promise not in found]
    assert not missing, "no test is marked with:\n" + "\n".join(f"{promise}: {PROMISES[promise]}" for promise in missing)


def test_every_mark_names_a_promise() -> None:
    unknown = {promise: where for promise, where in marked().items() if promise not in PROMISES}
    assert not unknown, f"not in tests/promises.py: {unknown}"


def test_the_scan_reads_marks_on_functions_classes_parameters_and_modules() -> None:
    source = (
        "pytestmark = [pytest.mark.promise('a')]\n"
        "@pytest.mark.promise('b', 'c')\nclass T:\n    @pytest.mark.promise('d')\n    def test(self): ...\n"
        "P = pytest.param(1, marks=pytest.mark.promise('e'))\n"
    )
    assert sorted(marks(source)) == ["a", "b", "c", "d", "e"]
