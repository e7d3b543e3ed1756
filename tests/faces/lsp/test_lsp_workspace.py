"""Pipeline files of the workspace that are not open have diagnostics: within limits, and kept up to date."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from faces.lsp.editors import Editor

from rrext.faces.lsp.features import workspace

BAD = '{"components": [{"id": "in", "provider": "webhok", "config": {}}]}'
GOOD = '{"components": [{"id": "in", "provider": "webhook", "config": {}}]}'
WATCHES: dict[str, Any] = {"workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}}}
PUBLISHED = "textDocument/publishDiagnostics"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "home é"
    (home / "deep" / "er").mkdir(parents=True)
    (home / "a.pipe").write_text(BAD)
    (home / "deep" / "er" / "b.pipe").write_text(BAD)
    return home


def told(editor: Editor) -> list[tuple[str, list[str]]]:
    """What was pushed: the name of each file, and the codes of its diagnostics."""
    pushed = (message["params"] for message in editor.messages if message.get("method") == PUBLISHED)
    return [(params["uri"].rpartition("/")[2], [found["code"] for found in params["diagnostics"]]) for params in pushed]


async def until_told(editor: Editor, count: int) -> list[tuple[str, list[str]]]:
    await editor.until(lambda _: len(told(editor)) >= count)
    return told(editor)


async def started(folder: Path, capabilities: dict[str, Any] | None = None, **options: Any) -> Editor:
    editor = Editor()
    await editor.start(options, capabilities, root=folder.as_uri())
    return editor


def report(editor: Editor, path: Path, kind: int) -> None:
    editor.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": path.as_uri(), "type": kind}]})


async def test_files_that_are_not_open_have_diagnostics(folder: Path) -> None:
    (folder / "good.pipe").write_text('{"components": [], "x": 1')
    (folder / "no-utf8.pipe").write_bytes(b'{"components": "\xff"}')
    editor = await started(folder)
    found = dict(await until_told(editor, 4))
    assert found.keys() == {"a.pipe", "b.pipe", "good.pipe", "no-utf8.pipe"}
    assert found["a.pipe"][0] == found["b.pipe"][0] == "unknown_provider"
    assert found["no-utf8.pipe"] == ["not_utf8"]


async def test_an_open_document_has_its_own_diagnostics_until_it_is_closed(folder: Path) -> None:
    editor = await started(folder)
    uri = (folder / "a.pipe").as_uri()
    editor.open(GOOD, uri)
    assert "unknown_provider" not in str(await editor.diagnostics(uri))
    await editor.until(lambda _: any(name == "b.pipe" for name, _ in told(editor)))
    assert not [codes for name, codes in told(editor) if name == "a.pipe" and "unknown_provider" in codes]
    editor.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    await editor.until(lambda _: any(name == "a.pipe" and "unknown_provider" in codes for name, codes in told(editor)))


async def test_changes_of_files_are_followed_one_by_one(folder: Path) -> None:
    editor = await started(folder, WATCHES)
    await until_told(editor, 2)
    asked = [message for message in editor.messages if message.get("method") == "client/registerCapability"]
    watchers = [each["registerOptions"]["watchers"] for message in asked for each in message["params"]["registrations"]]
    assert [{"globPattern": "**/*.pipe"}] in watchers
    path = folder / "new.pipe"
    path.write_text(BAD)
    report(editor, path, 1)
    assert (await until_told(editor, 3))[2][0] == "new.pipe"
    path.write_text('{"components": ')
    report(editor, path, 2)
    assert "unknown_provider" not in (await until_told(editor, 4))[3][1]
    path.unlink()
    report(editor, path, 3)
    assert (await until_told(editor, 5))[4] == ("new.pipe", [])
    report(editor, folder / "deep", 3)
    assert (await until_told(editor, 6))[5] == ("b.pipe", [])


async def test_a_name_that_no_file_can_have_ends_no_report(folder: Path) -> None:
    editor = await started(folder, WATCHES)
    await until_told(editor, 2)
    (folder / "new.pipe").write_text(BAD)
    uris = [f"{folder.as_uri()}/%00.pipe", (folder / "new.pipe").as_uri()]
    editor.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri, "type": 1} for uri in uris]})
    assert (await until_told(editor, 3))[2][0] == "new.pipe"


@pytest.mark.promise("editor:workspace:not-left")
async def test_a_file_outside_of_the_workspace_is_not_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out.pipe").write_text(BAD)
    (folder / "link.pipe").symlink_to(tmp_path / "out.pipe")
    (folder / "linked").symlink_to(tmp_path)
    editor = await started(folder)
    await until_told(editor, 2)
    for path in (tmp_path / "out.pipe", folder / "link.pipe", folder / "linked" / "out.pipe", folder / "a.txt"):
        report(editor, path, 2)
    (folder / "last.pipe").write_text(BAD)
    report(editor, folder / "last.pipe", 1)
    assert [name for name, _ in await until_told(editor, 3)] == ["a.pipe", "b.pipe", "last.pipe"]


async def test_new_settings_check_the_files_again(folder: Path, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.py"
    nodes.write_text('from rrext import Node\n\nclass Own(Node):\n    provider = "own"\n    lanes = {"_source": ("text",)}\n')
    (folder / "a.pipe").write_text(BAD.replace("webhok", "own"))
    (folder / "deep" / "er" / "b.pipe").write_text(BAD)
    editor = await started(folder, None, trusted=True, nodes=[str(nodes)])
    await editor.until(lambda _: any(name == "b.pipe" for name, _ in told(editor)))
    editor.notify("workspace/didChangeConfiguration", {"settings": {"rrext": {"trusted": False}}})
    await editor.until(lambda _: any(name == "a.pipe" and "unknown_provider" in codes for name, codes in told(editor)))


def test_the_search_is_limited(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (".git", "node_modules", "venv"):
        (folder / name).mkdir()
        (folder / name / "x.pipe").write_text(BAD)
    found = workspace.pipelines_in([str(folder)], lambda: False)
    assert [Path(path).name for path in found] == ["a.pipe", "b.pipe"]
    monkeypatch.setattr(workspace, "MAX_WORKSPACE_FILES", 1)
    assert len(workspace.pipelines_in([str(folder)], lambda: False)) == 1
    monkeypatch.setattr(workspace, "MAX_SCANNED_ENTRIES", 0)
    assert workspace.pipelines_in([str(folder)], lambda: False) == []
    assert workspace.pipelines_in([str(folder / "none")], lambda: False) == []


async def test_a_large_file_is_left_to_be_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.pipe").write_text(BAD + " " * 1000)
    monkeypatch.setattr(workspace, "MAX_WORKSPACE_FILE", 500)
    editor = await started(folder)
    assert [name for name, _ in await until_told(editor, 1)] == ["b.pipe"]


async def test_a_named_pipe_is_not_read(folder: Path) -> None:
    os.mkfifo(folder / "fifo.pipe")
    editor = await started(folder)
    await until_told(editor, 2)
    report(editor, folder / "fifo.pipe", 2)
    (folder / "last.pipe").write_text(BAD)
    report(editor, folder / "last.pipe", 1)
    assert (await until_told(editor, 3))[2][0] == "last.pipe"
