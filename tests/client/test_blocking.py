"""`rrext.blocking.Client`: the same names without `async`."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rrext.client import blocking
from rrext.client.client import Client
from rrext.errors import NotConnected, ServerExited, UsageError
from rrext.transports.descriptor_channel import FdChannel

HERE = Path(__file__).resolve().parent
ROOT = str(HERE.parents[1])
SERVER = [sys.executable, str(HERE / "scripted_child.py")]


def spawn(mode: str = "polite") -> blocking.Client:
    return blocking.Client.spawn(command=[*SERVER, mode], env={"PYTHONPATH": ROOT})


@pytest.fixture
def client() -> Iterator[blocking.Client]:
    with spawn() as connected:
        yield connected


def test_a_tool_call_returns_the_result(client: blocking.Client) -> None:
    pid = client.tool(tool="pid")
    assert isinstance(pid, int)
    assert client.server == {}


def test_the_server_ends_with_the_block() -> None:
    with spawn() as client:
        pid = client.tool(tool="pid")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_every_public_method_of_the_async_client_is_there_with_the_same_parameters() -> None:
    for name, method in inspect.getmembers(Client, inspect.isfunction):
        if name.startswith("_"):
            continue
        ours = getattr(blocking.Client, name)
        assert list(inspect.signature(ours).parameters) == list(inspect.signature(method).parameters), name
        assert not inspect.iscoroutinefunction(ours), name
    for name in ("spawn", "over"):
        theirs = list(inspect.signature(getattr(Client, name)).parameters)
        assert list(inspect.signature(getattr(blocking.Client, name)).parameters) == theirs


def test_calls_outside_of_the_block_say_so() -> None:
    client = spawn()
    with pytest.raises(NotConnected, match="not connected yet"):
        client.tool(tool="pid")
    with client, pytest.raises(UsageError, match="once"):
        client.__enter__()
    with pytest.raises(NotConnected, match="closed"):
        client.tool(tool="pid")
    with pytest.raises(NotConnected, match="closed"):
        client.pipe()


def test_a_server_that_dies_raises_its_exit_code(client: blocking.Client) -> None:
    with pytest.raises(ServerExited) as caught:
        client.tool(tool="die")
    assert caught.value.data["exit_code"] == 3


def test_a_start_that_fails_raises_itself() -> None:
    with pytest.raises(ServerExited, match="unknown provider"), spawn("broken"):
        raise AssertionError("it did not start")


def test_threads_may_share_a_client(client: blocking.Client) -> None:
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(client.tool(tool="pid"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert len(set(results)) == 1


def test_a_pipe_is_a_context_manager(client: blocking.Client) -> None:
    with client.pipe(objinfo={"name": "n"}) as pipe:
        assert pipe.pipe_id == 1
        pipe.write(b"abc")
        assert isinstance(pipe.tool(tool="pid"), int)
    assert pipe.result == {"written": 3}
    assert pipe.close() == {"written": 3}


def test_a_pipe_takes_attributes_and_weak_references_as_a_client_does(client: blocking.Client) -> None:
    for made in (client, client.pipe(), client.database, client.vectors):
        vars(made)["mark"] = "mine"
        assert vars(weakref.ref(made)())["mark"] == "mine"


def test_an_error_in_the_block_of_a_pipe_comes_out_as_it_is(client: blocking.Client) -> None:
    with pytest.raises(KeyError, match="mine"), client.pipe():
        raise KeyError("mine")


def test_callbacks_run_in_the_thread_of_the_call_and_may_use_the_client(client: blocking.Client) -> None:
    seen: list[Any] = []

    def report(value: float, total: float | None, message: str | None) -> None:
        seen.append((value, threading.get_ident(), client.tool(tool="pid")))

    assert client.tool(tool="report", progress=report) == "reported"
    assert [(value, thread) for value, thread, _ in seen] == [(1, threading.get_ident())]


def test_what_a_callback_raises_ends_the_call(client: blocking.Client) -> None:
    def refuse(*_: Any) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        client.tool(tool="report", progress=refuse)
    assert isinstance(client.tool(tool="pid"), int)


def test_files_are_sent(client: blocking.Client, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("abc")
    steps: list[int] = []
    [result] = client.send_files([tmp_path / "a.txt"], progress=lambda step: steps.append(step.bytes_done))
    assert result.result == {"written": 3}
    assert steps == [3, 3]


def test_events_are_iterated(client: blocking.Client) -> None:
    events = client.events()
    client.tool(tool="tell")
    assert next(events).name == "told"
    client.close()
    assert list(events) == []


def test_events_of_a_monitor_are_iterated(client: blocking.Client) -> None:
    events = client.monitor("TASK", token="T")
    client.tool(tool="tell")
    assert next(events).name == "told"


@pytest.mark.promise("cancel:reaches:both-kinds")
def test_ctrl_c_cancels_the_tool_itself_and_the_client_goes_on(client: blocking.Client) -> None:
    main = threading.main_thread().ident
    assert main is not None
    interrupt = threading.Timer(0.05, signal.pthread_kill, [main, signal.SIGINT])
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        client.tool(tool="never answered")
    interrupt.join()
    assert client.tool(tool="cancelled") == 1


def test_ctrl_c_while_the_server_starts_leaves_no_process(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, threading\n"
        "from rrext.client import blocking\n"
        f"path = {str(tmp_path / 'pid')!r}\n"
        "sleeper = f'import os, time; open({path!r}, \"w\").write(str(os.getpid())); time.sleep(60)'\n"
        "def interrupt():\n"
        "    while not (os.path.exists(path) and os.path.getsize(path)):\n"
        "        pass\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=interrupt).start()\n"
        "try:\n"
        "    with blocking.Client.spawn(command=[sys.executable, '-c', sleeper]): raise SystemExit('it did not start')\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(42)\n"
    )
    env = {**os.environ, "PYTHONPATH": ROOT}
    done = subprocess.run([sys.executable, "-c", code], env=env, timeout=30, check=False)
    assert done.returncode == 42
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_it_speaks_over_given_descriptors() -> None:
    to_server, from_client = os.pipe()
    to_client, from_server = os.pipe()
    server = subprocess.Popen(SERVER, stdin=to_server, stdout=from_server, env={**os.environ, "PYTHONPATH": ROOT})
    os.close(to_server)
    os.close(from_server)
    with blocking.Client.over(FdChannel(to_client, from_client), dialect="jsonrpc") as client:
        assert client.tool(tool="pid") == server.pid
    assert server.wait(timeout=10) == 0


def test_the_block_may_be_left_by_an_exception() -> None:
    pids: list[int] = []

    def use() -> None:
        with spawn() as client:
            pids.append(client.tool(tool="pid"))
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        use()
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
