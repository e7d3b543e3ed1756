"""Completion in shells: which words may follow, and real shells that ask for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command_terminal import Terminal, program_at_terminal
from commands import EXAMPLES, call, component, environment, pipeline

from rrext.cli.commands.authoring.completion import following
from rrext.cli.main import COMMANDS

FILES = str(EXAMPLES / "filesystem.pipe")


def offered(*words: str) -> tuple[str, list[str]]:
    found = following(words)
    return found.kind, [word for word, _ in found.words]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("che",), ("words", ["check"])),
        (("",), ("words", [*COMMANDS, "--help", "--version"])),
        (("nonsense", ""), ("words", [])),
        (("check", "--f"), ("words", ["--fix"])),
        (("check", "--fix", "--f"), ("words", [])),
        (("tools", "--nodes", "a.py", "--no"), ("words", ["--node", "--nodes", "--no-project"])),
        (("check", ""), ("pipes", [])),
        (("check", "a.pipe", ""), ("pipes", [])),
        (("tools", "a.pipe", ""), ("words", [])),
        (("space", ""), ("words", ["create", "add", "remove", "list", "delete"])),
        (("space", "add", ""), ("pipes", [])),
        (("tool", FILES, "read"), ("words", ["read_file"])),
        (("tool", "--timeout", "3", FILES, "stat"), ("words", ["stat_file"])),
        (("tool", "nowhere.pipe", ""), ("words", [])),
        (("tool", FILES, "read_file", "max"), ("keys", ["maxBytes="])),
        (("tool", FILES, "read_file", "path=x", "e"), ("keys", ["encoding="])),
        (("tool", FILES, "read_file", "path=we"), ("value", [])),
        (("tool", FILES, "read_file", "path", "=", "we"), ("files", [])),
        (("tool", FILES, "read_file", "--node", ""), ("words", ["webhook_1", "files_1", "reply_1"])),
        (("tool", "--at", "unix:a", ""), ("words", [])),
        (("send", "a.pipe", ""), ("files", [])),
        (("show", "--root", ""), ("folders", [])),
        (("show", "-o", ""), ("files", [])),
        (("serve", "--log-level", "w"), ("words", ["warning"])),
        (("nodes", "tool_"), ("words", ["tool_filesystem", "tool_git", "tool_http_request", "tool_mcp_client", "tool_python"])),
        (("help", "no"), ("words", ["nodes"])),
        (("completion", "z"), ("words", ["zsh"])),
    ],
)
def test_the_words_that_may_follow(words: tuple[str, ...], expected: tuple[str, list[str]]) -> None:
    assert offered(*words) == expected


MODEL = component("m", "llm_scripted", answers=["a"])
LISTED = {
    "all of a node": [component("f", "tool_filesystem", control="w", root=".")],
    "those that the settings switch on": [component("f", "tool_filesystem", control="w", root=".", allow_write=True)],
    "none that needs a model": [component("d", "db_sqlite", control="w", path=":memory:")],
    "those that have their model": [
        component("d", "db_sqlite", control="w", path=":memory:"),
        {**MODEL, "control": [{"classType": "llm", "from": "d"}]},
    ],
    "references": [
        component("f", "tool_filesystem", control="w", root="."),
        component("t", "tools", tools=[{"type": "node", "node": "f", "tool": "read_file", "name": "read"}]),
    ],
    "none of a user": [
        component("f", "tool_filesystem", control="w", root="."),
        component("t", "tools", tools=[{"type": "node", "node": "f", "tool": "stat_file", "available": {"users": ["ada"]}}]),
    ],
    "none that is denied": [
        component("f", "tool_filesystem", control="w", root="."),
        component("t", "tools", tools=[{"type": "node", "node": "f", "tool": "stat_file", "permission": "deny"}]),
    ],
}


@pytest.mark.promise("completion:runs-nothing")
@pytest.mark.parametrize("name", LISTED)
def test_tab_offers_what_tools_lists(name: str, tmp_path: Path) -> None:
    path = pipeline(tmp_path, component("w", "webhook"), *LISTED[name])
    listed = call("tools", path, "--json").value["tools"]
    assert offered("tool", path, "") == ("words", list(dict.fromkeys(tool["name"] for tool in listed)))
    for node_id in ("f", "d", "t"):
        of_node = [tool["name"] for tool in listed if tool["nodeId"] == node_id]
        assert offered("tool", "--node", node_id, path, "") == ("words", of_node)


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.pipe")))
def test_tab_offers_what_tools_lists_of_an_example(example: str) -> None:
    listed = call("tools", str(EXAMPLES / example), "--json", cwd=EXAMPLES).value["tools"]
    assert offered("tool", str(EXAMPLES / example), "")[1] == list(dict.fromkeys(tool["name"] for tool in listed))


def test_tab_offers_nothing_of_a_node_whose_variable_has_no_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [component("f", "tool_filesystem", control="w", root="${MY_ROOT}"), component("k", "memory_internal", control="w")]
    words = ("tool", "--env", "MY_ROOT", pipeline(tmp_path, component("w", "webhook"), *parts), "")
    without = offered(*words)[1]
    assert "read_file" not in without
    monkeypatch.setenv("MY_ROOT", ".")
    assert "read_file" in offered(*words)[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_every_command_is_offered_with_its_help(name: str) -> None:
    shown = call(name, "--help").out.decode()
    found = following((name, "--"))
    assert all(word in shown and text for word, text in found.words)
    assert len(found.words) >= 1


@pytest.mark.promise("completion:runs-nothing")
def test_a_key_that_completes_runs_no_code_of_nodes(tmp_path: Path) -> None:
    (tmp_path / "loud_node.py").write_text("open('loaded', 'w')")
    assert offered("tool", "--nodes", str(tmp_path / "loud_node.py"), FILES, "read") == ("words", ["read_file"])
    assert not (tmp_path / "loaded").exists()


def test_an_id_that_a_shell_would_run_is_not_offered(tmp_path: Path) -> None:
    ids = ["$(touch x)", "`x`", "a b", "a;b", "a\nb", "plain_1"]
    path = pipeline(tmp_path, *(component(name, "web\x1b[31mhook") for name in ids))
    assert following(("tool", path, "x", "--node", "")).words == (("plain_1", "web\\u001b[31mhook"),)


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.pipe")
    assert offered("tool", str(tmp_path / "p.pipe"), "") == ("words", [])


def test_variables_are_offered_by_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "hidden-value")
    done = call("completion", "words", "tools", "--env", "MY_SEC", MY_SECRET="hidden-value")
    assert done.out == b"words\nMY_SECRET\t\n"


Shell = Callable[[Path], tuple[list[str], str]]
"""The words that start a shell without settings, and what makes it complete `rrext`."""


def bash(folder: Path) -> tuple[list[str], str]:
    return ["bash", "--norc", "--noprofile", "-i"], 'bind "set enable-bracketed-paste off"; eval "$(rrext completion bash)"'


def zsh(folder: Path) -> tuple[list[str], str]:
    return ["zsh", "-f", "-i"], 'autoload -U compinit; compinit -D -u; eval "$(rrext completion zsh)"'


def fish(folder: Path) -> tuple[list[str], str]:
    return ["fish", "--no-config", "-i"], "rrext completion fish | source"


@contextmanager
def at_shell(shell: Shell, folder: Path) -> Iterator[Terminal]:
    """A shell at a terminal, in a folder with a pipeline, where `rrext` is these sources."""
    (folder / "bin").mkdir()
    program = folder / "bin" / "rrext"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m rrext "$@"\n')
    program.chmod(0o755)
    (folder / "notes").mkdir()
    shutil.copy(FILES, folder / "first.pipe")
    (folder / "figure.txt").write_text("x")
    run, prepare = shell(folder)
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    home: dict[str, Any] = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    program_path = shutil.which(run[0])
    assert program_path is not None
    with program_at_terminal([program_path, *run[1:]], folder=folder, PATH=path, NO_COLOR="1", **home) as terminal:
        terminal.type(f"{prepare}; echo rea''dy\r")
        terminal.until("ready")
        yield terminal


SHELLS = [bash, pytest.param(zsh, marks=pytest.mark.system), pytest.param(fish, marks=pytest.mark.system)]


@pytest.mark.parametrize("shell", SHELLS)
def test_tab_completes_commands_options_files_tools_and_parameters(shell: Shell, tmp_path: Path) -> None:
    with at_shell(shell, tmp_path) as terminal:
        for typed, completed in (
            ("rrext che", "ck"),
            ("--fi", "x"),
            ("fir", "st.pipe"),
        ):
            terminal.type(f"{typed}\t")
            terminal.until(typed)
            terminal.until(completed)
        terminal.type("\r")
        terminal.until("first.pipe: ")
        for typed, completed in (
            ("rrext tool fir", "st.pipe"),
            ("list_d", "irectory"),
            ("pat", "h="),
            ("note", "s"),
        ):
            terminal.type(f"{typed}\t")
            terminal.until(completed)
        terminal.type("\x15")


@pytest.mark.system
def test_fish_completes_a_word_that_has_not_begun(tmp_path: Path) -> None:
    shutil.copy(FILES, tmp_path / "first.pipe")
    line = f'alias rrext="{sys.executable} -m rrext"; rrext completion fish | source; complete -C "rrext tool first.pipe "'
    done = subprocess.run(["fish", "--no-config", "-c", line], cwd=tmp_path, env=environment(), capture_output=True, check=True)
    assert b"list_directory\t" in done.stdout
