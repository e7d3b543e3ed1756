"""Paths in settings: links to files that exist, and names of files while typing; nothing outside of the workspace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from faces.lsp.editors import Editor


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "data" / "deep").mkdir(parents=True)
    (home / "flows").mkdir()
    for name in ("data/sales.db", "data/é 1.csv", "data/.hidden", "flows/near.db"):
        (home / name).touch()
    (tmp_path / "secret.db").touch()
    (home / "data" / "out").symlink_to(tmp_path)
    return home


def text_with(provider: str, config: Any) -> str:
    return json.dumps({"components": [{"id": "a", "provider": provider, "config": config}]}, ensure_ascii=False)


async def opened(folder: Path, text: str, **options: Any) -> tuple[Editor, str]:
    editor = Editor()
    await editor.start(options, root=folder.as_uri())
    uri = (folder / "flows" / "a.pipe").as_uri()
    editor.open(text, uri)
    return editor, uri


async def links(folder: Path, provider: str, config: Any, **options: Any) -> list[tuple[str, str]]:
    text = text_with(provider, config)
    editor, uri = await opened(folder, text, **options)
    found = await editor.request("textDocument/documentLink", {"textDocument": {"uri": uri}})
    return [(text[link["range"]["start"]["character"] : link["range"]["end"]["character"]], link["target"]) for link in found]


async def offers(folder: Path, provider: str, key: str, typed: str) -> list[tuple[str, int]]:
    text = text_with(provider, {key: typed})
    editor, uri = await opened(folder, text)
    place = {"line": 0, "character": text.index(json.dumps(key)) + len(json.dumps(key)) + 3 + len(typed)}
    listed = await editor.request("textDocument/completion", {"textDocument": {"uri": uri}, "position": place})
    return [(item["label"], item["kind"]) for item in listed["items"] if item["kind"] in (17, 19)]


async def test_a_path_that_names_a_file_is_a_link(folder: Path) -> None:
    assert await links(folder, "db_sqlite", {"path": "../data/sales.db"}) == [
        ("../data/sales.db", (folder / "data" / "sales.db").as_uri())
    ]
    files = {"one": "../data/é 1.csv", "two": "../data/none.csv", "three": "near.db"}
    assert [text for text, _ in await links(folder, "db_duckdb", {"files": files})] == ["../data/é 1.csv", "near.db"]
    assert await links(folder, "db_sqlite", {"path": "data/sales.db"}, root=str(folder)) == [
        ("data/sales.db", (folder / "data" / "sales.db").as_uri())
    ]


@pytest.mark.parametrize(
    "path", ["", "none.db", "../data", "../../secret.db", "/etc/passwd", "../data/out/secret.db", "${ROCKETRIDE_X}", "a\x00b"]
)
async def test_any_other_path_is_no_link(folder: Path, path: str) -> None:
    assert await links(folder, "db_sqlite", {"path": path, "other": "near.db"}) == []


async def test_names_of_files_are_offered_while_a_path_is_typed(folder: Path) -> None:
    assert await offers(folder, "db_sqlite", "path", "") == [("near.db", 17)]
    assert await offers(folder, "db_sqlite", "path", "../") == [("../data/", 19), ("../flows/", 19)]
    found = await offers(folder, "db_sqlite", "path", "../data/")
    assert set(found) == {("../data/deep/", 19), ("../data/out/", 19), ("../data/sales.db", 17), ("../data/é 1.csv", 17)}
    assert await offers(folder, "tool_filesystem", "root", "../") == [("../data/", 19), ("../flows/", 19)]
    assert await offers(folder, "tool_filesystem", "root", "") == []


@pytest.mark.promise("editor:workspace:not-left")
@pytest.mark.parametrize("typed", ["../../", "/", "/etc/", "../data/out/", "../../home/../"])
async def test_names_outside_of_the_workspace_are_not_offered(folder: Path, typed: str) -> None:
    assert await offers(folder, "db_sqlite", "path", typed) == []


async def test_a_document_without_a_file_names_none(folder: Path) -> None:
    editor = Editor()
    await editor.start(root=folder.as_uri())
    editor.open(text_with("db_sqlite", {"path": "flows/near.db"}), "untitled:1")
    assert await editor.request("textDocument/documentLink", {"textDocument": {"uri": "untitled:1"}}) == []
