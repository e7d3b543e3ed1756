"""The picture of the rooms stays true: every module's imports are compared with one table.

Imports inside functions and under `TYPE_CHECKING` count too: a room depends on what it names, not on when it loads it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "rrext"

GROUND = {"charsets", "columns", "content", "errors", "limits", "clock", "secrets", "threads", "version"}
ANYTHING = {"*"}

ROOMS: dict[str, set[str]] = {
    "charsets": {"errors", "limits", "clock"},
    "columns": set(),
    "content": {"errors", "limits", "clock"},
    "errors": set(),
    "limits": set(),
    "clock": set(),
    "version": set(),
    "secrets": {"errors", "limits"},
    "threads": {"errors", "limits", "clock"},
    "files": GROUND,
    "wire": GROUND,
    "tools": GROUND,
    "connections": GROUND,
    "http": GROUND,
    "project": GROUND | {"connections"},
    "providers": GROUND | {"tools", "connections", "http", "transports"},
    "nodes": GROUND | {"files", "tools", "connections", "http", "providers"},
    "references": GROUND | {"tools"},
    "pipefile": GROUND | {"tools", "nodes", "references"},
    "engine": GROUND | {"files", "tools", "connections", "providers", "nodes", "references", "pipefile"},
    "transports": GROUND,
    "server": GROUND | {"wire", "tools", "pipefile", "engine", "transports"},
    "sync": GROUND | {"files", "http"},
    "client": GROUND | {"files", "wire", "transports", "sync"},
    "tasks": GROUND | {"files", "wire", "tools", "connections", "references", "pipefile", "engine", "transports", "server"},
    "cluster": GROUND | {"wire", "connections", "pipefile", "engine", "transports", "server", "tasks"},
    "editor": GROUND | {"tools", "nodes", "references", "pipefile"},
    "picture": GROUND | {"nodes", "pipefile"},
    "cli": ANYTHING,
    "testing": ANYTHING,
    "faces": ANYTHING,
    "blocking": {"client"},
    "pytest_plugin": ANYTHING,
    "package": ANYTHING,
}
"""Room → rooms that it may import. `package` is `rrext/__init__.py` itself, which loads its names on first use."""

NODE_BASE = "rrext.nodes.base"
"""All that rooms below a face may see of the nodes: a built-in one is loaded by its name, on first use."""

FACES_ONLY = {"pygls", "lsprotocol", "websockets"}
FORBIDDEN: dict[str, set[str]] = {
    "wire": {"anyio", "asyncio", "concurrent", "selectors", "socket", "subprocess", "threading"},
    "transports": {"json", "msgspec"},
    "errors": {"anyio", "asyncio", "threading"},
    "limits": {"anyio", "asyncio", "threading"},
}
"""Room → modules of others that it must never import, beside `FACES_ONLY`."""


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def dotted(path: Path) -> str:
    """`rrext/wire/codec.py` → `rrext.wire.codec`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """The room of a dotted name below `rrext`."""
    parts = module.split(".")
    if len(parts) == 1:
        return "package"
    return "cli" if parts[1] == "__main__" else parts[1]


def imported(source: str, module: str, *, is_package: bool = False) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every import in a module, wherever in it the import stands."""
    base = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            start = ".".join(base[: len(base) - node.level + 1]) if node.level else ""
            target = ".".join(filter(None, [start, node.module]))
            for alias in node.names:
                yield node.lineno, _resolve(target, alias.name)
        elif isinstance(node, ast.Call) and called(node) in ("import_module", "__import__"):
            for arg in node.args[:1]:
                if isinstance(arg, ast.Constant):
                    yield node.lineno, str(arg.value)


def called(node: ast.Call) -> str:
    """The last name of what is called, or ""."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


@cache
def _resolve(target: str, name: str) -> str:
    """`from rrext import errors` imports a module, `from rrext import Node` does not."""
    if not target.startswith("rrext"):
        return target
    path = ROOT.joinpath(*target.split("."), name)
    return f"{target}.{name}" if path.with_suffix(".py").exists() or path.is_dir() else target


def offences(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """What a module imports against the table, one line each."""
    room = room_of(module)
    may = ROOMS[room]
    found = []
    for line, name in imported(source, module, is_package=is_package):
        top = name.split(".")[0]
        if top != "rrext":
            if top in FORBIDDEN.get(room, ()) or (top in FACES_ONLY and may != ANYTHING):
                found.append(f"{module}, line {line}: {room} must never import {name}")
            continue
        other = room_of(name)
        if may != ANYTHING and other != room and other not in may:
            rest = ", ".join(sorted(may)) or "nothing"
            found.append(f"{module}, line {line}: {room} imports {name}, but may use only {rest}")
        elif room != "nodes" and may != ANYTHING and other == "nodes" and not f"{name}.".startswith(f"{NODE_BASE}."):
            found.append(f"{module}, line {line}: {room} imports {name}, but may use only {NODE_BASE} of the nodes")
    return found


def test_a_module_imports_only_what_its_room_may_use() -> None:
    found: list[str] = []
    for path in modules():
        found += offences(path.read_text(encoding="utf-8"), dotted(path), is_package=path.name == "__init__.py")
    assert not found, "\n".join(found)


def test_every_module_stands_in_a_room_of_the_table() -> None:
    strangers = {dotted(path) for path in modules() if room_of(dotted(path)) not in ROOMS}
    assert not strangers, f"these modules belong to no room: {sorted(strangers)}"


@pytest.mark.parametrize(
    ("module", "source", "named"),
    [
        ("rrext.wire.codec", "import rrext.tools.spec", "rrext.tools.spec"),
        ("rrext.wire.codec", "def f():\n    from rrext.tools import spec", "rrext.tools"),
        ("rrext.wire.codec", "from ..tools import spec", "rrext.tools"),
        ("rrext.wire.codec", "if TYPE_CHECKING:\n    import asyncio.events", "asyncio.events"),
        ("rrext.engine.flow.pool", "import_module('rrext.server.session')", "rrext.server.session"),
        ("rrext.client.client", "from rrext.nodes.base.node import Node", "rrext.nodes.base.node"),
        ("rrext.nodes.basic.prompt", "from rrext.engine.flow.pool import Pool", "rrext.engine.flow.pool"),
        ("rrext.pipefile.pipeline_loader", "from rrext.nodes.sandbox.node import PythonNode", "rrext.nodes.sandbox.node"),
        ("rrext.server.session", "import pygls.server", "pygls.server"),
        ("rrext.transports.stdio", "import json", "json"),
    ],
)
def test_the_check_finds_an_import_against_the_table(module: str, source: str, named: str) -> None:
    found = offences(source, module)
    assert len(found) == 1
    assert named in found[0]


def test_the_check_allows_what_the_table_allows() -> None:
    assert offences("from rrext.errors import RrextError\nimport msgspec\nfrom . import messages", "rrext.wire.codec") == []
    assert (
        offences("from rrext.nodes.base.node import Node\nfrom rrext.tools.spec import ToolSpec", "rrext.nodes.basic.prompt")
        == []
    )
    assert offences("import pygls.server", "rrext.faces.editor") == []
