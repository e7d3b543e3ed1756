"""A process of a task that dies takes down one task, and nobody waits for it."""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress

import anyio
import pytest
from task_server import (
    TaskServer,
    begun,
    descendants,
    ended,
    failure,
    gone,
    lives,
    others,
    pipeline,
    stopped,
    task_server,
    workers,
)

from rrext.errors import RrextError

pytestmark = [pytest.mark.usefixtures("place")]

DEATHS = {"exit": (7, "exit code was 7"), "abort": (-signal.SIGABRT, "SIGABRT"), "segfault": (-signal.SIGSEGV, "SIGSEGV")}


@pytest.mark.promise("tasks:death-told")
@pytest.mark.parametrize("how", DEATHS)
async def test_every_pending_call_of_a_process_that_dies_fails_with_its_exit_and_last_words(
    server: TaskServer, how: str
) -> None:
    code, told = DEATHS[how]
    async with server.task() as (face, token), server.line() as line:
        pending = await begun(line, "nap", token)
        error = await face.tool_failure("die", {"how": how, "say": "my last words"}, token=token)
        assert error.code == "task_lost"
        assert told in error.message
        assert error.data["exitCode"] == code
        assert "my last words" in error.data["stderr"]
        assert error.data.get("signal") == (signal.Signals(-code).name if code < 0 else None)
        answer = await line.answer(pending)
        assert answer.error is not None
        assert (answer.error.code, answer.error.data) == ("task_lost", error.data)
        status = await ended(face, token)
        assert (status["state"], status["exitCode"]) == (5, code)
        assert told in status["exitMessage"]
        assert (await face.tool_failure("pid", token=token)).code == "TASK_NOT_REGISTERED"
        assert await face.tool("add", {"a": 1, "b": 2}, token="face") == {"sum": 3}


@pytest.mark.promise("tasks:death-told")
async def test_a_pipeline_whose_process_died_can_be_executed_again(server: TaskServer) -> None:
    async with server.connect() as face:
        given = {"pipeline": pipeline(), "token": "again"}
        await face.request("execute", given)
        before = await face.tool("pid", token="again")
        await face.tool_failure("die", {"how": "exit"}, token="again")
        await face.request("execute", given)
        assert await face.tool("pid", token="again") != before


@pytest.mark.promise("tasks:isolated")
async def test_a_pipeline_of_the_operator_comes_back_after_each_loss_of_its_process(server: TaskServer) -> None:
    async with server.connect() as face:
        for _ in range(3):  # at once, then after a second, then after two
            pids = workers(server.pid)
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await gone(*pids)
            result = None
            with anyio.fail_after(30):
                while result is None:
                    with suppress(RrextError):
                        result = await face.tool("add", {"a": 1, "b": 2}, token="face")
            assert result == {"sum": 3}


@pytest.mark.promise("tasks:isolated")
async def test_a_pipeline_of_the_operator_that_a_client_restarted_comes_back_too(server: TaskServer) -> None:
    async with server.connect() as face:
        await face.request("restart", {"token": "face", "pipeline": pipeline()})
        before = after = await face.tool("pid", token="face")
        os.kill(before, signal.SIGKILL)
        with anyio.fail_after(30):
            while after == before:
                with suppress(RrextError):
                    after = await face.tool("pid", token="face")


@pytest.mark.promise("tasks:isolated")
async def test_a_pipeline_of_the_operator_that_a_client_terminated_does_not_come_back(server: TaskServer) -> None:
    async with server.connect() as face:
        await face.request("terminate", {"token": "face"})
        assert (await face.request("rrext_get_tasks", {}))["tasks"] == []
        await face.request("execute", {"pipeline": pipeline(), "token": "face"})
        assert (await face.tool_failure("die", {"how": "exit"}, token="face")).code == "task_lost"
        assert (await ended(face, "face"))["exitCode"] == 7


@pytest.mark.promise("tasks:death-told")
async def test_a_trace_of_the_crash_is_among_the_last_words(server: TaskServer) -> None:
    async with server.task() as (face, token):
        error = await face.tool_failure("die", {"how": "segfault"}, token=token)
        assert "Fatal Python error: Segmentation fault" in error.data["stderr"]
        assert "dying_nodes.py" in error.data["stderr"]


@pytest.mark.promise("tasks:death-told")
async def test_the_trace_of_a_crash_among_many_threads_keeps_its_head_and_the_thread_that_crashed(server: TaskServer) -> None:
    async with server.task() as (face, token):
        error = await face.tool_failure("crowd", {"threads": 30}, token=token)
        stderr = error.data["stderr"]
        assert stderr.startswith("Fatal Python error: Segmentation fault\n")
        assert ", line " in stderr.splitlines()[2]
        assert "dying_nodes.py" in stderr
        assert " in crash\n" in stderr
        assert "Extension modules: " in stderr
        assert len(stderr) <= 8192
        assert re.search(
            'last words: Fatal Python error: Segmentation fault, File ".*ctypes.*", line .* in string_at', error.message
        )


