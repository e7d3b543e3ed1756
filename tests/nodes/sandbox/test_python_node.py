"""`tool_python` as a node: what it takes, what it answers, and that it is unavailable rather than unsafe."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rrext.errors import Cancelled, InvalidArguments, ToolTimeout, Unavailable
from rrext.limits import DEFAULTS
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.child import landlock
from rrext.nodes.sandbox import node as python_node
from rrext.nodes.sandbox.grant import MIB, SandboxLimits
from rrext.nodes.sandbox.node import PythonNode, SandlockSandbox, limits_of, missing_piece
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
    return SimpleNamespace(**{"timeout": 20.0, "memory": 512, "totalMemory": 2048, "allowedModules": [], **given})


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

    assert asyncio.run(enter()) == "<SandlockSandbox idle>"


# Where programs cannot be isolated


@pytest.fixture
def capable(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine that has everything, as far as one can tell without trying."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="x86_64", release="6.12.1-test"))
    monkeypatch.setattr(python_node, "_package_folder", lambda: "/nowhere")
    monkeypatch.setattr(landlock, "abi", lambda: 7)
    assert missing_piece() is None
    return monkeypatch


def test_another_system_is_unavailable(capable: pytest.MonkeyPatch) -> None:
    capable.setattr(sys, "platform", "darwin")
    assert "needs Linux 6.12" in str(PythonNode.unavailable())


def test_another_processor_is_unavailable(capable: pytest.MonkeyPatch) -> None:
    capable.setattr(os, "uname", lambda: SimpleNamespace(machine="aarch64", release="6.12"))
    assert "x86-64 alone, and this machine is aarch64" in str(PythonNode.unavailable())


def test_without_the_package_the_install_line_is_named(capable: pytest.MonkeyPatch) -> None:
    capable.setattr(python_node, "_package_folder", lambda: None)
    assert str(PythonNode.unavailable()).endswith('pip install "rrext[python]"')


@pytest.mark.parametrize(("offered", "words"), [(0, "has no Landlock"), (5, "has only Landlock ABI 5")])
def test_an_old_kernel_is_named(capable: pytest.MonkeyPatch, offered: int, words: str) -> None:
    capable.setattr(landlock, "abi", lambda: offered)
    text = str(PythonNode.unavailable())
    assert words in text
    assert "6.12.1-test" in text


def test_where_something_is_missing_no_program_runs_and_no_process_starts(capable: pytest.MonkeyPatch) -> None:
    capable.setattr(python_node, "_package_folder", lambda: None)
    sandbox = SandlockSandbox()
    for _ in range(2):
        with pytest.raises(Unavailable, match=r'pip install "rrext\[python\]"'):
            sandbox.run("result = 1", SandboxLimits())
    assert repr(sandbox) == "<SandlockSandbox idle>"
    sandbox.close()


def test_a_warden_that_cannot_start_makes_the_tool_unavailable(capable: pytest.MonkeyPatch) -> None:
    capable.setattr(python_node, "_BOOT", "raise SystemExit")
    sandbox = SandlockSandbox()
    with pytest.raises(Unavailable, match="cannot isolate programs: the warden did not start"):
        sandbox.run("result = 1", SandboxLimits())
    assert repr(sandbox) == "<SandlockSandbox idle>"
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

    capable.setattr(SandlockSandbox, "_call", answer)
    sandbox = SandlockSandbox()
    for _ in range(2):
        with pytest.raises(Unavailable, match="does not isolate programs"):
            sandbox.run("result = 1", SandboxLimits())
    assert len(programs) == 1
    assert "result = 1" not in programs
