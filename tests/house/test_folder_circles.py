"""No circle between folders: what a folder holds can be read, tested and moved without the folders above it.

Imports inside functions and under `TYPE_CHECKING` count too, as in `test_layers`. A module of `rrext/` itself is a folder of
its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise

from test_layers import ROOT, dotted, imported, modules

Imports = dict[str, dict[str, list[str]]]
"""Folder → folder that it imports → the imports, one line of text each."""


def folder_of(module: str) -> str:
    """The folder in which a module, or the `__init__` of a package, stands: `rrext.engine.task` → `rrext.engine`."""
    is_package = ROOT.joinpath(*module.split("."), "__init__.py").exists()
    parts = module.split(".")
    return module if is_package or len(parts) <= 2 else ".".join(parts[:-1])


def imports_of(sources: Iterable[tuple[str, str]]) -> Imports:
    """The imports between the folders of some modules, given as (dotted name, source)."""
    found: Imports = {}
    for module, source in sources:
        folder = folder_of(module)
        for line, name in imported(source, module, is_package=folder == module):
            other = folder_of(name)
            if name.split(".")[0] == "rrext" and other != folder:
                found.setdefault(folder, {}).setdefault(other, []).append(f"{module}, line {line}: imports {name}")
    return found


def shortest_circle(imports: Imports, start: str) -> list[str]:
    """The folders of the shortest circle through `start`, which stands at both ends; none if there is no circle."""
    before: dict[str, str] = {}
    line = deque([start])
    while line:
        folder = line.popleft()
        for other in imports.get(folder, ()):
            if other == start:
                circle = [start, folder]
                while circle[-1] != start:
                    circle.append(before[circle[-1]])
                return circle[::-1]
            if other not in before:
                before[other] = folder
                line.append(other)
    return []


def circles(imports: Imports) -> Iterator[str]:
    """For each circle of folders a text that names the imports which close it."""
    told: set[str] = set()
    for folder in sorted(imports):
        circle = shortest_circle(imports, folder)
        if circle and folder not in told:
            told.update(circle)
            steps = [f"  {text}" for a, b in pairwise(circle) for text in list(dict.fromkeys(imports[a][b]))[:5]]
            yield "\n".join([f"{' -> '.join(circle)} is a circle of folders. One of its steps must go:", *steps])


def test_no_folder_imports_one_that_imports_it() -> None:
    sources = [(dotted(path), path.read_text(encoding="utf-8")) for path in modules()]
    found = "\n".join(circles(imports_of(sources)))
    assert not found, f"\n{found}"


def test_a_circle_is_told_with_the_imports_that_close_it() -> None:
    sources = [
        ("rrext.wire.codec", "if TYPE_CHECKING:\n    from rrext.tools import spec"),
        ("rrext.tools.spec", "def f():\n    from rrext.limits import Limits"),
        ("rrext.limits", "import rrext.wire.codec"),
        ("rrext.errors", "import rrext.limits"),  # leads into the circle and is no part of it
    ]
    (told,) = circles(imports_of(sources))
    assert "rrext.wire" in told.splitlines()[0]
    assert {line.strip() for line in told.splitlines()[1:]} == {
        "rrext.wire.codec, line 2: imports rrext.tools.spec",
        "rrext.tools.spec, line 2: imports rrext.limits",
        "rrext.limits, line 1: imports rrext.wire.codec",
    }


def test_a_folder_and_a_folder_inside_of_it_are_two() -> None:
    sources = [
        ("rrext.engine.views.task_views", "from rrext.engine.host.host import Host"),
        ("rrext.engine.host.host", "from rrext.engine.views.task_views import status_of"),
    ]
    assert len(list(circles(imports_of(sources)))) == 1
    assert not list(circles(imports_of(sources[:1])))
