"""Many published clients, pipelines and files at once; clients that fail and die."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from published_server import KEY, PATIENCE, PublishedServer, everything, pipeline, served

if TYPE_CHECKING:
    from rocketride import RocketRideClient

pytestmark = [pytest.mark.promise("ws:rocketride"), pytest.mark.timeout(240)]

FILES = 1_000


def texts_of(result: Any) -> str:
    """The text in a result, without what marks its end."""
    assert result is not None
    return "".join(result["text"]).removesuffix("\n\n")


async def test_sixteen_pipelines_run_at_once(client: RocketRideClient) -> None:
    tokens = [
        answer["token"] for answer in await asyncio.gather(*(client.use(pipeline=everything(f"p{n}")) for n in range(16)))
    ]
    assert len(set(tokens)) == 16
    sent = await asyncio.gather(*(client.send(token, f"text {n}", {}, "text/plain") for n, token in enumerate(tokens)))
    assert [texts_of(result) for result in sent] == [f"text {n}" for n in range(16)]
    pipes = [await (await client.pipe(token, {}, "text/plain")).open() for token in tokens]
    assert len({pipe.pipe_id for pipe in pipes}) == 16  # the client tells events apart by these alone
    await asyncio.gather(*(client.terminate(token) for token in tokens))
    assert [(await client.get_task_status(token))["state"] for token in tokens] == [6] * 16


async def test_four_clients_send_and_receive_thirty_two_times(server: PublishedServer, client: RocketRideClient) -> None:
    from rocketride import RocketRideClient

    token = (await client.use(pipeline=everything("cycles"), threads=4))["token"]

    async def cycles(name: str) -> list[str]:
        own = RocketRideClient(uri=server.url, auth=KEY)
        await own.connect()
        found = [texts_of(await own.send(token, f"{name} {n} " + "z" * (n * 1000), {}, "text/plain")) for n in range(32)]
        await own.disconnect()
        return [text.rstrip("z").strip() for text in found]

    found = await asyncio.gather(*(cycles(name) for name in "abcd"))
    assert found == [[f"{name} {n}" for n in range(32)] for name in "abcd"]
    assert (await client.get_task_status(token))["completedCount"] == 128
    await client.terminate(token)


async def test_two_clients_share_a_pipeline_and_a_new_one_finds_it(server: PublishedServer, client: RocketRideClient) -> None:
    from rocketride import RocketRideClient

    await client.use(pipeline=everything("shared"), token="SHARED")
    other = RocketRideClient(uri=server.url, auth=KEY)
    await other.connect()
    assert (await other.use(pipeline=everything("shared"), token="SHARED", use_existing=True))["token"] == "SHARED"
    pipes = [await (await each.pipe("SHARED", {}, "text/plain")).open() for each in (client, other)]
    for number in range(8):
        await asyncio.gather(*(pipe.write(f"{name}{number}".encode()) for name, pipe in zip("ab", pipes, strict=True)))
    with pytest.raises(RuntimeError, match=f"Pipe {pipes[0].pipe_id} is not open"):  # it is the first client's
        await other.call("rrext_process", subcommand="close", pipe_id=pipes[0].pipe_id, token="SHARED")
    results = [texts_of(await pipe.close()) for pipe in pipes]
    assert [text.replace("\n\n", "") for text in results] == ["".join(f"{name}{n}" for n in range(8)) for name in "ab"]
    await client.disconnect()
    assert texts_of(await other.send("SHARED", "still there", {}, "text/plain")) == "still there"
    third = RocketRideClient(uri=server.url, auth=KEY)
    await third.connect()
    assert texts_of(await third.send("SHARED", "found", {}, "text/plain")) == "found"
    await third.terminate("SHARED")
    for each in (other, third):
        await each.disconnect()
    await client.connect()


async def test_a_thousand_files_are_uploaded_in_one_call(client: RocketRideClient, tmp_path: Path) -> None:
    token = (await client.use(pipeline=everything("upload"), threads=64))["token"]
    files: list[Any] = []
    for number in range(FILES):
        path = tmp_path / f"{number}.txt"
        path.write_text(f"file {number}")
        files.append(str(path))
    with anyio.fail_after(PATIENCE * 3):
        sent = await client.send_files(files, token)
    assert [each["action"] for each in sent] == ["complete"] * FILES
    assert [texts_of(each["result"]) for each in sent] == [f"file {number}" for number in range(FILES)]
    status = await client.get_task_status(token)
    assert (status["completedCount"], status["failedCount"]) == (FILES, 0)
    await client.terminate(token)


async def test_failing_writes_hold_up_no_upload(client: RocketRideClient, tmp_path: Path) -> None:
    token = (await client.use(pipeline=pipeline("failing", "refuser"), threads=4))["token"]
    files: list[Any] = []
    for number in range(40):
        path = tmp_path / f"{number}.txt"
        path.write_text("fail" if number % 2 == 0 else f"good {number}")
        files.append(str(path))
    with anyio.fail_after(PATIENCE / 2):  # the pipes of failed writes, which the client leaves open, would stay for a minute
        sent = await client.send_files(files, token)
    assert [each["action"] for each in sent] == ["error", "complete"] * 20
    assert all("refused" in each["error"] for each in sent[::2])
    assert [texts_of(each["result"]) for each in sent[1::2]] == [f"good {n}" for n in range(1, 40, 2)]
    await client.terminate(token)


KILLED = """
import asyncio, sys
from rocketride import RocketRideClient

