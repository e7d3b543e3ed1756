"""Own nodes in an editor: what is said of a provider that they could define, and what follows when their files change."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faces.lsp.editors import Editor
from faces.lsp.test_lsp_options import complaints

from rrext.faces.lsp.options import Options

NODE = '''
from rrext import Node

class Own(Node):
    """A node of one's own."""

    provider = "{}"
    lanes = {{"text": ("text",)}}
'''
HELPED = """
from rrext import Node
from own_helper import NAME

class Own(Node):
    provider = NAME
"""
TEXT = '{"components": [{"id": "a", "provider": "own_first", "config": {}}, {"id": "b", "provider": "webhok", "config": {}}]}'
WATCHING = {"workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True, "relativePatternSupport": True}}}


@pytest.fixture(autouse=True)
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in set(sys.modules) - before:
        if name.startswith("own_"):
            del sys.modules[name]


async def unknown(editor: Editor) -> list[dict[str, Any]]:
    return [each for each in await editor.diagnostics() if each["code"] == "unknown_provider"]


async def unknown_after(editor: Editor, method: str, params: Any) -> list[dict[str, Any]]:
    """What is published after a notification."""
    editor.messages.clear()
    editor.notify(method, params)
    return await unknown(editor)


async def test_a_misspelt_provider_is_an_error_without_trust_too() -> None:
    editor = Editor()
    await editor.start()
    editor.open(TEXT.replace("own_first", "chat"))
    (found,) = await unknown(editor)
    assert found["severity"] == 1
    assert found["message"] == 'There is no node "webhok". Did you mean "webhook"?'


async def test_without_trust_a_provider_that_own_nodes_could_define_is_no_error_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "own_nodes.py"
    path.write_text("raise AssertionError('this must not run')")
    editor = Editor(Options(nodes=(str(path),)))
    await editor.start()
    editor.open(TEXT)
    found = await unknown(editor)
    assert [each["severity"] for each in found] == [3, 3]
    assert all(str(path) in each["message"] and "trust" in each["message"] for each in found)


@pytest.mark.parametrize("way", ["saved", "watched"])
async def test_diagnostics_follow_the_files_of_own_nodes(tmp_path: Path, way: str) -> None:
    path = tmp_path / "own_nodes.py"
    path.write_text(NODE.format("own_first"))
    editor = Editor(Options(nodes=(str(path),)))
    await editor.start({"trusted": True})
    editor.open(TEXT)
    assert len(await unknown(editor)) == 1
    path.write_text(NODE.format("own_third"))
    method, params = "textDocument/didSave", {"textDocument": {"uri": "file:///project/test.pipe"}}
    if way == "watched":
        method, params = "workspace/didChangeWatchedFiles", {"changes": [{"uri": path.as_uri(), "type": 2}]}
    assert len(await unknown_after(editor, method, params)) == 2
    path.write_text(NODE.format("own_first") + "# as it was before\n")
    assert len(await unknown_after(editor, method, params)) == 1
    assert complaints(editor) == []


async def test_a_module_that_own_nodes_import_is_loaded_again_too(tmp_path: Path) -> None:
    path, helper = tmp_path / "own_nodes.py", tmp_path / "own_helper.py"
    path.write_text(HELPED)
    helper.write_text("NAME = 'own_other'\n")
    editor = Editor(Options(nodes=(str(path),)))
    await editor.start({"trusted": True})
    editor.open(TEXT)
    assert len(await unknown(editor)) == 2
    helper.write_text("NAME = 'own_first'  # the name that the pipeline has\n")
    assert len(await unknown_after(editor, "workspace/didChangeWatchedFiles", {"changes": []})) == 1


async def test_nodes_that_are_broken_for_now_are_told_and_the_former_ones_stay(tmp_path: Path) -> None:
    path = tmp_path / "own_nodes.py"
    path.write_text(NODE.format("own_first"))
    editor = Editor(Options(nodes=(str(path),)))
    await editor.start({"trusted": True})
    editor.open(TEXT)
    assert len(await unknown(editor)) == 1
    path.write_text(NODE.format("own_first") + "def\n")
    editor.notify("workspace/didChangeWatchedFiles", {"changes": []})
    shown = await editor.until(lambda message: message.get("method") == "window/showMessage")
    assert str(path) in shown["params"]["message"]
    editor.open(TEXT + "\n")
    assert len(await unknown(editor)) == 1
    path.write_text(NODE.format("own_third"))
    assert len(await unknown_after(editor, "workspace/didChangeWatchedFiles", {"changes": []})) == 2


async def test_a_client_that_can_watch_is_asked_to_watch_the_folders_of_own_nodes(tmp_path: Path) -> None:
    path = tmp_path / "own_nodes.py"
    path.write_text(NODE.format("own_first"))
    editor = Editor(Options(nodes=(str(path),)))
    said = await editor.start({"trusted": True}, WATCHING)
    assert said["textDocumentSync"]["save"]
    asked = await editor.until(lambda message: message.get("method") == "client/registerCapability")
    (registration,) = asked["params"]["registrations"]
    assert registration["method"] == "workspace/didChangeWatchedFiles"
    pattern = {"baseUri": tmp_path.as_uri(), "pattern": "**/*.py"}
    assert registration["registerOptions"] == {"watchers": [{"globPattern": pattern}]}


async def test_nothing_is_loaded_again_without_trust(tmp_path: Path) -> None:
    path = tmp_path / "own_nodes.py"
    path.write_text(NODE.format("own_first"))
    editor = Editor(Options(nodes=(str(path),)))
    await editor.start({"trusted": True}, WATCHING)
    editor.notify("workspace/didChangeConfiguration", {"settings": {"rrext": {"trusted": False}}})
    path.write_text(f"open({str(tmp_path / 'sprung')!r}, 'w').close()\n")
    editor.notify("workspace/didChangeWatchedFiles", {"changes": []})
    editor.open(TEXT)
    assert [each["severity"] for each in await unknown(editor)] == [3, 3]
    assert not (tmp_path / "sprung").exists()
