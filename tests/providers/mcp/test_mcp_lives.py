"""The life of a connection to an external MCP server: start, crash, restart, end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from mcp_connections import HERE, PATIENCE, Connect, hand_written, is_gone

from rrext.errors import ToolError, Unavailable
from rrext.providers.mcp.provider import McpProvider
from rrext.tools.context import ToolContext

ByHand = Callable[..., McpProvider]
COUNTED = """
    with open({file!r}, "a") as starts:
        starts.write(f"{{os.getpid()}}\\n")
"""
ANSWERING = "serve(lambda request: answer(request, {'content': [{'type': 'text', 'text': str(os.getpid())}]}))"


def starts(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()] if file.exists() else []


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "starts"


def counted(file: Path, code: str) -> str:
    return COUNTED.format(file=str(file)).replace("\n    ", "\n") + code


async def test_the_server_starts_at_the_first_use_and_once_for_many_calls(by_hand: ByHand, file: Path) -> None:
    provider = by_hand(counted(file, ANSWERING))
    assert starts(file) == []
    answers = await asyncio.gather(*(provider.call("act", {}, ToolContext()) for _ in range(50)))
    assert starts(file) == [int(answers[0])]
    assert set(answers) == {answers[0]}


async def test_a_cancelled_first_caller_does_not_take_the_connection_from_the_others(by_hand: ByHand, file: Path) -> None:
    provider = by_hand(counted(file, ANSWERING))
    first = asyncio.create_task(provider.call("act", {}, ToolContext()))
    second = asyncio.create_task(provider.call("act", {}, ToolContext()))
    await until(lambda: starts(file))
    first.cancel()
    assert int(await second) == starts(file)[0]


@pytest.mark.promise("mcp-server:call:once")
async def test_a_server_that_dies_in_a_call_fails_it_with_its_exit_code_and_last_words(by_hand: ByHand) -> None:
    code = """
        def die(request):
            sys.stderr.write("x" * 10_000 + os.environ["SECRET"] + "\\nabout to die of " + os.environ["SECRET"])
            os._exit(3)
        serve(die)
    """
    provider = by_hand(code, env={"SECRET": "env:OURS"}, variables={"OURS": "correct horse"})
    with pytest.raises(ToolError, match="exit code 3") as caught:
        await provider.call("act", {}, ToolContext())
    assert caught.value.data["exitCode"] == 3
    assert "about to die of ${outside.env.SECRET}" in caught.value.data["stderr"]
    assert "horse" not in caught.value.message + str(caught.value.data)
    assert "may have run" in (caught.value.hint or "")


@pytest.mark.promise("mcp-server:call:once")
async def test_a_server_that_dies_is_noticed_though_a_child_of_it_holds_its_pipes(by_hand: ByHand, file: Path) -> None:
    provider = by_hand(
        f"""
        import subprocess
        def handle(request):
            if os.path.exists({str(file)!r}):
                answer(request, {{"content": []}})
            else:
                child = subprocess.Popen(["sleep", "1000"])
                open({str(file)!r}, "w").write(str(child.pid))
                os._exit(3)
        serve(handle)
        """
    )
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(ToolError, match="ended with exit code 3"):
            await provider.call("act", {}, ToolContext())
        assert await provider.call("act", {}, ToolContext()) == {"content": []}
    await until(lambda: is_gone(int(file.read_text())))


async def test_no_call_is_sent_twice(by_hand: ByHand, file: Path) -> None:
    code = f"def act(request):\n    open({str(file)!r}, 'a').write('1\\n')\n    os._exit(1)\nserve(act)"
    provider = by_hand(code)
    for _ in range(2):
        with pytest.raises(ToolError, match="was lost during this call"):
            await provider.call("act", {}, ToolContext())
    assert starts(file) == [1, 1]


@pytest.mark.promise("mcp-server:call:once")
async def test_after_an_idle_crash_the_next_call_starts_the_server_again(by_hand: ByHand, file: Path) -> None:
    provider = by_hand(counted(file, ANSWERING))
    first = int(await provider.call("act", {}, ToolContext()))
    os.kill(first, signal.SIGKILL)
    second = first
    async with asyncio.timeout(PATIENCE):
        while second == first:
            with suppress(ToolError):  # a call that was sent before the loop heard of the end
                second = int(await provider.call("act", {}, ToolContext()))
    assert starts(file) == [first, second]


async def test_a_server_that_cannot_start_is_not_started_for_every_call(by_hand: ByHand, file: Path) -> None:
    provider = by_hand(counted(file, "print('no database', file=sys.stderr)\nsys.exit(4)"))
    calls = [asyncio.create_task(provider.call("act", {}, ToolContext())) for _ in range(100)]
    for call in calls:
        with pytest.raises(Unavailable, match="exit code 4") as caught:
            await call
        assert caught.value.data["stderr"] == "no database"
    for _ in range(3):
        with pytest.raises(Unavailable):
            await provider.tools()
    assert len(starts(file)) == 4


async def test_a_call_waits_for_a_connection_at_most_until_it_is_cancelled(by_hand: ByHand) -> None:
    provider = by_hand("time.sleep(1000)")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await provider.call("act", {}, ToolContext())


async def test_a_mute_server_is_given_up_after_the_timeout_of_its_connection(by_hand: ByHand) -> None:
    provider = by_hand("print('I am waiting', file=sys.stderr, flush=True)\ntime.sleep(1000)", timeout=6.0)
    with pytest.raises(Unavailable, match="did not answer in time") as caught:
        await provider.tools()
    assert caught.value.data["stderr"] == "I am waiting"


async def test_a_server_that_answers_no_unknown_method_still_shakes_hands(by_hand: ByHand) -> None:
    provider = by_hand(
        "read()\n" + ANSWERING,
        timeout=8.0,
    )
    assert [tool.name for tool in await provider.tools()] == ["act"]


async def test_an_error_with_the_number_that_the_sdk_gives_to_lost_connections_is_no_loss(by_hand: ByHand) -> None:
    provider = by_hand('refuse(read(), "no such method")\nserve(lambda request: refuse(request, "sold out"))')
    for _ in range(2):
        with pytest.raises(ToolError, match="sold out") as caught:
            await provider.call("act", {}, ToolContext())
        assert caught.value.data["mcpCode"] == -32000
        assert "lost" not in caught.value.message


async def test_a_server_that_refuses_the_handshake_is_quoted_with_the_end_of_its_stderr(by_hand: ByHand) -> None:
    code = """
        print("no licence found", file=sys.stderr, flush=True)
        while True:
            refuse(read(), "not for you")
    """
    with pytest.raises(Unavailable, match="(?s)is not available: not for you. The end of its stderr:\nno licence found"):
        await by_hand(code).call("act", {}, ToolContext())


async def test_a_command_that_is_not_there_says_what_to_do(connect: Connect) -> None:
    provider = connect(command=["no-such-program"])
    with pytest.raises(Unavailable, match="no-such-program cannot be started: No such file") as caught:
        await provider.tools()
    assert "installed" in (caught.value.hint or "")


async def test_a_server_that_is_none_of_mcp_says_what_it_said(connect: Connect) -> None:
    provider = connect(command=["sh", "-c", "echo usage: wrong >&2; exit 2"])
    with pytest.raises(Unavailable, match=r"exit code 2. The end of its stderr:\nusage: wrong"):
        await provider.tools()


@pytest.mark.promise("mcp-server:no-orphan")
async def test_a_server_that_ignores_the_end_of_stdin_and_sigterm_is_killed_with_its_children(
    by_hand: ByHand, file: Path
) -> None:
    stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    child = "if os.fork() == 0:\n    time.sleep(1000)\n"
    deaf = "import atexit\natexit.register(time.sleep, 1000)\n"
    provider = by_hand(stubborn + child + counted(file, deaf + ANSWERING))
    pid = int(await provider.call("act", {}, ToolContext()))
    async with asyncio.timeout(PATIENCE):
        await provider.aclose()
    assert is_gone(pid)
    await until(lambda: not group_members(pid))
    with pytest.raises(Unavailable, match="is closed"):
        await provider.call("act", {}, ToolContext())


def group_members(group: int) -> list[str]:
    found = subprocess.run(["ps", "-eo", "pgid=,stat=,pid="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in found.splitlines()]
    return [pid for pgid, state, pid in rows if pgid == str(group) and state[0] != "Z"]


async def test_closing_fails_the_calls_that_run_and_starts_nothing_again(by_hand: ByHand, file: Path) -> None:
    provider = by_hand(counted(file, "serve(lambda request: None)"))
    call = asyncio.create_task(provider.call("act", {}, ToolContext()))
    await until(lambda: starts(file))
    await provider.tools()
    await provider.aclose()
    with pytest.raises((ToolError, Unavailable), match="closed"):
        await call
    assert len(starts(file)) == 1


async def test_closing_ends_an_attempt_to_connect(by_hand: ByHand, file: Path) -> None:
    provider = by_hand(counted(file, "time.sleep(1000)"))
    call = asyncio.create_task(provider.tools())
    await until(lambda: starts(file))
    await provider.aclose()
    with pytest.raises(Unavailable, match="closed"):
        await call
    assert is_gone(starts(file)[0])


async def test_calls_fail_at_once_while_the_next_attempt_is_far_off(
    by_hand: ByHand, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rrext.providers.mcp.provider.FIRST_PAUSE", 1000.0)
    provider = by_hand(counted(file, "sys.exit(3)"))
    for _ in range(10):
        with pytest.raises(Unavailable, match="exit code 3"):
            await provider.tools()
    assert len(starts(file)) == 1


@pytest.mark.promise("mcp-server:no-orphan")
async def test_a_server_gets_no_variable_of_ours_and_those_of_its_connection(
    by_hand: ByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_PASSWORD", "hunter2hunter2")
    code = "serve(lambda request: answer(request, {'structuredContent': dict(os.environ)}))"
    provider = by_hand(code, env={"TOKEN": "env:GIVEN", "PLAIN": "yes"}, variables={"GIVEN": "swordfish"})
    environment = await provider.call("act", {}, ToolContext())
    assert environment["TOKEN"] == "swordfish"
    assert environment["PLAIN"] == "yes"
    assert environment["PATH"] == os.environ["PATH"]
    assert not {"OUR_PASSWORD", "PYTHONPATH", "GIVEN", "PYTEST_CURRENT_TEST"} & set(environment)


async def test_what_a_server_says_goes_to_the_log_without_secrets_and_not_without_end(
    by_hand: ByHand, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rrext.providers")
    long = "sys.stderr.write('y' * 1999 + os.environ['TOKEN'] + 'z' * 100000 + os.environ['TOKEN'] + '\\n')\n"
    said = long + "for i in range(1000):\n    print('noise', i, os.environ['TOKEN'], file=sys.stderr)\n"
    provider = by_hand(said + "print('a banner', flush=True)\n" + ANSWERING, env={"TOKEN": "swordfish"})
    await provider.call("act", {}, ToolContext())
    await provider.aclose()
    lines = [record.getMessage() for record in caplog.records]
    assert "connection outside, stderr: noise 0 ${outside.env.TOKEN}" in lines
    assert 50 < len(lines) < 150
    assert not any("sword" in line or len(line) > 2100 for line in lines)


@pytest.mark.promise("mcp-server:no-orphan")
async def test_no_server_outlives_us_when_we_are_killed(tmp_path: Path) -> None:
    deaf = "import atexit\natexit.register(time.sleep, 1000)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    command = hand_written(deaf + ANSWERING, tmp_path)
    owner = tmp_path / "owner.py"
    owner.write_text(
        "import asyncio, json, sys, time\n"
        f"sys.path[:0] = {[str(HERE), str(HERE.parents[1])]!r}\n"
        "from mcp_connections import Connect\nfrom rrext.tools.context import ToolContext\n"
        "async def main():\n"
        f"    provider = Connect()(command={command!r})\n"
        "    print(await provider.call('act', {}, ToolContext()), flush=True)\n"
        "    time.sleep(1000)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, str(owner), stdout=subprocess.PIPE)
    assert process.stdout is not None
    pid = int(await process.stdout.readline())
    process.kill()
    await process.wait()
    await until(lambda: is_gone(pid))


async def test_the_server_has_its_own_stdin(by_hand: ByHand) -> None:
    code = "serve(lambda request: answer(request, {'structuredContent': {'at': os.readlink('/proc/self/fd/0')}}))"
    found = await by_hand(code).call("act", {}, ToolContext())
    assert found["at"].startswith("pipe:")
    assert found["at"] != os.readlink("/proc/self/fd/0")
