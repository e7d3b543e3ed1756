"""`rrext` itself: its commands, its help, its version."""

from __future__ import annotations

import subprocess
import sys

import pytest
from commands import call, environment, spawned

from rrext import __version__
from rrext.cli.main import COMMANDS


def test_the_version_is_a_result() -> None:
    done = call("--version")
    assert (done.code, done.out.decode(), done.err) == (0, f"rrext {__version__}\n", "")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example_of_it(name: str) -> None:
    done = call(name, "--help")
    assert (done.code, done.err) == (0, "")
    shown = done.out.decode()
    assert "example" in shown
    assert f"\n  rrext {name}" in shown.partition("example")[2]
    assert "--nodes FILE.py|MODULE" in shown


def test_the_help_names_every_command() -> None:
    shown = call("--help").out.decode()
    assert all(f"    {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize(
    ("words", "said"), [((), "COMMAND"), (("toool",), "invalid choice: 'toool'"), (("tool",), "FILE.pipe, TOOL")]
)
def test_a_command_that_is_none_is_a_mistake_of_usage(words: tuple[str, ...], said: str) -> None:
    done = call(*words)
    assert (done.code, done.out) == (2, b"")
    assert said in done.err


@pytest.mark.parametrize("name", ["tool", "tools", "send"])
def test_a_command_loads_nothing_that_it_does_not_need(name: str) -> None:
    heavy = "anyio, attrs, cattrs, pygls, importlib.metadata, rrext.server, rrext.client.client, rrext.cli.serve"
    code = f"import sys, rrext.cli.{name}; print([m for m in '{heavy}'.split(', ') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_help_that_nobody_reads_ends_quietly() -> None:
    with spawned("--help", stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
