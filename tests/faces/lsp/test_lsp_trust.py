"""Without trust nothing runs: no process is started, no code of nodes is imported, and whoever asks is told why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from faces.lsp.desks import EVERYTHING, NODES, Desk, components, desk, pipeline

from rrext.cli.main import main
from rrext.faces.lsp.options import Options
from rrext.faces.lsp.runs.engine import EngineProcess, NotTrusted, engine_environment
from rrext.server.commands import COMMANDS

ROOT = str(Path(__file__).parents[3])
RUNNING = ["rrext.runTool", "rrext.sendFile", "rrext.chat", "rrext.listTools", "rrext.restartEngine"]
CUSTOM = sorted(set(COMMANDS) - {"initialize", "shutdown", "disconnect"})
TEXT = '// rrext tool read_file {"path": "a"}\n' + json.dumps(
    {
        "components": [
            components()[0],
            {
                "id": "files",
                "provider": "tool_filesystem",
                "config": {"root": "."},
                "control": [{"classType": "tool", "from": "in"}],
            },
        ]
    }
)


@pytest.fixture(autouse=True)
def processes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every process that is started."""
    started: list[Any] = []

    class Watched(subprocess.Popen):  # pyright: ignore[reportMissingTypeArgument]
        def __init__(self, args: Any, *more: Any, **named: Any) -> None:
            started.append(args)
            super().__init__(args, *more, **named)

    monkeypatch.setattr(subprocess, "Popen", Watched)
    return started


async def everything(bench: Desk) -> list[dict[str, Any]]:
    """The errors of all that could run something."""
    errors = [await bench.refused(name, {"tool": "read_file", "input": {}, "text": "x"}) for name in RUNNING]
    arguments = {"subcommand": "tool", "tool": "read_file", "pipeline": TEXT, "requestId": 1}
    return errors + [await bench.editor.failure(method, arguments) for method in CUSTOM]


@pytest.mark.promise("editor:untrusted:runs-nothing")
@pytest.mark.parametrize("trusted", [False, None, "true", 1])
async def test_nothing_runs_and_every_answer_says_why(tmp_path: Path, processes: list[Any], trusted: Any) -> None:
    async with desk(tmp_path, TEXT, trusted=trusted, nodes=[]) as bench:
        for error in await everything(bench):
            assert error["data"]["code"] == "not_trusted"
            assert "initializationOptions" in error["data"]["hint"]
            assert error["code"] == -32016
    assert processes == []


async def test_the_same_requests_start_an_engine_where_there_is_trust(tmp_path: Path, processes: list[Any]) -> None:
    async with desk(tmp_path, TEXT, nodes=[]) as bench:
        await bench.ask("rrext.listTools")
    assert len(processes) == 1
    assert processes[0][:5] == [sys.executable, "-P", "-m", "rrext", "serve"]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ([ROOT], True),
        ([ROOT, "/lib"], True),
        (["/bin", ROOT], False),
        ([ROOT, "/lib", ROOT], False),
        (["/project", "/lib"], False),
    ],
)
@pytest.mark.parametrize("before", ["", "/more"])
def test_the_engine_is_told_of_a_folder_only_if_rrext_is_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, path: list[str], told: bool, before: str
) -> None:
    monkeypatch.setattr(sys, "path", path)
    monkeypatch.setenv("PYTHONPATH", before)
    given = [before] if before else []
    assert engine_environment()["PYTHONPATH"].split(os.pathsep) == ([*given, ROOT] if told else given or [""])


async def test_no_engine_is_started_before_something_runs(tmp_path: Path, processes: list[Any]) -> None:
    async with desk(tmp_path, TEXT, nodes=[]) as bench:
        lenses = await bench.editor.request("textDocument/codeLens", {"textDocument": {"uri": bench.uri}})
        assert "▶ Run read_file" in [lens["command"]["title"] for lens in lenses]
        assert (await bench.ask("rrext.showGraph"))["ok"]
        bench.replace("{")
        assert not (await bench.run("read_file"))["ok"]
    assert processes == []


