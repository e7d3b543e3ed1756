"""Where the code of a node stands."""

from __future__ import annotations

from pathlib import Path

from rrext.editor.class_location import class_location_of
from rrext.nodes.base.node import Node
from rrext.nodes.files.filesystem import FilesystemNode
from rrext.pipefile.catalog.plugins import load_nodes


def test_a_class_is_found_in_its_file() -> None:
    found = class_location_of(FilesystemNode)
    assert found is not None
    line = found.path.read_text(encoding="utf-8").splitlines()[found.line]
    assert line == found.text.rstrip("\n") == "class FilesystemNode(Node):"
    assert line[slice(*found.name)] == "FilesystemNode"


def test_a_decorated_class_of_a_file_is_found_too(tmp_path: Path) -> None:
    file = tmp_path / "origins_nodes.py"
    start = "from rrext import Node\n\ndef same(cls):\n    return cls\n\n"
    code = start + "@same\n# class Mine\nclass  Mine(Node):\n    provider = 'mine'\n"
    file.write_text(code, encoding="utf-8")
    (node,) = load_nodes(str(file))
    found = class_location_of(node)
    assert found is not None
    assert (found.path, found.line, found.name) == (file.resolve(), 7, (7, 11))
    file.unlink()
    assert class_location_of(node) is None


def test_a_class_without_a_file_is_found_nowhere() -> None:
    assert class_location_of(type("Made", (Node,), {})) is None
