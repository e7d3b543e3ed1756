"""`Client.spawn` and `ChildProcess` on real processes: their environment, their end, and what is left of them."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from rrext.client.client import Client
from rrext.client.server_address import serve_command, server_env
from rrext.errors import InvalidPipeline, RrextError, ServerExited, UsageError
from rrext.transports.process import ChildProcess

pytestmark = pytest.mark.anyio

HERE = Path(__file__).resolve().parent
CHILD = [sys.executable, str(HERE / "scripted_child.py")]


def spawn(mode: str = "polite", **more: Any) -> Client:
    env = {"PYTHONPATH": str(HERE.parents[1]), **more.pop("env", {})}
    return Client.spawn(command=[*CHILD, mode], env=env, **more)


def is_running(pid: int) -> bool:
    """Whether a process of that number exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def gone(pid: int) -> None:
    with anyio.fail_after(10):
        while is_running(pid):
            await anyio.sleep(0.01)


async def test_a_spawned_server_answers_and_ends_with_the_block() -> None:
    async with spawn() as client:
        pid = await client.tool(tool="pid")
        assert is_running(pid)
    assert not is_running(pid)


@pytest.mark.promise("spawn:env-allow-list")
async def test_the_server_sees_an_allow_list_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    monkeypatch.setenv("ROCKETRIDE_NAME", "kept")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    async with spawn(env={"EXTRA": "given"}) as client:
        seen = await client.tool(tool="env")
    assert seen["ROCKETRIDE_NAME"] == "kept"
    assert seen["EXTRA"] == "given"
    assert seen["PATH"] == os.environ["PATH"]
    assert "SECRET_TOKEN" not in seen
    assert "s3cret" not in seen.values()
    allowed = {
        "HOME",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "PATH",
        "PYTHONPATH",
        "SHELL",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
        "VIRTUAL_ENV",
        "XDG_CONFIG_HOME",
    }
    assert {name for name in seen if not name.startswith(("LC_", "ROCKETRIDE_"))} - allowed == {"EXTRA"}


def test_the_allow_list_is_a_plain_function() -> None:
    base = {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "x", "LC_TIME": "C", "LCX": "no", "ROCKETRIDE_A": "1", "rocketride_b": "2"}
    assert server_env({"A": "b", "PATH": "/mine"}, base) == {"PATH": "/mine", "LC_TIME": "C", "ROCKETRIDE_A": "1", "A": "b"}


def test_the_command_line_is_that_of_rrext_serve() -> None:
    line = serve_command(
        ["a.pipe", Path("b.pipe"), "-c.pipe"],
        nodes=["n.py"],
        root="/data",
        env_names=["KEY"],
        threads=4,
        pipe_idle=1.5,
        max_frame=100,
        drain=2,
        args=["--log-level", "debug"],
    )
    assert line[:6] == [sys.executable, "-m", "rrext", "serve", "--parent", str(os.getpid())]
    assert " ".join(line[6:]) == (
        "--nodes n.py --env KEY --root /data --threads 4 --pipe-idle 1.5 --max-frame 100 --drain 2 "
        "--log-level debug a.pipe b.pipe ./-c.pipe"
    )
    assert serve_command(["x"], ["other", "server"]) == ["other", "server", "x"]


async def test_the_server_has_a_session_of_its_own() -> None:
    async with spawn() as client:
        assert await client.tool(tool="session") == await client.tool(tool="pid") != os.getsid(0)


@pytest.mark.promise("stdio:stderr:never-blocks")
async def test_a_mebibyte_of_stderr_blocks_nobody_and_its_tail_is_kept() -> None:
    heard = bytearray()
    async with spawn(on_stderr=heard.extend) as client:
        with anyio.fail_after(10):
            assert await client.tool(tool="noise") == 1
        with pytest.raises(ServerExited) as caught:
            await client.tool(tool="die")
    tail = caught.value.data["stderr"]
    assert len(tail) == 65536
    assert tail.endswith("noisethe end\nTraceback: it broke\n")
    assert len(heard) > 1_000_000


async def test_what_on_stderr_raises_does_not_stop_the_reading() -> None:
    def refuse(_: bytes) -> None:
        raise OSError("closed terminal")

    async with spawn(on_stderr=refuse) as client:
        assert await client.tool(tool="noise") == 1
        assert await client.tool(tool="noise") == 1


