"""`--connections`: the file is checked, its problems are told, and its variables are gone before code of a node runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import call, here

from rrext import blocking
from rrext.errors import ServerExited

NODES = """
import os
from contextlib import asynccontextmanager
from rrext import Node, tool_function

SEEN_AT_IMPORT = "SHOP_KEY" in os.environ

class Shop(Node):
    provider = "shop"
    class_types = ("tool",)

    @classmethod
    @asynccontextmanager
    async def setup(cls, config, ctx):
        connection = ctx.connections.find("shop", "http")
        yield await ctx.in_thread(connection.settings.headers["Key"].reveal)

    @tool_function
    def look(self) -> list[int | bool]:
        "How long the key is, and whether others can see it."
        return [len(self.shared), SEEN_AT_IMPORT, "SHOP_KEY" in os.environ]
"""
PIPELINE = {
    "components": [
        {"id": "t", "provider": "tools"},
        {"id": "s", "provider": "shop", "control": [{"classType": "tool", "from": "t"}]},
    ]
}
GOOD = """[shop]
provider = "http"
url = "https://shop.example"
headers = { Key = "env:SHOP_KEY" }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "nodes.py").write_text(NODES)
    (tmp_path / "p.pipe").write_text(json.dumps(PIPELINE))
    write(tmp_path, GOOD)
    monkeypatch.setenv("SHOP_KEY", "12345678")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, text: str, mode: int = 0o600) -> None:
    (folder / "c.toml").write_text(text)
    (folder / "c.toml").chmod(mode)


def test_a_node_has_the_connections_of_the_command_line_and_no_one_else_their_variables(folder: Path) -> None:
    done = call("tool", "p.pipe", "look", "--nodes", "nodes.py", "--connections", "c.toml", cwd=folder, SHOP_KEY="12345678")
    assert done.value == [8, False, False], done
    with blocking.Client.spawn("p.pipe", nodes=["nodes.py"], connections="c.toml", env={"SHOP_KEY": "1234"}) as client:
        assert client.tool(tool="look") == [4, False, False]


def test_a_node_without_connections_is_told_so(folder: Path) -> None:
    done = call("tool", "p.pipe", "look", "--nodes", "nodes.py", cwd=folder)
    assert done.code == 1
    assert 'there is no connection "shop" for http' in done.err


@pytest.mark.promise("connections:file-0600")
def test_a_file_that_others_may_read_starts_nothing(folder: Path) -> None:
    write(folder, GOOD, 0o644)
    for words in (["tool", "p.pipe", "look"], ["tools", "p.pipe"], ["serve", "p.pipe"], ["mcp", "p.pipe"]):
        done = call(*words, "--nodes", "nodes.py", "--connections", "c.toml", cwd=folder)
        assert (done.code, done.out) == (2, b""), words
        assert done.err.splitlines()[0].startswith("rrext: c.toml: others may use the file (mode 0644); chmod 600")
    with pytest.raises(ServerExited) as raised, blocking.Client.spawn("p.pipe", nodes=["nodes.py"], connections="c.toml"):
        pass
    assert "chmod 600" in raised.value.data["stderr"]


@pytest.mark.promise("connections:problems")
def test_a_problem_of_one_connection_is_told_at_the_start_and_the_others_work(folder: Path) -> None:
    write(folder, GOOD + "[docs]\nprovider = 'mcp'\n")
    done = call("tool", "p.pipe", "look", "--nodes", "nodes.py", "--connections", "c.toml", cwd=folder, SHOP_KEY="12345678")
    assert done.value == [8, False, False]
    assert done.err == "rrext: c.toml:5: warning: /docs/command: expected either a command or a url\n"


@pytest.mark.promise("connections:problems")
def test_check_lists_the_problems_of_a_file_of_connections(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    done = here(capfd, "check", "--connections", "c.toml")
    assert (done.code, done.out, done.err) == (0, b"", "c.toml: ok, 1 connection\n")
    write(folder, GOOD + "tmeout = 3\n")
    done = here(capfd, "check", "--connections", "c.toml", "p.pipe", "--nodes", "nodes.py")
    assert done.code == 2
    assert done.out.decode().splitlines() == [
        "c.toml:4: error: /shop/headers/Key: the variable SHOP_KEY is not set [connection_invalid]",  # the check before took it
        'c.toml:5: error: /shop/tmeout: unknown key; did you mean "timeout"? [connection_invalid]',
    ]
    assert "c.toml: 2 errors, 1 connection\n" in done.err
    assert "total: 2 files, 1 cannot be run; 2 errors" in done.err
    assert here(capfd, "check", "--json", "--connections", "c.toml").value["problems"][1] == {
        "code": "connection_invalid",
        "severity": "error",
        "message": 'unknown key; did you mean "timeout"?',
        "path": "/shop/tmeout",
        "line": 5,
    }
    write(folder, "[shop\n")
    done = here(capfd, "check", "--connections", "c.toml")
    assert (done.code, done.err) == (2, "c.toml: 1 error\n")
    assert done.out.startswith(b"c.toml: error: Expected ']' at the end of a table declaration (at line 1, column 6)")


def test_check_names_the_commands_that_this_machine_does_not_have(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = folder / "own"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    texts = [f"[{name}]\nprovider = 'mcp'\n{more}\n" for name, more in {
        "there": "command = ['sh', '-c', 'true']",
        "own": f"command = ['{program}']",
        "gone": "command = ['no-such-server', '--x']",
        "off": "command = ['no-such-server']\nactive = false",
        "elsewhere": "command = ['no-such-server']\nenv = { PATH = '/opt' }",
    }.items()]  # fmt: skip
    write(folder, "".join(texts))
    done = here(capfd, "check", "--connections", "c.toml")
    assert done.code == 2
    (told,) = done.out.decode().splitlines()
    assert told.startswith('c.toml: error: /gone/command: there is no program "no-such-server" on this machine: install it')
    assert here(capfd, "check", "--no-probe", "--connections", "c.toml").code == 0


@pytest.mark.promise("editor:references:known")
def test_check_knows_the_connections_that_references_name(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tools = [{"type": "http", "server": name, "tool": "x", "name": f"x{at}"} for at, name in enumerate(("shop", "shopp"))]
    (folder / "r.pipe").write_text(json.dumps({"components": [{"id": "t", "provider": "tools", "config": {"tools": tools}}]}))
    write(folder, GOOD.replace("env:SHOP_KEY", "a literal key"))
    done = here(capfd, "check", "r.pipe")
    assert (done.code, done.out) == (0, b"")
    done = here(capfd, "check", "--connections", "c.toml", "r.pipe")
    told = [line for line in done.out.decode().splitlines() if line.startswith("r.pipe")]
    assert len(told) == 1
    assert 'warning: There is no connection "shopp" for http. Did you mean "shop"? [reference_not_found]' in told[0]


def test_check_of_nothing_says_what_to_name(capfd: pytest.CaptureFixture[str]) -> None:
    done = here(capfd, "check")
    assert (done.code, done.out) == (2, b"")
    assert "name a pipeline to check" in done.err