@pytest.mark.promise("editor:untrusted:runs-nothing")
async def test_code_of_nodes_is_not_imported(tmp_path: Path, processes: list[Any]) -> None:
    trap = tmp_path / "trap_nodes.py"
    trap.write_text(f"open({str(tmp_path / 'sprung')!r}, 'w').close()\n")
    async with desk(tmp_path, pipeline(), trusted=False, nodes=[str(trap)]) as bench:
        await everything(bench)
        await bench.editor.request("textDocument/codeLens", {"textDocument": {"uri": bench.uri}})
    assert not (tmp_path / "sprung").exists()
    assert "trap_nodes" not in sys.modules
    assert processes == []


async def test_lenses_are_shown_and_explain_themselves(tmp_path: Path, processes: list[Any]) -> None:
    async with desk(tmp_path, TEXT, trusted=False, nodes=[]) as bench:
        lenses = await bench.editor.request("textDocument/codeLens", {"textDocument": {"uri": bench.uri}})
        titles = {lens["command"]["title"] for lens in lenses}
        assert "▷ Run tool… (not trusted)" in titles
        assert "▷ Run read_file (not trusted)" in titles
        assert "▷ Send file… (not trusted)" in titles
        for lens in lenses:
            assert lens["command"]["command"] in ("rrext.explainTrust", "rrext.showGraph")
        (explain,) = [lens["command"] for lens in lenses if "Run tool" in lens["command"]["title"]]
        assert (await bench.editor.request("workspace/executeCommand", explain))["trusted"] is False
        assert "initializationOptions" in (await bench.told("window/showMessage", "trusted"))["message"]
    assert processes == []


async def test_the_engine_itself_refuses_to_start(processes: list[Any]) -> None:
    engine = EngineProcess(Options, on_output=lambda _: None, on_event=lambda *_: None)
    with pytest.raises(NotTrusted):
        await engine.client()
    assert engine.pid is None
    assert processes == []


@pytest.mark.promise("editor:untrusted:runs-nothing")
async def test_an_editor_that_says_nothing_is_not_trusted(tmp_path: Path, processes: list[Any]) -> None:
    from faces.lsp.editors import Editor

    editor = Editor()
    await editor.start(None, EVERYTHING)
    editor.open(TEXT)
    assert (await editor.failure("rrext_ping"))["data"]["code"] == "not_trusted"
    await editor.server.aclose()
    assert processes == []


@pytest.mark.promise("project:untrusted:runs-nothing")
async def test_a_project_of_the_workspace_counts_only_after_its_trust(
    tmp_path: Path, processes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    folder = tmp_path / "workspace"
    folder.mkdir()
    trap = folder / "sprung_nodes.py"
    trap.write_text(NODES.read_text() + f"\nopen({str(tmp_path / 'sprung')!r}, 'w').close()\n")
    (folder / "rrext.toml").write_text('nodes = ["sprung_nodes.py"]')
    for trust, editor_trusts in ((False, True), (True, False), (True, True)):
        if trust:
            assert main(["trust", "--yes", str(folder)]) == 0
        async with desk(folder, root=folder.as_uri(), trusted=editor_trusts, nodes=[]) as bench:
            if not trust:
                told = await bench.told("window/showMessage", "rrext trust")
                assert "nodes ignored: it is not trusted" in told["message"]
            await bench.editor.request("textDocument/codeLens", {"textDocument": {"uri": bench.uri}})
            if trust and editor_trusts:
                assert (await bench.run("add", {"a": 1, "b": 2}))["result"] == {"sum": 3}
            else:
                assert not (tmp_path / "sprung").exists()
    assert (tmp_path / "sprung").exists()
    assert processes[0][:6] == [sys.executable, "-P", "-m", "rrext", "serve", "--no-project"]


async def test_a_project_that_is_wrong_is_told_to_the_editor(tmp_path: Path) -> None:
    (tmp_path / "rrext.toml").write_text("nodes = 1")
    async with desk(tmp_path, TEXT, root=tmp_path.as_uri(), nodes=[]) as bench:
        assert "rrext.toml:1: nodes: expected array" in (await bench.told("window/showMessage", "rrext.toml"))["message"]
    async with desk(tmp_path, TEXT, root=tmp_path.as_uri(), nodes=[], project=False) as bench:
        assert await bench.ask("rrext.listTools")