@pytest.mark.promise("tasks:death-told")
async def test_the_cause_of_a_death_is_no_exception_that_was_handled_before(server: TaskServer) -> None:
    for how, earlier in (("exit", "printed"), ("exit", "raised"), ("kill", "raised")):
        async with server.task() as (face, token):
            with suppress(RrextError):
                await face.tool("handled", {"how": earlier}, token=token)
            error = await face.tool_failure("die", {"how": how}, token=token)
            assert "an old trouble" in error.data["stderr"]
            assert "last words" not in error.message
            assert (await ended(face, token))["errors"][-1] == error.message


@pytest.mark.promise("tasks:death-told")
async def test_a_killed_process_ends_its_pipes_and_its_task(server: TaskServer) -> None:
    async with server.task() as (face, token), server.line() as line:
        told = await line.send("rrext_monitor", {"token": token, "types": ["TASK"]})
        await line.answer(told)
        opened = await face.request("rrext_process", {"subcommand": "open", "token": token, "mimeType": "text/plain"})
        os.kill(await face.tool("pid", token=token), signal.SIGKILL)
        status = await ended(face, token)
        assert status["exitCode"] == -signal.SIGKILL
        written = {"subcommand": "write", "pipe_id": opened["pipe_id"], "data": "x"}
        assert (await failure(face, "rrext_process", written)).code in ("pipe_not_open", "task_lost")
        await line.until(lambda: any(getattr(each, "body", {}).get("action") == "end" for each in line.messages))


@pytest.mark.promise("tasks:death-told")
async def test_an_object_whose_process_dies_fails(server: TaskServer) -> None:
    async with server.task() as (face, token):
        opened = await face.request("rrext_process", {"subcommand": "open", "token": token, "mimeType": "text/plain"})
        died = {"subcommand": "write", "pipe_id": opened["pipe_id"], "data": "die"}
        assert (await failure(face, "rrext_process", died)).code == "task_lost"


@pytest.mark.promise("tasks:isolated")
async def test_a_tool_that_keeps_the_interpreters_lock_holds_up_no_other_task() -> None:
    async with task_server(drain=0.1) as server, server.task() as (face, token), server.line() as line:
        pid = await face.tool("pid", token=token)
        held = await begun(line, "hold", token)
        assert await face.tool("add", {"a": 1, "b": 2}, token="face") == {"sum": 3}
        await line.cancel(held)
        answer = await line.answer(held)
        assert answer.error is not None
        assert answer.error.code == "cancelled"
        await face.request("terminate", {"token": token})
        await gone(pid)


@pytest.mark.promise("tasks:silence-told")
async def test_a_stopped_process_is_told_by_its_status_and_tools_and_ended_by_terminate(server: TaskServer) -> None:
    async with server.task() as (face, token), server.line() as line:
        pid = await face.tool("pid", token=token)
        waits = await begun(line, "nap", token)
        os.kill(pid, signal.SIGSTOP)
        with anyio.fail_after(11):  # without a look at the process: never, and 12 seconds
            error = await failure(face, "tools", {"token": token})
            assert error.code == "unavailable"
            assert "does not answer: it was stopped" in error.message
            for _ in range(20):  # only the first one waits
                assert (await face.request("rrext_get_task_status", {"token": token}))["state"] == 3
            await face.request("terminate", {"token": token})
        await gone(pid)
        answer = await line.answer(waits)
        assert answer.error is not None
        assert answer.error.code == "cancelled"


@pytest.mark.promise("tasks:silence-told")
async def test_a_process_that_was_stopped_for_a_while_answers_again(server: TaskServer) -> None:
    async with server.task() as (face, token):
        pid = await face.tool("pid", token=token)
        os.kill(pid, signal.SIGSTOP)
        await failure(face, "tools", {"token": token})
        os.kill(pid, signal.SIGCONT)
        assert "pid" in await face.names(token=token)
        assert await face.tool("pid", token=token) == pid


@pytest.mark.promise("tasks:silence-told")
async def test_a_pipeline_is_not_loaded_by_a_process_that_was_stopped_before(server: TaskServer) -> None:
    async with server.task() as (face, token):
        own = await face.tool("pid", token=token)
        unwanted = await others(server, own)
        await stopped(*unwanted)
        with anyio.fail_after(11):
            again = (await face.request("execute", {"pipeline": pipeline()}))["token"]
        assert await face.tool("pid", token=again) not in unwanted


@pytest.mark.promise("tasks:no-orphan")
@pytest.mark.parametrize("end", ["terminate", "kill", "server"])
async def test_processes_that_tools_left_behind_end_with_the_task(server: TaskServer, end: str) -> None:
    async with server.task() as (face, token):
        pid, child = await face.tool("pid", token=token), await face.tool("leave_child", token=token)
        assert lives(child)
        if end == "terminate":
            await face.request("terminate", {"token": token})
        elif end == "kill":
            os.kill(pid, signal.SIGKILL)
        else:
            os.kill(server.pid, signal.SIGKILL)
        await gone(pid, child)


