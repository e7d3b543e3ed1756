"""What a client may say of itself and of trust, and where it may say it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from faces.lsp.editors import URI, Editor

from rrext.faces.lsp.options import Options, options_from, withdrawn

WARNING = 2
GIVEN = Options(nodes=("/given.py",), env=("GIVEN",), root="/given")
NODE = '''
from rrext import Node

class Own(Node):
    """A node of one's own."""

    provider = "own"
'''
OWN = '{"components": [{"id": "a", "provider": "own", "config": {}}]}'


def sent(options: Any, **more: Any) -> dict[str, Any]:
    return {"capabilities": {}, "initializationOptions": options, **more}


def complaints(editor: Editor) -> list[str]:
    shown = [message["params"] for message in editor.messages if message.get("method") == "window/showMessage"]
    assert {params["type"] for params in shown} <= {WARNING}
    return [params["message"] for params in shown]


# initializationOptions


@pytest.mark.parametrize("value", [False, None, 1, "true", "false", [], {}, [True], 0])
def test_nothing_but_true_is_taken_for_trust(value: Any) -> None:
    options, told = options_from(sent({"trusted": value}), GIVEN)
    assert not options.trusted
    assert bool(told) == (value is not False)
    assert options_from(sent({"trusted": True}), GIVEN)[0].trusted


@pytest.mark.parametrize("options", [None, "absent"])
def test_a_client_without_options_gets_those_of_the_command_line(options: Any) -> None:
    assert options_from({} if options == "absent" else sent(options), GIVEN) == (GIVEN, [])


def test_options_stand_over_those_of_the_command_line_one_by_one() -> None:
    options, told = options_from(sent({"env": ["A"], "nodes": []}), GIVEN)
    assert (options.env, options.nodes, options.root, told) == (("A",), (), "/given", [])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "must be an object"),
        ("x", "must be an object"),
        ({"trust": True}, 'has no "trust"; there are trusted, nodes, env, root'),
        ({"nodes": "a.py"}, "$.nodes"),
        ({"env": [1]}, "$.env[0]"),
        ({"root": 5}, "$.root"),
    ],
)
async def test_an_option_that_cannot_be_used_is_complained_of_and_the_others_count(options: Any, words: str) -> None:
    editor = Editor()
    await editor.start({**options, "trusted": True} if isinstance(options, dict) else options)
    (complaint,) = complaints(editor)
    assert words in complaint
    assert editor.server.options.trusted == isinstance(options, dict)


async def test_options_of_other_servers_are_nothing_to_complain_of() -> None:
    editor = Editor()
    await editor.start({"provideFormatter": True, "trusted": True})
    assert complaints(editor) == []
    assert editor.server.options.trusted


def test_paths_begin_at_the_workspace(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    options = {"nodes": ["own.py", "sub/own.py", "module.name", "/abs/own.py", "~/own.py"], "root": "data"}
    wanted = (f"{folder}/own.py", f"{folder}/sub/own.py", "module.name", "/abs/own.py", str(Path("~/own.py").expanduser()))
    for where in (
        {"rootUri": folder.as_uri()},
        {"rootUri": "file:///x", "workspaceFolders": [{"uri": folder.as_uri(), "name": ""}]},
    ):
        found, _ = options_from(sent(options, **where), Options())
        assert found.nodes == wanted
        assert found.root == f"{folder}/data"


@pytest.mark.parametrize(
    "where", [{}, {"rootUri": None}, {"rootUri": 5}, {"rootUri": "file://[::1"}, {"workspaceFolders": [5]}]
)
def test_without_a_workspace_paths_stay_as_they_are(where: dict[str, Any]) -> None:
    assert options_from(sent({"nodes": ["own.py"]}, **where), Options())[0].nodes == ("own.py",)


# nodes


async def test_nodes_of_ones_own_are_known_with_trust(tmp_path: Path) -> None:
    (tmp_path / "own_nodes.py").write_text(NODE)
    editor = Editor()
    await editor.start({"trusted": True, "nodes": ["own_nodes.py"]}, root=tmp_path.as_uri())
    editor.open(OWN)
    assert "unknown_provider" not in [found["code"] for found in await editor.diagnostics()]
    assert complaints(editor) == []


async def test_nodes_that_are_not_loaded_for_want_of_trust_are_named(tmp_path: Path) -> None:
    path = tmp_path / "own_nodes.py"
    path.write_text("raise AssertionError('this must not run')")
    editor = Editor(Options(nodes=(str(path),)))
    await editor.start()
    (complaint,) = complaints(editor)
    assert str(path) in complaint
    assert "initializationOptions.trusted" in complaint


@pytest.mark.parametrize("code", ["1/0", "raise SystemExit(3)", "def", "x = 1", None])
async def test_nodes_that_cannot_be_loaded_are_told_and_everything_else_works(tmp_path: Path, code: str | None) -> None:
    path = tmp_path / "own_nodes.py"
    if code is not None:
        path.write_text(code)
    editor = Editor()
    await editor.start({"trusted": True, "nodes": [str(path)]})
    (complaint,) = complaints(editor)
    assert str(path) in complaint
    editor.open(OWN)
    assert "unknown_provider" in [found["code"] for found in await editor.diagnostics()]


# settings, which an editor may have from the folder that somebody sent


def settings(value: Any) -> dict[str, Any]:
    return {"settings": value}


async def test_settings_never_give_trust() -> None:
    editor = Editor()
    await editor.start()
    for _ in range(2):
        editor.notify("workspace/didChangeConfiguration", settings({"rrext": {"trusted": True, "nodes": ["x.py"]}}))
    assert not editor.server.options.trusted
    assert editor.server.options.nodes == ()
    (complaint,) = complaints(editor)
    assert "trusted, nodes" in complaint
    assert "initializationOptions" in complaint


async def test_settings_take_trust_away_and_every_document_is_looked_at_anew(tmp_path: Path) -> None:
    (tmp_path / "own_nodes.py").write_text(NODE)
    editor = Editor()
    await editor.start({"trusted": True, "nodes": [str(tmp_path / "own_nodes.py")]})
    editor.open(OWN)
    assert "unknown_provider" not in [found["code"] for found in await editor.diagnostics()]
    before = len(editor.messages)
    editor.notify("workspace/didChangeConfiguration", settings({"rrext": {"trusted": False}}))
    assert not editor.server.surroundings().trusted
    editor.messages = editor.messages[before:]
    (unknown,) = (found for found in await editor.diagnostics() if found["code"] == "unknown_provider")
    assert unknown["severity"] == 3
    assert str(tmp_path / "own_nodes.py") in unknown["message"], "it may define that node"
    assert complaints(editor) == []


@pytest.mark.parametrize(
    "params", [None, [], {}, settings(None), settings([]), settings({"other": 1}), settings({"rrext": None})]
)
def test_settings_that_say_nothing_change_nothing(params: Any) -> None:
    options = Options(trusted=True)
    assert withdrawn(params, options) == (options, [])


@pytest.mark.parametrize("said", [{"trusted": True}, {}, {"nodes": ["/given.py"]}, {"unknown": 1}])
def test_settings_that_repeat_what_holds_are_no_reason_to_complain(said: dict[str, Any]) -> None:
    options = Options(trusted=True, nodes=("/given.py",))
    assert withdrawn(settings({"rrext": said}), options) == (options, [])


@pytest.mark.parametrize("value", ["off", "messages", "verbose", "strange", None])
async def test_tracing_may_be_asked_for_and_changes_nothing(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    editor = Editor()
    await editor.start()
    editor.notify("$/setTrace", {"value": value})
    editor.open("[")
    assert await editor.diagnostics()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [message.get("method") for message in editor.messages if "method" in message] == ["textDocument/publishDiagnostics"]
    assert editor.server.documents.find(URI) is not None
