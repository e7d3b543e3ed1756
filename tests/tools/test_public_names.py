"""`import rrext` gives every public name and loads next to nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import rrext
from rrext import errors

SOURCE = Path(rrext.__file__)


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=SOURCE.parents[1])
    return set(done.stdout.split())


@pytest.mark.parametrize("name", [name for name in rrext.__all__ if name not in ("Client", "blocking")])
def test_a_public_name_is_what_its_module_has(name: str) -> None:
    assert getattr(rrext, name).__name__ == name


def test_all_errors_are_public_and_listed() -> None:
    classes = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, errors.RrextError)}
    assert classes <= set(rrext.__all__)
    assert set(rrext.__all__) <= set(dir(rrext))


def test_type_checkers_see_what_is_there_at_run_time() -> None:
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = [alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(seen) == sorted(rrext.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        rrext.Nothing  # noqa: B018


def test_importing_rrext_loads_its_version_and_nothing_else_of_it() -> None:
    assert {name for name in loaded_by("import rrext") if name.startswith("rrext.")} == {"rrext.version"}


# msgspec, which is there anyway, brings decimal, uuid and inspect.
HEAVY = {"attr", "attrs", "cattrs", "dataclasses", "jsonschema_rs", "anyio", "asyncio", "pathlib", "importlib.metadata"}
if sys.version_info >= (3, 14):
    HEAVY.remove("dataclasses")  # Python's own `traceback` brings it


def test_the_tools_room_loads_nothing_heavy_before_a_tool_is_used() -> None:
    modules = loaded_by("import rrext.tools.spec")
    assert "rrext.tools.spec" in modules
    assert not modules & HEAVY


def test_a_flat_tool_is_called_without_validator_and_structurer() -> None:
    modules = loaded_by(
        "from rrext.tools.spec import ToolRegistry; from rrext.tools.decorator import tool_function;"
        "from rrext.limits import DEFAULTS;"
        "add = lambda a, b='': a; add.__annotations__ = {'a': int, 'b': str};"
        "spec = ToolRegistry().add(tool_function(name='add')(add));"
        "assert spec.structure(None, {'a': 2}, DEFAULTS) == {'a': 2}; assert spec.encode(None, {'a': 1}, DEFAULTS)"
    )
    assert not modules & HEAVY
    assert not modules & {"rrext.tools.structure", "rrext.tools.string_formats"}