async def test_a_server_that_dies_fails_every_call_with_its_exit_code_and_stderr() -> None:
    errors: list[ServerExited] = []
    async with spawn() as client:

        async def call(tool: str) -> None:
            with pytest.raises(ServerExited) as caught:
                await client.tool(tool=tool)
            errors.append(caught.value)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "never answered")
            tasks.start_soon(call, "die")
        await call("pid")
    assert len(errors) == 3
    for error in errors:
        assert error.data["exit_code"] == 3
        assert "exited with code 3" in error.message
        assert error.message.endswith("Traceback: it broke")


async def test_a_signal_is_a_negative_exit_code() -> None:
    async with spawn() as client:
        with pytest.raises(ServerExited) as caught:
            await client.tool(tool="killed")
    assert caught.value.data["exit_code"] == -9


async def test_a_server_that_refuses_its_pipeline_says_why_at_the_start() -> None:
    with pytest.raises(ServerExited, match="unknown provider") as caught:
        async with spawn("broken"):
            raise AssertionError("it did not start")
    assert caught.value.data["exit_code"] == 2


@pytest.mark.parametrize("dialect", ["dap", "jsonrpc"])
async def test_a_pipeline_that_is_invalid_is_refused_with_its_problems(dialect: Any, tmp_path: Path) -> None:
    wrong, right, cut = (tmp_path / f"{name}.pipe" for name in ("wrong", "right", "cut"))
    wrong.write_text('{"components": [{"id": "a", "provider": "webhok", "config": {}}, {"id": "a"}]}')
    right.write_text('{"components": [{"id": "a", "provider": "tools", "config": {}}]}')
    cut.write_text("{")
    told: list[bytes] = []
    client = Client.spawn(right, wrong, cut, dialect=dialect, on_stderr=told.append)
    with pytest.raises(InvalidPipeline) as caught:
        async with client:
            raise AssertionError("it did not start")
    assert caught.value.message.startswith(f"{wrong}: /components/0/provider: ")
    problems = caught.value.data["problems"]
    assert {problem["file"] for problem in problems} == {str(wrong), str(cut)}
    assert (problems[0]["code"], problems[0]["near"]) == ("unknown_provider", ["webhook"])
    assert b"webhok" in b"".join(told), "people still read the problems on stderr"


async def test_a_file_that_is_missing_is_told_by_the_end_of_the_server(tmp_path: Path) -> None:
    with pytest.raises(ServerExited, match="No such file") as caught:
        async with Client.spawn(tmp_path / "missing.pipe"):
            raise AssertionError("it did not start")
    assert caught.value.data["exit_code"] == 2


@pytest.mark.promise("spawn:env-allow-list")
async def test_the_names_of_variables_that_settings_may_read_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP", "corner")
    monkeypatch.setenv("TILL", "secret")
    async with spawn(env_names=["SHOP", "NOBODY"], env={"GIVEN": "1"}) as client:
        seen = await client.tool(tool="env")
    assert seen["SHOP"] == "corner"
    assert not {"TILL", "NOBODY"} & seen.keys()


async def test_a_setting_reads_a_variable_of_the_caller_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREETING", "good day")
    pipe = tmp_path / "greet.pipe"
    chat = {"id": "chat_1", "provider": "chat", "config": {}}
    model = {"id": "llm_1", "provider": "llm_scripted", "config": {"default": "${GREETING}"}}
    links = [{"lane": "questions", "from": "chat_1"}], [{"lane": "answers", "from": "llm_1"}]
    reply = {"id": "out_1", "provider": "response_answers", "config": {}, "input": links[1]}
    pipe.write_text(json.dumps({"components": [chat, {**model, "input": links[0]}, reply]}))
    async with Client.spawn(pipe, env_names=["GREETING"]) as client:
        assert "good day" in str(await client.chat(question="?"))


async def test_a_program_that_does_not_exist_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="cannot be started"):
        async with Client.spawn(command=["/nowhere/rrext"]):
            raise AssertionError("it did not start")


async def test_a_program_that_is_no_server_says_what_it_wrote() -> None:
    with pytest.raises(ServerExited, match="cannot be read"):
        async with Client.spawn(command=[sys.executable, "-c", "print('{hello}' * 3000)"]):
            raise AssertionError("it did not start")


async def test_a_dead_server_is_noticed_though_a_grandchild_holds_its_stdout() -> None:
    async with spawn() as client:
        with anyio.fail_after(10), pytest.raises(ServerExited) as caught:
            await client.tool(tool="mute")
    assert caught.value.data["exit_code"] == 4


async def test_what_a_server_started_ends_with_it() -> None:
    async with spawn() as client:
        child = await client.tool(tool="child")
        assert is_running(child)
    await gone(child)