async def main(uri, token):
    client = RocketRideClient(uri=uri, auth="{key}")
    await client.connect()
    pipes = [await (await client.pipe(token, {{}}, "text/plain")).open() for _ in range(6)]
    file = (await client.fs_open("half", "w"))["handle"]
    await client.fs_write(file, b"half of it")
    await client.add_monitor({{"token": "*"}}, ["all"])
    calls = [asyncio.ensure_future(client.tool(token=token, tool="wait")) for _ in range(2)]
    writes = [asyncio.ensure_future(pipe.write(b"x" * 5_000_000)) for pipe in pipes]
    await client.ping()
    print("in the middle of everything", flush=True)
    await asyncio.gather(*calls, *writes)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.timeout(120)
async def test_a_client_that_is_killed_in_the_middle_of_everything_leaves_nothing(
    server: PublishedServer, client: RocketRideClient
) -> None:
    token = (await client.use(pipeline=everything("killed"), threads=8))["token"]
    for _ in range(3):
        victim = await anyio.open_process(
            [sys.executable, "-c", KILLED.format(key=KEY), server.url, token], stderr=subprocess.DEVNULL
        )
        async with victim:
            assert victim.stdout is not None
            with anyio.fail_after(PATIENCE):
                assert b"in the middle" in await victim.stdout.receive()
            victim.kill()
        with anyio.fail_after(PATIENCE):  # all eight places come back
            pipes = await asyncio.gather(*[(await client.pipe(token, {}, "text/plain")).open() for _ in range(8)])
            await asyncio.gather(*(pipe.write(b"alive") for pipe in pipes))
            assert [texts_of(await pipe.close()) for pipe in pipes] == ["alive"] * 8
    assert await client.fs_stat("half") == {"exists": False}
    with anyio.fail_after(PATIENCE):
        while len((await client.get_dashboard())["connections"]) > 1:
            await asyncio.sleep(0.01)
    status = await client.get_task_status(token)
    assert status["pipeflow"]["totalPipes"] == 0
    await client.terminate(token)


# users


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublishedServer]:
    """A server that knows two users and trusts none."""
    folder = tmp_path_factory.mktemp("house")
    keys = folder / "keys.toml"
    keys.write_text('"key-of-ada-0123456789" = "ada"\n"key-of-bob-0123456789" = "bob"\n')
    keys.chmod(0o600)
    with served("--keys", str(keys), "--store", str(folder / "store"), key=None) as server:
        yield server


async def test_two_users_have_nothing_of_each_other(house: PublishedServer) -> None:
    from rocketride import RocketRideClient

    heard: list[dict[str, Any]] = []

    async def hear(message: dict[str, Any]) -> None:
        heard.append(message)

    ada, bob = (
        RocketRideClient(uri=house.url, auth=f"key-of-{user}-0123456789", on_event=hear if user == "bob" else None)
        for user in ("ada", "bob")
    )
    for each, user in ((ada, "ada"), (bob, "bob")):
        info = await each.connect()
        assert info["userId"] == user
    await bob.add_monitor({"token": "*"}, ["all"])
    await bob.add_monitor({"project_id": "secret", "source": "w"}, ["all"])
    pipe_of_ada = None
    for project in ("secret", "other"):
        token = (await ada.use(pipeline=pipeline(project, "teller"), token=f"T-{project}"))["token"]
        pipe_of_ada = await (await ada.pipe(token, {}, "text/plain")).open()
        await pipe_of_ada.write(b"a secret")
    assert pipe_of_ada is not None
    for attempt in (
        bob.get_task_status("T-secret"),
        bob.get_task_pipeline("T-secret"),
        bob.get_task_token(project_id="secret", source="w"),
        bob.terminate("T-secret"),
        bob.restart(token="T-secret", project_id="secret", source="w", pipeline=pipeline("secret")),
        bob.add_monitor({"token": "T-secret"}, ["all"]),
        bob.send("T-secret", "mine", {}, "text/plain"),
        bob.tool(token="T-secret", tool="read_file"),
    ):
        with pytest.raises(RuntimeError, match="not running"):
            await attempt
    with pytest.raises(RuntimeError, match=f"Pipe {pipe_of_ada.pipe_id} is not open"):
        await bob.call("rrext_process", subcommand="write", pipe_id=pipe_of_ada.pipe_id, data=b"mine")
    assert (await bob.use(pipeline=pipeline("secret"), token="T-secret"))["token"] == "T-secret"  # names are his own
    board = await bob.get_dashboard()
    assert [task["projectId"] for task in board["tasks"]] == ["secret"]
    assert {connection["userId"] for connection in board["connections"]} == {"bob"}
    await ada.fs_write_string("mine.txt", "secret")
    assert await bob.fs_list_dir() == {"entries": [], "count": 0}
    assert await bob.fs_stat("mine.txt") == {"exists": False}
    assert "T-other" not in str(heard)
    assert "a secret" not in str(heard)
    assert texts_of(await pipe_of_ada.close()) == "a secret"
    for each in (ada, bob):
        await each.disconnect()


async def test_a_client_does_not_connect_again_by_itself_and_a_connect_of_its_own_works() -> None:
    from rocketride import RocketRideClient

    lost = anyio.Event()

    async def disconnected(reason: str | None, has_error: bool) -> None:
        lost.set()

    with served() as first, served() as second:
        client = RocketRideClient(uri=first.url, auth=KEY, persist=True, on_disconnected=disconnected)
        await client.connect()
        first.process.terminate()
        with anyio.fail_after(PATIENCE):
            await lost.wait()
        assert not client.is_connected()
        # `persist` schedules the next attempt with a method that the client does not have.
        assert (hasattr(client, "_debug_message"), client._reconnect_timer) == (False, None)
        await client.attach(second.url)
        await client.login(KEY)
        await client.ping()
        await client.disconnect()
