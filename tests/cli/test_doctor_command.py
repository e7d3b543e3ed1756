"""`rrext doctor`: what a machine gives rrext, and what it lacks."""

from __future__ import annotations

import json
import re
import socket
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from commands import EXAMPLES, ROOT, InProcess, call, environment, spawned, until
from forked import completed

from rrext.cli.commands.authoring.doctor import EXTRAS
from rrext.version import __version__

BROKEN = """
from rrext import Node


class Broken(Node):
    provider = "broken"

    @classmethod
    def unavailable(cls):
        return "this needs a sky: pip install sky"


class Worse(Node):
    provider = "worse"

    @classmethod
    def unavailable(cls):
        raise ValueError("no idea")
"""


def found(run: InProcess, *args: object) -> tuple[int, dict[str, tuple[str, str]]]:
    """The exit code; what was looked at → state and words."""
    done = run("doctor", "--json", *args)
    return done.code, {each["what"]: (each["state"], each["found"]) for each in done.lines}


def test_it_tells_of_python_the_limits_and_the_nodes(run: InProcess, tmp_path: Path) -> None:
    (tmp_path / "nodes_of_doctor.py").write_text(BROKEN)
    code, told = found(run, "--nodes", tmp_path / "nodes_of_doctor.py")
    assert code == 0
    assert told["rrext"][1].startswith(__version__)
    assert told["Python"] == ("ok", f"{sys.version.split()[0]}, {sys.executable}")
    assert told["memory"] == ("ok", "no limit")
    assert told["broken"] == ("missing", "this needs a sky: pip install sky")
    assert told["worse"] == ("missing", "ValueError: no idea")
    lines = run("doctor").out.decode().splitlines()
    assert lines[0].split() == ["STATE", "WHAT", "FOUND"]


def test_it_knows_each_extra_for_users_and_the_modules_that_it_brings(run: InProcess) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    others = {"all", "test-core", "test", "dev"}
    assert set(EXTRAS) == set(project) - others
    _, told = found(run)
    missing = {what.removeprefix("extra ") for what in told if what.startswith("extra ")}
    assert {*told["extras"][1].split(", "), *missing} == set(EXTRAS)

    def packages(extra: str) -> set[str]:
        named = [re.match(r"([\w-]+)(?:\[([\w,-]+)\])?", line) for line in project[extra]]
        inner = [extra for name in named if name and name[1] == "rrext" for extra in name[2].split(",")]
        return {name[1].replace("_", "-") for name in named if name}.union(*map(packages, inner))

    brought = packages_distributions()
    for extra, (_, modules) in EXTRAS.items():
        for module in modules:
            owners = {name.lower().replace("_", "-") for name in brought.get(module.partition(".")[0], ())}
            is_inside = "." in module or extra in ("agent", "anthropic", "gemini")  # packages of extras of packages
            assert is_inside or not owners or owners & packages(extra), f"{extra}: {module} is none of its packages"


def test_an_extra_that_is_not_installed_is_missing_with_its_use_and_its_line(
    run: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXTRAS, "web", ("rrext serve --ws", ("no_such_module_9f",)))
    code, told = found(run)
    line = 'for rrext serve --ws: no_such_module_9f cannot be imported; install with: pip install "rrext[web]"'
    assert (code, told["extra web"]) == (0, ("missing", line))


def test_it_tells_of_both_engines_what_they_lack(run: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rrext.nodes.sandbox.engine.sandlock_folder", lambda: None)
    monkeypatch.setattr("rrext.nodes.sandbox.engine.bubblewrap", lambda: None)
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(machine="x86_64", release="6.1"))
    monkeypatch.setattr("sys.platform", "linux")
    code, told = found(run)
    assert code == 0
    assert told["sandbox landlock"] == ("missing", 'it needs the package "sandlock": pip install "rrext[python]"')
    state, words = told["sandbox bubblewrap"]
    assert (state, words.endswith("apt install bubblewrap, or dnf install bubblewrap")) == ("missing", True)


def test_a_limit_that_no_server_can_live_with_is_wrong() -> None:
    words = f"ulimit -n 40; ulimit -v 4000000; exec {sys.executable} -m rrext doctor --json"
    done = completed(["bash", "-c", words], b"", env=environment())
    told = {each["what"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 1
    assert told["open files"]["state"] == "wrong"
    assert told["memory"]["found"] == "RLIMIT_AS 4,096,000,000 bytes"


def test_connections_are_looked_at_and_reached_if_asked_for(run: InProcess, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_server(("127.0.0.1", 0)) as closed:
        closed_port = closed.getsockname()[1]
        closed.close()
        file = tmp_path / "servers.toml"
        file.write_text(
            f'[here]\nprovider = "http"\nurl = "http://127.0.0.1:{listener.getsockname()[1]}/"\n'
            f'[gone]\nprovider = "http"\nurl = "http://127.0.0.1:{closed_port}/"\n'
            '[program]\nprovider = "mcp"\ncommand = ["no-such-program-9f"]\n'
            '[off]\nprovider = "mcp"\nactive = false\ncommand = ["no-such-program-9f"]\n[bad]\nprovider = "htp"\n'
        )
        file.chmod(0o600)
        code, told = found(run, "--connections", file)
        assert (code, told["connection here"]) == (1, ("ok", "http"))
        assert told["connection off"] == ("ok", "mcp, switched off")
        assert told["connection program"][0] == "wrong"
        assert told["connections"][1].startswith("/bad/provider: expected one of")
        code, told = found(run, "--connections", file, "--reach")
        assert told["connection here"][0] == "ok"
        assert told["connection gone"] == ("wrong", f"127.0.0.1:{closed_port} takes no connection: Connection refused")


@pytest.mark.parametrize("place", ["127.0.0.1:99999", "[::1", "one..two", "one:secret/two@three", f"{64 * 'a'}.example"])
def test_an_address_that_none_can_be_is_wrong_and_no_failure_of_the_command(run: InProcess, tmp_path: Path, place: str) -> None:
    file = tmp_path / "servers.toml"
    file.write_text(f'[it]\nprovider = "mcp"\nurl = "http://{place}/mcp"\n')
    file.chmod(0o600)
    code, told = found(run, "--connections", file, "--reach")
    state, said = told["connection it"]
    assert (code, state, "secret" in said) == (1, "wrong", False)
    assert said.startswith("its url has no host and port") or said.endswith("is no name of a machine")


def test_a_server_tells_its_version(run: InProcess) -> None:
    with TemporaryDirectory(prefix="rrext-") as folder:  # a socket's path has at most 107 bytes
        server_told(run, f"unix:{folder}/s")


def server_told(run: InProcess, address: str) -> None:
    code, told = found(run, "--at", address)
    assert (code, told[f"server {address}"][0]) == (1, "wrong")
    with spawned("serve", "--listen", address, str(EXAMPLES / "echo.pipe")) as process:
        assert process.stderr is not None
        until(process.stderr, "listening at")
        assert found(run, "--at", address)[1][f"server {address}"] == ("ok", f"rrext {__version__}, protocol 1, 1 pipelines")
    assert call("doctor", "--connections", "none.toml").code == 1