@pytest.mark.promise("tasks:no-orphan")
@pytest.mark.parametrize("tool", ["nap", "hold"])
async def test_no_process_outlives_a_killed_server(tool: str) -> None:
    async with task_server() as server:
        async with server.task() as (face, token), server.line() as line:
            await begun(line, tool, token)
            del face
            below = descendants(server.pid)
            assert below
            os.kill(server.pid, signal.SIGKILL)
        await gone(*below)


@pytest.mark.promise("tasks:no-orphan")
async def test_no_process_outlives_a_server_that_ends_by_a_signal() -> None:
    async with task_server(drain=0.5) as server, server.task() as (face, token), server.line() as line:
        await begun(line, "nap", token)
        del face
        below = descendants(server.pid)
        os.kill(server.pid, signal.SIGTERM)
        await gone(server.pid, *below)


@pytest.mark.promise("tasks:failures-stay")
async def test_the_error_of_a_tool_passes_the_process_unchanged(server: TaskServer) -> None:
    async with server.task() as (face, token):
        error = await face.tool_failure("fail", token=token)
        assert (error.code, error.message, error.hint, error.data) == ("no_luck", "no luck", "try again", {"at": [1, None]})


@pytest.mark.promise("tasks:failures-stay")
async def test_a_pipeline_calls_another_in_its_process_and_gets_its_failures(server: TaskServer) -> None:
    async with server.task() as (face, token), server.task() as (_, other):

        async def asked(text: str) -> RrextError:
            return await face.tool_failure("ask_other", {"token": other, "text": text}, token=token)

        assert await face.tool("ask_other", {"token": other, "text": "hello"}, token=token) == ["HELLO"]
        error = await asked("fail")
        assert (error.code, error.message) == ("no_luck", "no luck")
        error = await asked("die")
        assert (error.code, error.data["exception"]) == ("tool_failed", "TaskLost")
        assert "its exit code was 9" in error.message
        assert (await asked("again")).data["exception"] == "TaskNotRegistered"
        assert await face.tool("pid", token=token)


@pytest.mark.promise("tasks:isolated")
async def test_a_client_that_does_not_read_its_chunks_holds_up_no_other_call_of_the_task(server: TaskServer) -> None:
    async with server.task() as (face, token), server.line(reading=False) as deaf:
        await deaf.call("chunks", {"count": 100_000, "size": 65_536}, token=token, stream=True)
        with anyio.fail_after(30):
            for _ in range(50):
                await face.tool("pid", token=token)
        pids = [server.pid, await face.tool("pid", token=token)]
        assert all(memory(pid) < 400 for pid in pids)


def memory(pid: int) -> float:
    """The resident memory of a process, in MiB."""
    with open(f"/proc/{pid}/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.promise("tasks:isolated")
async def test_each_task_has_a_process_and_its_own_numbers_of_pipes(server: TaskServer) -> None:
    pids: set[int] = set()
    pipes: set[int] = set()
    async with server.connect() as face, anyio.create_task_group() as tasks:

        async def one() -> None:
            loaded = await face.request("execute", {"pipeline": pipeline()})
            token = loaded["token"]
            pids.add(await face.tool("pid", token=token))
            opened = await face.request("rrext_process", {"subcommand": "open", "token": token, "mimeType": "text/plain"})
            pipes.add(opened["pipe_id"])
            body = await face.request("rrext_process", {"subcommand": "close", "pipe_id": opened["pipe_id"]})
            assert "error" not in body
            await face.request("terminate", {"token": token})

        for _ in range(6):
            tasks.start_soon(one)
    assert len(pids) == len(pipes) == 6
    assert all(pipe < 2**53 for pipe in pipes)
    await gone(*pids)


@pytest.mark.promise("tasks:isolated")
async def test_an_idle_task_ends_with_its_process(server: TaskServer) -> None:
    async with server.task(ttl=3) as (face, token):
        pid = await face.tool("pid", token=token)
        await gone(pid)
        status = await ended(face, token)
        assert (status["state"], status["exitMessage"]) == (5, "the pipeline was idle for its ttl")


@pytest.mark.promise("tasks:isolated")
async def test_a_restarted_task_has_another_process_and_the_same_token(server: TaskServer) -> None:
    async with server.task() as (face, token):
        before = await face.tool("pid", token=token)
        await face.request("restart", {"token": token})
        assert await face.tool("pid", token=token) != before
        await gone(before)


@pytest.mark.promise("tasks:no-orphan")
async def test_processes_of_a_stuck_task_end_with_a_killed_server() -> None:
    async with task_server() as server, server.task() as (face, token), server.line() as line:
        pid, child = await face.tool("pid", token=token), await face.tool("leave_child", token=token)
        await begun(line, "hold", token)
        os.kill(server.pid, signal.SIGKILL)
        await gone(pid, child)
