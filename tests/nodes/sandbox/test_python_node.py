"""`tool_python` as a node: what it takes, what it answers, and that it is unavailable rather than unsafe."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rrext.errors import Cancelled, InvalidArguments, ToolTimeout, Unavailable
from rrext.limits import DEFAULTS
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.child import landlock
from rrext.nodes.sandbox import engine as engines
from rrext.nodes.sandbox import node as python_node
from rrext.nodes.sandbox.engine import BUBBLEWRAP, ENGINES, LANDLOCK, lack_of, missing_piece, wanted
from rrext.nodes.sandbox.grant import MIB, SandboxLimits
from rrext.nodes.sandbox.node import PythonNode, Sandbox, limits_of
from rrext.nodes.sandbox.outcome import PythonRun
from rrext.threads import Workers
from rrext.tools.context import CancelToken, ToolContext
from rrext.tools.results import LARGE_TEXT


class FakeSandbox:
    """Answers what it is told to, and keeps what it was asked."""

    def __init__(self, run: PythonRun) -> None:
        self.answer = run
        self.asked: list[tuple[str, SandboxLimits]] = []

    def run(
        self, code: str, limits: SandboxLimits, on_cancel: Callable[[Callable[[], object]], None] | None = None
    ) -> PythonRun:
        self.asked.append((code, limits))
        return self.answer

    def close(self) -> None: ...


def settings(**given: Any) -> Any:
    return SimpleNamespace(
        **{"timeout": 20.0, "memory": 512, "totalMemory": 2048, "allowedModules": [], "engine": "auto", **given}
    )


def node(run: PythonRun | None = None, **given: Any) -> tuple[PythonNode, FakeSandbox]:
    made = PythonNode()
    sandbox = FakeSandbox(run or PythonRun(stdout="o", stderr="e", exit_code=0, timed_out=False))
    made.config, made.shared = settings(**given), sandbox
    return made, sandbox


def test_the_answer_has_the_documented_shape() -> None:
    made, _ = node()
    assert made.execute("1", ctx=ToolContext()) == {"stdout": "o", "stderr": "e", "exit_code": 0, "timed_out": False}


def test_a_result_is_there_only_if_the_program_left_one() -> None:
    made, _ = node(PythonRun(stdout="", stderr="", exit_code=0, timed_out=False, result_text=b"0"))
    assert made.execute("1", ctx=ToolContext())["result"] == 0
    large = b"[%b1]" % (b"1," * LARGE_TEXT)
    made, _ = node(PythonRun(stdout="", stderr="", exit_code=0, timed_out=False, result_text=large))
    assert made.execute("1", ctx=ToolContext())["result"].text is large, "its value would take thirty times the memory"


def test_a_failing_program_is_a_successful_call() -> None:
    made, _ = node(PythonRun(stdout="", stderr="boom", exit_code=1, timed_out=False))
    assert made.execute("1 / 0", ctx=ToolContext())["exit_code"] == 1


@pytest.mark.parametrize("code", ["", " ", "\n\t\n"])
def test_an_empty_program_is_an_invalid_argument(code: str) -> None:
    made, sandbox = node()
    with pytest.raises(InvalidArguments) as caught:
        made.execute(code, ctx=ToolContext())
    assert caught.value.data["errors"][0]["path"] == "/input/code"
    assert sandbox.asked == []


@pytest.mark.parametrize(
    "value", [{}, {"code": 5}, {"code": None}, {"code": ["x"]}, {"code": ""}, {"code": "1", "timeout": 1}, []]
)
def test_input_that_is_no_program_is_refused_before_the_call(value: Any) -> None:
    with pytest.raises(InvalidArguments):
        PythonNode.tools["execute"].structure(None, value, DEFAULTS)


def test_the_published_answer_admits_what_is_answered() -> None:
    spec = PythonNode.tools["execute"]
    made, _ = node(PythonRun(stdout="", stderr="", exit_code=-1, timed_out=True, result_text=b'{"a":[null]}'))
    assert b'"timed_out":true' in spec.encode(made, made.execute("1", ctx=ToolContext()), DEFAULTS)
    assert set(spec.describe(made)["inputSchema"]["properties"]) == {"code"}


@pytest.mark.parametrize(
    ("given", "timeout", "memory"),
    [
        ({}, 20, 512),
        ({"timeout": 5}, 5, 512),
        ({"timeout": 0.01}, 1, 512),
        ({"timeout": -3}, 1, 512),
        ({"timeout": 1e9}, 1200, 512),
        ({"memory": 1}, 20, 64),
        ({"memory": 10**9}, 20, 65536),
        ({"allowedModules": [{"moduleName": "numpy"}]}, 20, 512),
    ],
)
def test_settings_become_bounds_within_reason(given: dict[str, Any], timeout: float, memory: int) -> None:
    made, sandbox = node(**given)
    made.execute("1", ctx=ToolContext())
    assert sandbox.asked == [("1", limits_of(settings(timeout=timeout, memory=memory)))]
    assert (sandbox.asked[0][1].timeout, sandbox.asked[0][1].memory) == (timeout, memory * MIB)


@pytest.mark.parametrize(
    ("given", "total"), [({}, 2048), ({"totalMemory": 700}, 700), ({"totalMemory": 1}, 512), ({"totalMemory": 10**9}, 65536)]
)
def test_the_total_of_memory_has_room_for_one_program(given: dict[str, Any], total: int) -> None:
    assert limits_of(settings(**given)).total_memory == total * MIB


def test_a_cancelled_call_says_why() -> None:
    class Cancelling(FakeSandbox):
        def run(self, code: str, limits: SandboxLimits, on_cancel: Any = None) -> PythonRun:
            token.cancel("timeout")
            raise Cancelled()

    token = CancelToken()
    made, _ = node()
    made.shared = Cancelling(PythonRun(stdout="", stderr="", exit_code=0, timed_out=False))
    with pytest.raises(ToolTimeout):
        made.execute("1", ctx=ToolContext(token=token))


def test_a_call_that_nobody_wants_any_more_is_not_made() -> None:
    token = CancelToken()
    token.cancel()
    made, sandbox = node()
    with pytest.raises(Cancelled):
        made.execute("1", ctx=ToolContext(token=token))
    assert sandbox.asked == []


def test_setting_up_starts_nothing() -> None:
    async def enter() -> str:
        async with PythonNode.setup(settings(), SetupContext(Workers())) as shared:
            return repr(shared)

    assert asyncio.run(enter()) == "<Sandbox idle>"


# Where programs cannot be isolated


@pytest.fixture
def capable(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine that has everything for Landlock, as far as one can tell without trying, and no bubblewrap."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="x86_64", release="6.12.1-test"))
    monkeypatch.setattr(engines, "sandlock_folder", lambda: "/nowhere")
    monkeypatch.setattr(engines, "bubblewrap", lambda: None)
    monkeypatch.setattr(landlock, "abi", lambda: 7)
    assert missing_piece() is None
    return monkeypatch


def bwrap(folder: Path, script: str) -> str:
    """A program in the place of `bwrap`."""
    path = folder / "bwrap"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("choice", ["auto", "landlock", "bubblewrap"])
def test_another_system_is_unavailable(capable: pytest.MonkeyPatch, choice: Any) -> None:
    capable.setattr(sys, "platform", "darwin")
    capable.setattr(landlock, "abi", lambda: pytest.fail("another system was asked for its Landlock"))
    assert [engine.name for engine in wanted()] == ["landlock", "bubblewrap"]
    assert "on Linux alone" in str(missing_piece(choice))


@pytest.mark.parametrize("choice", ["auto", "landlock", "bubblewrap"])
def test_another_processor_is_unavailable(capable: pytest.MonkeyPatch, choice: Any) -> None:
    capable.setattr(os, "uname", lambda: SimpleNamespace(machine="aarch64", release="6.12"))
    assert "x86-64 alone, and this machine is aarch64" in str(missing_piece(choice))


def test_without_the_package_the_install_lines_of_both_engines_are_named(capable: pytest.MonkeyPatch) -> None:
    capable.setattr(engines, "sandlock_folder", lambda: None)
    assert str(PythonNode.unavailable()) == (
        'tool_python needs one of two engines. landlock: it needs the package "sandlock": pip install "rrext[python]"; '
        "bubblewrap: it needs the program bwrap: apt install bubblewrap, or dnf install bubblewrap"
    )


def test_a_kernel_without_landlock_is_named(capable: pytest.MonkeyPatch) -> None:
    capable.setattr(landlock, "abi", lambda: 0)
    assert "since 5.13, and this kernel, 6.12.1-test, has none" in str(PythonNode.unavailable())


@pytest.mark.parametrize(
    ("offered", "words"),
    [(5, "alone: signals and abstract sockets"), (2, "alone: truncating files, TCP, commands to devices (ioctl), signals and")],
)
def test_an_older_landlock_is_enough_and_comes_after_bubblewrap(capable: pytest.MonkeyPatch, offered: int, words: str) -> None:
    assert ([engine.name for engine in wanted()], LANDLOCK.weaker()) == (["landlock", "bubblewrap"], None)
    capable.setattr(landlock, "abi", lambda: offered)
    assert PythonNode.unavailable() is None
    assert [engine.name for engine in wanted()] == ["bubblewrap", "landlock"]
    assert f"Landlock ABI {offered} of this kernel leaves to the filter of system calls" in str(LANDLOCK.weaker())
    assert words in str(LANDLOCK.weaker())


def test_a_kernel_that_does_not_count_filters_is_unavailable(capable: pytest.MonkeyPatch) -> None:
    capable.setattr(engines, "_tells_of_filters", lambda: False)
    assert "on Linux 5.9 or newer alone, and this kernel is 6.12.1-test" in str(missing_piece())


def test_where_landlock_is_missing_bubblewrap_is_enough_but_not_for_who_demands_the_other(
    capable: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    capable.setattr(landlock, "abi", lambda: 0)
    capable.setattr(engines, "bubblewrap", lambda: bwrap(tmp_path, "exit 0"))
    assert PythonNode.unavailable() is None
    assert list(PythonNode.unmet(settings(engine="bubblewrap"))) == []
    [(setting, message)] = PythonNode.unmet(settings(engine="landlock"))
    assert setting == "engine"
    assert message.startswith("the engine landlock of tool_python is not available: it needs Landlock")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo more >&2; echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1", "uid map: Permission denied)"),
        ("exit 3", "namespaces (exit code 3)"),
        ("kill -9 $$", "namespaces (exit code -9)"),
    ],
)
def test_refused_namespaces_are_told_with_what_bubblewrap_says(
    capable: pytest.MonkeyPatch, tmp_path: Path, script: str, words: str
) -> None:
    capable.setattr(engines, "bubblewrap", lambda: bwrap(tmp_path, script))
    told = str(lack_of(BUBBLEWRAP))
    assert words in told
    assert told.endswith("allow user namespaces; in a container, with its runtime's seccomp and AppArmor settings")


def test_a_bwrap_that_is_no_program_or_hangs_is_told(capable: pytest.MonkeyPatch, tmp_path: Path) -> None:
    capable.setattr(engines, "bubblewrap", lambda: str(tmp_path))
    assert "does not start" in str(lack_of(BUBBLEWRAP))
    capable.setattr(engines, "TRIAL", 0.05)
    capable.setattr(engines, "bubblewrap", lambda: bwrap(tmp_path, "exec sleep 60"))
    assert "timed out" in str(lack_of(BUBBLEWRAP))


@pytest.mark.parametrize("number", range(len(engines._REFUSALS)))
def test_the_setting_that_switches_namespaces_off_is_found(capable: pytest.MonkeyPatch, tmp_path: Path, number: int) -> None:
    rows = [(str(tmp_path / str(place)), *row[1:]) for place, row in enumerate(engines._REFUSALS)]
    path, refusing, advice = rows[number]
    Path(path).write_text(f"{refusing}\n")
    capable.setattr(engines, "_REFUSALS", rows)
    capable.setattr(engines, "bubblewrap", lambda: bwrap(tmp_path, "exit 1"))
    assert str(lack_of(BUBBLEWRAP)).endswith(advice)


def test_nothing_of_the_servers_environment_reaches_the_trial(capable: pytest.MonkeyPatch, tmp_path: Path) -> None:
    capable.setenv("ROCKETRIDE_SECRET", "s")
    capable.setattr(engines, "bubblewrap", lambda: bwrap(tmp_path, "echo ${ROCKETRIDE_SECRET:-nothing} >&2; exit 1"))
    assert "(nothing)" in str(lack_of(BUBBLEWRAP))


def test_where_something_is_missing_no_program_runs_and_no_process_starts(capable: pytest.MonkeyPatch) -> None:
    capable.setattr(engines, "sandlock_folder", lambda: None)
    sandbox = Sandbox()
    for _ in range(2):
        with pytest.raises(Unavailable, match=r'pip install "rrext\[python\]"'):
            sandbox.run("result = 1", SandboxLimits())
    assert (repr(sandbox), sandbox.engine) == ("<Sandbox idle>", None)
    sandbox.close()


def test_an_engine_that_is_gone_when_the_warden_starts_is_told() -> None:
    gone = LANDLOCK._replace(lack=lambda: None, piece=lambda: None)
    with pytest.raises(Unavailable, match="the engine landlock of tool_python is not available: it is gone"):
        python_node.WardenProcess(gone)


def test_a_warden_that_cannot_start_makes_the_tool_unavailable(capable: pytest.MonkeyPatch) -> None:
    capable.setattr(python_node, "_BOOT", "raise SystemExit")
    capable.setattr(python_node, "wanted", lambda choice: (LANDLOCK._replace(piece=lambda: "/nowhere"),))
    sandbox = Sandbox()
    with pytest.raises(Unavailable, match="cannot isolate programs: the warden did not start"):
        sandbox.run("result = 1", SandboxLimits())
    assert repr(sandbox) == "<Sandbox idle>"
    sandbox.close()


@pytest.mark.parametrize(
    "run",
    [
        PythonRun(stdout="", stderr="", exit_code=0, timed_out=False, result_text=b'["read a file"]'),
        PythonRun(stdout="", stderr="Segmentation fault", exit_code=139, timed_out=False),
        PythonRun(stdout="", stderr="", exit_code=-1, timed_out=True),
    ],
)
def test_walls_that_do_not_hold_make_the_tool_unavailable(capable: pytest.MonkeyPatch, run: PythonRun) -> None:
    programs: list[str] = []

    def answer(self: Any, code: str, *rest: Any, **options: Any) -> PythonRun:
        programs.append(code)
        return run

    capable.setattr(Sandbox, "_call", answer)
    sandbox = Sandbox()
    for _ in range(2):
        with pytest.raises(Unavailable, match="does not isolate programs"):
            sandbox.run("result = 1", SandboxLimits())
    assert len(programs) == 1
    assert "result = 1" not in programs


def test_an_engine_whose_walls_do_not_hold_is_passed_over(capable: pytest.MonkeyPatch, tmp_path: Path) -> None:
    capable.setattr(engines, "bubblewrap", lambda: bwrap(tmp_path, "exit 0"))
    tried: list[str] = []

    def answer(self: Sandbox, code: str, *rest: Any, **options: Any) -> PythonRun:
        tried.append(code)
        gaps = b'["read a file"]' if len(tried) == 1 else b"[]"
        return PythonRun(stdout="", stderr="", exit_code=0, timed_out=False, result_text=gaps)

    capable.setattr(Sandbox, "_call", answer)
    sandbox = Sandbox()
    sandbox.run("result = 1", SandboxLimits())
    assert (sandbox.engine, tried[2:]) == (ENGINES[1], ["result = 1"])
    sandbox.close()
