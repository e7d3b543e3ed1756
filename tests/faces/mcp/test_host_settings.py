"""`--print-config` prints lines that make a host start the server, from whatever folder the host is in."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from mcp_host import PATIENCE

from rrext.cli.commands.servers.mcp import HOSTS, elsewhere

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def printed(host: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rrext", "mcp", *words, "--print-config", host]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)


def server_of(host: str, text: str) -> dict[str, Any]:
    """The one server of the settings, read as the host reads them."""
    settings = tomllib.loads(text) if host == "codex" else json.loads(text)
    key = {"vscode": "servers", "zed": "context_servers", "codex": "mcp_servers"}.get(host, "mcpServers")
    assert list(settings) == [key]
    assert list(settings[key]) == ["my files"]
    return settings[key]["my files"]


@pytest.mark.parametrize("host", HOSTS)
def test_the_printed_command_serves_from_another_folder(host: str, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "library", tmp_path / "library")
    shutil.copy(EXAMPLES / "filesystem.pipe", tmp_path / "my files.pipe")
    done = printed(host, tmp_path, "my files.pipe", "--root", ".")
    assert done.returncode == 0, done.stderr
    server = server_of(host, done.stdout)
    hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    answer = subprocess.run(
        [server["command"], *server["args"]],
        cwd="/",
        input=json.dumps(hello) + "\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert "read_file" in [tool["name"] for tool in json.loads(answer.stdout)["result"]["tools"]]


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_that_takes_a_url_gets_it_with_a_place_for_a_token(host: str, tmp_path: Path) -> None:
    (tmp_path / "my files.pipe").touch()
    done = printed(host, tmp_path, "my files.pipe", "--http", "0.0.0.0:8080", "--tokens", "tokens.toml")
    assert done.returncode == 0, done.stderr
    server = server_of(host, done.stdout)
    assert server["url"] == "http://localhost:8080/mcp"
    assert "token" in json.dumps(server).lower()
    plain = server_of(host, printed(host, tmp_path, "my files.pipe", "--http", "[::1]:80").stdout)
    assert {key: value for key, value in plain.items() if key != "type"} == {"url": "http://[::1]:80/mcp"}


READS_VARIABLES = {
    "components": [
        {"id": "t", "provider": "tools", "config": {}},
        {
            "id": "d",
            "provider": "db_postgres",
            "config": {"host": "${ROCKETRIDE_HOST}", "password": "${PGPASS} ${ROCKETRIDE_HOST}", "user": "${OTHER}"},
            "control": [{"classType": "tool", "from": "t"}],
        },
        {"id": "own", "provider": "mine", "config": {"deep": [{"key": "${ROCKETRIDE_MINE}"}]}},
    ]
}


@pytest.mark.parametrize("host", HOSTS)
def test_variables_have_places_and_are_named_without_their_values(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my files.pipe").write_text(json.dumps(READS_VARIABLES))
    (tmp_path / "c.toml").write_text('[h]\nprovider = "http"\nurl = "https://example.com"\nauthorization = "env:H_TOKEN"\n')
    (tmp_path / "c.toml").chmod(0o600)
    for name in ("ROCKETRIDE_HOST", "PGPASS", "H_TOKEN"):
        monkeypatch.setenv(name, "s3cret")
    needed = ["H_TOKEN", "ROCKETRIDE_HOST", "PGPASS", "ROCKETRIDE_MINE"]
    done = printed(host, tmp_path, "my files.pipe", "--env", "PGPASS", "--connections", "c.toml")
    assert server_of(host, done.stdout)["env"] == {name: f"<value of {name}>" for name in needed}
    refused, told = done.stderr.splitlines()
    assert told == f"rrext: put in the values of {', '.join(needed)}: hosts do not pass on the variables of a shell"
    assert 'The variable "OTHER" may not be read here' in refused
    assert "s3cret" not in done.stdout + done.stderr


def test_a_command_that_runs_by_itself_is_told_of_its_variables_and_a_host_of_its_token(tmp_path: Path) -> None:
    (tmp_path / "my files.pipe").write_text(json.dumps(READS_VARIABLES))
    words = ("my files.pipe", "--env", "PGPASS", "--env", "OTHER", "--http", "127.0.0.1:80", "--tokens", "t.toml")
    for host, place in (("codex", "as RREXT_TOKEN in the variables of the host"), ("zed", "in the place of TOKEN")):
        done = printed(host, tmp_path, *words)
        assert "env" not in server_of(host, done.stdout)
        assert done.stderr.splitlines() == [
            "rrext: the command itself needs the values of ROCKETRIDE_HOST, PGPASS, OTHER, ROCKETRIDE_MINE",
            f"rrext: put in the token of a user, {place}",
        ]


def test_a_port_that_is_another_one_at_each_start_has_no_settings(tmp_path: Path) -> None:
    (tmp_path / "my files.pipe").touch()
    done = printed("zed", tmp_path, "my files.pipe", "--http", "127.0.0.1:0")
    assert (done.returncode, done.stdout) == (2, "")
    assert "port 0" in done.stderr


def test_a_pipeline_that_is_not_there_has_no_settings(tmp_path: Path) -> None:
    done = printed("vscode", tmp_path, "nothing.pipe")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nothing.pipe" in done.stderr


def test_paths_are_absolute_and_other_words_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.pipe", "NAME", "own.py"):
        (tmp_path / name).touch()
    given = ["mcp", "a.pipe", "--env", "NAME", "--env=NAME", "--root=.", "--nodes", "own.py", "--nodes", "package.module"]
    assert elsewhere([*given, "--print-config", "zed", "--threads", "4"]) == [
        "mcp", f"{tmp_path}/a.pipe", "--env", "NAME", "--env=NAME", f"--root={tmp_path}", "--nodes", f"{tmp_path}/own.py",
        "--nodes", "package.module", "--threads", "4",
    ]  # fmt: skip


def test_the_command_names_its_pipelines() -> None:
    command = [sys.executable, "-m", "rrext", "mcp"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert "FILE.pipe" in done.stderr
