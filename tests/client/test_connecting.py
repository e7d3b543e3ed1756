"""`Client.connect("unix:PATH")`: joining a server that runs, in both clients, and what is said when there is none."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from rrext import Client, NotConnected, ServerExited, UsageError
from rrext.blocking import Client as BlockingClient

pytestmark = pytest.mark.anyio

HERE = Path(__file__).resolve().parent
LINE = [sys.executable, "-m", "rrext", "serve", "--nodes", str(HERE / "real_nodes.py"), str(HERE / "real.pipe")]


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="rrext-") as path:  # a socket's path has at most 107 bytes
        yield Path(path)


@pytest.fixture
def server(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of a server, and its process."""
    address = f"unix:{folder}/s"
    env = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    process = subprocess.Popen([*LINE, "--listen", address], stderr=subprocess.PIPE, env=env, text=True)
    assert process.stderr is not None
    while "listening at" not in (line := process.stderr.readline()):
        assert line
    yield address, process
    process.kill()
    process.wait()
    process.stderr.close()


async def test_clients_join_a_server_and_leave_it_running(server: tuple[str, subprocess.Popen[str]]) -> None:
    address, process = server
    async with Client.connect(address) as one, Client.connect(address, dialect="jsonrpc") as other:
        assert await one.tool(tool="add", input={"a": 1}) == await other.tool(tool="add", input={"a": 1})
    async with Client.connect(address) as again:
        assert (await again.tasks())[0]["token"] == "real"
        await again.shutdown()
    assert process.wait(30) == 0


def test_the_blocking_client_joins_a_server(server: tuple[str, subprocess.Popen[str]]) -> None:
    address, process = server
    with BlockingClient.connect(address) as client:
        assert client.tool(tool="add", input={"a": 1}) == {"sum": 2}
        client.shutdown()
    assert process.wait(30) == 0


async def test_a_server_that_is_killed_is_lost_to_its_clients(server: tuple[str, subprocess.Popen[str]]) -> None:
    address, process = server
    async with Client.connect(address) as client:
        await client.ping()
        process.send_signal(signal.SIGKILL)
        with pytest.raises(ServerExited, match="closed the connection"):
            await client.tool(tool="wait")


async def refusal(address: str) -> NotConnected:
    with pytest.raises(NotConnected) as refused:
        async with Client.connect(address):
            pass
    return refused.value


async def test_where_nothing_is_the_error_says_how_to_start_a_server(folder: Path) -> None:
    error = await refusal(f"unix:{folder}/s")
    assert str(folder / "s") in error.message
    assert f"rrext serve --listen unix:{folder}/s" in str(error.hint)


async def test_where_nobody_listens_any_more_the_error_says_so(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(folder / "s"))
    error = await refusal(f"unix:{folder}/s")
    assert "nobody listens" in error.message
    assert "rrext serve --listen" in str(error.hint)


async def test_a_path_that_is_no_socket_is_refused(folder: Path) -> None:
    (folder / "s").write_text("")
    await refusal(f"unix:{folder}/s")
    await refusal(f"unix:{folder}/{'x' * 200}")


@pytest.mark.parametrize("address", ["", "unix:", "/tmp/s", "tcp:1.2.3.4:5", "unix"])
def test_an_address_that_is_none_is_a_usage_error(address: str) -> None:
    with pytest.raises(UsageError, match="unix:"):
        Client.connect(address)


async def test_a_connection_that_is_closed_at_once_is_explained(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "s"))
        listening.listen()

        def refuse() -> None:
            listening.accept()[0].close()

        import anyio

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, refuse)
            with pytest.raises(ServerExited) as lost:
                async with Client.connect(f"unix:{folder}/s"):
                    pass
    assert "maxConnections" in str(lost.value.hint)