@pytest.mark.parametrize("mode", ["deaf", "stubborn"])
async def test_a_server_that_does_not_go_is_stopped_by_force(mode: str) -> None:
    with anyio.fail_after(20):
        async with spawn(mode) as client:
            pid = await client.tool(tool="pid")
            child = await client.tool(tool="child")
    assert not is_running(pid)
    await gone(child)  # its whole group went with it


async def test_a_cancelled_block_leaves_no_process() -> None:
    pids: list[int] = []
    with anyio.CancelScope() as scope:
        async with spawn("deaf") as client:
            pids.append(await client.tool(tool="pid"))
            scope.cancel()
            await client.tool(tool="never answered")
    assert scope.cancelled_caught
    assert not is_running(pids[0])


async def test_a_start_that_is_cancelled_leaves_no_process() -> None:
    code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
    path = anyio.Path(await anyio.mkdtemp()) / "pid"
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            async def cancel_when_it_runs() -> None:
                while not (await path.exists() and await path.read_text()):
                    await anyio.sleep(0.01)
                scope.cancel()

            tasks.start_soon(cancel_when_it_runs)
            async with Client.spawn(command=[sys.executable, "-c", code, str(path)]):
                raise AssertionError("it did not start")
    assert scope.cancelled_caught
    assert not is_running(int(await path.read_text()))


async def test_an_error_of_the_block_comes_out_as_itself_and_the_process_ends() -> None:
    pids: list[int] = []

    async def use() -> None:
        async with spawn() as client:
            pids.append(await client.tool(tool="pid"))
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await use()
    assert not is_running(pids[0])


async def test_a_process_that_is_forgotten_is_killed() -> None:
    process = ChildProcess([sys.executable, "-c", "import time; time.sleep(60)"])
    pid = process.pid
    for fd in (process._read_fd, process._write_fd, process._stderr_fd):
        os.close(fd)
    del process
    gc.collect()
    assert not is_running(pid)


def test_an_interpreter_that_ends_takes_its_server_along() -> None:
    code = (
        "from rrext.transports.process import ChildProcess; import sys\n"
        "p = ChildProcess([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(p.pid)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, timeout=20)
    assert not is_running(int(done.stdout))


def test_a_fork_of_the_owner_does_not_kill_the_child() -> None:
    process = ChildProcess([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        if (pid := os.fork()) == 0:
            process._finalizer()
            os._exit(0)
        os.waitpid(pid, 0)
        assert process.returncode is None
    finally:
        process.signal_group(signal.SIGKILL)
        process._popen.wait()
        process.close()


async def test_limits_of_the_process_are_set() -> None:
    async with spawn(rlimits={"NOFILE": 77}) as client:
        assert await client.tool(tool="limits") == [77, 77]
    with pytest.raises(UsageError, match='"NONSENSE" is no resource limit'):
        async with spawn(rlimits={"NONSENSE": 1}):
            raise AssertionError("it did not start")


async def test_a_result_of_fifteen_mebibytes_arrives() -> None:
    async with spawn() as client:
        assert len(await client.tool(tool="big")) == 15 * 1024 * 1024


async def test_a_write_of_a_server_that_reads_slowly_does_not_hold_up_the_loop() -> None:
    """A sleeping server does not read: a call is cancelled while the pipe is full, and the process still ends."""
    async with Client.spawn(command=[*CHILD, "polite"], env={"PYTHONPATH": str(HERE.parents[1])}) as client:
        pid = await client.tool(tool="pid")
        os.kill(pid, signal.SIGSTOP)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:

                async def stop() -> None:
                    await anyio.sleep(0.05)
                    scope.cancel()

                tasks.start_soon(stop)
                await client.tool(tool="x", input={"data": "x" * (4 * 1024 * 1024)})
        assert scope.cancelled_caught
        os.kill(pid, signal.SIGCONT)
        assert await client.tool(tool="pid") == pid


async def test_no_descriptor_is_left_open() -> None:
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(3):
        async with spawn() as client:
            await client.tool(tool="pid")
    gc.collect()
    assert len(set(os.listdir("/proc/self/fd")) - before) == 0


async def test_many_clients_live_side_by_side() -> None:
    pids: set[int] = set()

    async def use() -> None:
        async with spawn() as client:
            pids.add(await client.tool(tool="pid"))

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(use)
    assert len(pids) == 4
    assert not any(is_running(pid) for pid in pids)


def test_errors_are_never_groups() -> None:
    assert not issubclass(RrextError, BaseExceptionGroup)
