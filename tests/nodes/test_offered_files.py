"""`list_files`: the files that a node offers, page by page, none twice, none from elsewhere."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import ToolError, Unavailable
from rrext.nodes.documents.parse import ParseNode
from rrext.nodes.files import offered_files as module
from rrext.nodes.files.filesystem import FilesystemNode

from fake_pipe import context, made  # isort: skip

PARTS = st.text("ab.!~ é", min_size=1, max_size=3).filter(lambda part: part.strip(".") != "")
PATHS = st.sets(st.lists(PARTS, min_size=1, max_size=4).map(tuple), max_size=15)


def node_at(root: Path, *patterns: str) -> FilesystemNode:
    node = made(FilesystemNode, root=root.name, resources=patterns)
    node.directory = str(root.parent)
    return node


def pages(node: FilesystemNode, size: int) -> list[list[str]]:
    found: list[list[str]] = []
    after: str | None = ""
    while after is not None:
        page: dict[str, Any] = node.list_files(after=after, maxEntries=size, ctx=context())
        found.append([file["path"] for file in page["files"]])
        after = page["next"]
    return found


@given(paths=PATHS, size=st.integers(1, 5), looks=st.integers(1, 6))
def test_pages_of_any_size_have_every_file_once_in_order(paths: set[tuple[str, ...]], size: int, looks: int) -> None:
    with TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "WALK_MAX", looks)
        made_files: list[tuple[str, ...]] = []
        for parts in sorted(paths, key=len, reverse=True):
            path = Path(root, *parts)
            if not path.exists() and all(not parent.is_file() for parent in path.parents):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
                made_files.append(parts)
        shown = sorted(parts for parts in made_files if not any(part.startswith(".") for part in parts))
        found = pages(node_at(Path(root), "*"), size)
        assert [path for page in found for path in page] == ["/".join(parts) for parts in shown]
        assert all(len(page) <= size for page in found)


def test_a_path_that_is_gone_is_still_a_place_in_the_list(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for path in ("a/1", "b/1", "b/2", "c/1"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    node = node_at(root, "*")
    shutil.rmtree(root / "b")
    after = node.list_files(after="b/1", ctx=context())
    assert [file["path"] for file in after["files"]] == ["c/1"]


def test_links_folders_without_rights_and_names_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "closed").mkdir(parents=True)
    (root / "closed" / "a").touch()
    (root / "open").touch()
    (root / "link").symlink_to(root / "open")
    (root / "loop").symlink_to(root)
    os.mkfifo(root / "pipe")
    os.close(os.open(os.fsencode(root) + b"/\xff", os.O_CREAT))
    (root / "closed").chmod(0)
    try:
        found = pages(node_at(root, "*"), 10)
    finally:
        (root / "closed").chmod(0o700)
    assert found in ([["open"]], [["closed/a", "open"]])  # the second for root, who may read all


def test_patterns_choose_and_a_star_stands_for_folders_too(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for path in ("a.md", "b/c.md", "b/d.txt", "e/f.TXT"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    assert pages(node_at(root, "*.md", "e/*"), 10) == [["a.md", "b/c.md", "e/f.TXT"]]


@pytest.mark.parametrize("after", ["../x", "a/../../x", "a/\0/b"])
def test_a_place_outside_is_refused(after: str, tmp_path: Path) -> None:
    (tmp_path / "root" / "a").mkdir(parents=True)
    with pytest.raises(ToolError) as caught:
        node_at(tmp_path / "root", "*").list_files(after=after, ctx=context())
    assert caught.value.code in ("path_outside_root", "path_invalid")


@pytest.mark.parametrize("cls", [FilesystemNode, ParseNode])
def test_the_tool_is_there_where_files_are_offered_alone(cls: Any, tmp_path: Path) -> None:
    spec = cls.tools["list_files"]
    assert not spec.is_available(made(cls, root="."), context())
    assert not spec.is_available(made(cls, root="", resources=("*",)), context())
    assert spec.is_available(made(cls, root=".", resources=("*",)), context())


def test_documents_that_are_offered_from_no_folder_are_a_problem() -> None:
    found = list(ParseNode.missing(made(ParseNode, resources=("*",)).config, str))
    assert [key for key, _ in found] == ["resources"]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        node_at(tmp_path / "gone", "*").list_files(ctx=context())
