"""The published RocketRide client, unmodified, drives a server of WebSockets."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from rrext.client.server_address import server_env

if TYPE_CHECKING:
    from rocketride import RocketRideClient  # half a second, which each process that collects tests would spend

pytestmark = pytest.mark.promise("ws:rocketride")

KEY = "the-key-of-this-server"
PROXIES = ("http_proxy", "https_proxy", "ws_proxy", "socks_proxy", "all_proxy")


@pytest.fixture
def anyio_backend() -> str:
    """The client knows asyncio alone."""
    return "asyncio"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client obeys them even for this machine."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server that trusts its clients."""
    root = tmp_path_factory.mktemp("served")
    (root / "notes.txt").write_text("found")
    command = [sys.executable, "-m", "rrext", "serve", "--ws", "127.0.0.1:0", "--root", str(root), "--trust-clients"]
    command += ["--store", str(tmp_path_factory.mktemp("store"))]
    env = server_env({"ROCKETRIDE_APIKEY": KEY, "PYTHONPATH": str(Path(__file__).resolve().parents[2])})
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"listening at ws://127.0.0.1:(\d+)", process.stderr.readline())
        assert found is not None
        yield int(found[1])
        process.terminate()
        assert process.wait(30) == 0
        assert "Traceback" not in process.stderr.read()


@pytest.fixture
async def client(port: int) -> AsyncIterator[RocketRideClient]:
    """A connected client."""
    from rocketride import RocketRideClient

    connected = RocketRideClient(uri=f"http://127.0.0.1:{port}", auth=KEY)
    with anyio.fail_after(30):
        await connected.connect()
        yield connected
        await connected.disconnect()


def component(node_id: str, provider: str, **more: Any) -> dict[str, Any]:
    """A component of a pipeline."""
    return {"id": node_id, "provider": provider, "config": {}, **more}


def echo(project: str) -> dict[str, Any]:
    """A pipeline that returns texts, and has the tools of files and of a database."""
    tool = [{"classType": "tool", "from": "w"}]
    return {
        "components": [
            component("w", "webhook"),
            component("files_1", "tool_filesystem", config={"root": "."}, control=tool),
            component("db_1", "db_sqlite", config={"path": ":memory:", "allow_execute": True}, control=tool),
            component("out", "response_text", config={"laneName": "text"}, input=[{"lane": "text", "from": "w"}]),
        ],
        "source": "w",
        "project_id": project,
    }


def chat() -> dict[str, Any]:
    """A pipeline that answers questions by a script."""
    model = {"script": [{"match": "what is it*", "answer": "42"}]}
    return {
        "components": [
            component("c", "chat"),
            component("llm", "llm_scripted", config=model, input=[{"lane": "questions", "from": "c"}]),
            component("out", "response_answers", config={"laneName": "answers"}, input=[{"lane": "answers", "from": "llm"}]),
        ],
        "source": "c",
        "project_id": "chat",
    }


async def test_it_connects_pings_and_knows_who_it_is(client: RocketRideClient) -> None:
    await client.ping()
    info = client.get_account_info()
    assert info is not None
    assert info["userId"] == "local"


async def test_a_wrong_key_is_an_exception_of_its_own(port: int) -> None:
    from rocketride import AuthenticationException, RocketRideClient

    stranger = RocketRideClient(uri=f"http://127.0.0.1:{port}", auth="wrong")
    with pytest.raises(AuthenticationException, match="Invalid API key"):
        await stranger.connect()
    await stranger.disconnect()


async def test_it_uses_a_pipeline_sends_and_ends_it(client: RocketRideClient) -> None:
    token = (await client.use(pipeline=echo("use"), token="USE", threads=4, ttl=60))["token"]
    assert token == "USE"
    assert (await client.use(pipeline=echo("use"), token="USE", use_existing=True))["token"] == "USE"
    result = await client.send(token, "hello", {"name": "a.txt"}, "text/plain")
    assert result is not None
    assert (result["name"], result["text"]) == ("a.txt", ["hello\n\n"])
    status = await client.get_task_status(token)
    assert (status["state"], status["completed"]) == (3, False)
    await client.terminate(token)
    status = await client.get_task_status(token)
    assert (status["state"], status["completed"]) == (6, True)
    with pytest.raises(RuntimeError, match="Your pipeline is not running"):
        await client.tool(token=token, tool="read_file")


async def test_pipes_carry_bytes_in_pieces(client: RocketRideClient) -> None:
    token = (await client.use(pipeline=echo("pipe")))["token"]
    pipe = await client.pipe(token, {"name": "b.txt"}, "text/plain")
    async with pipe:
        for piece in (b"one\n", b"", "µ\0\n".encode(), b"x" * 3_000_000):
            await pipe.write(piece)
        listed = await pipe.tool(tool="list_directory", node_id="files_1", input={})
        assert listed["entries"][0]["name"] == "notes.txt"
        result = await pipe.close()
    assert "".join(result["text"]).split() == ["one", "µ\0", "x" * 3_000_000]
    await client.terminate(token)


async def test_it_calls_tools_and_databases(client: RocketRideClient) -> None:
    token = (await client.use(pipeline=echo("tools")))["token"]
    read = await client.tool(token=token, tool="read_file", input={"path": "notes.txt"})
    assert read["content"] == "found"
    with pytest.raises(RuntimeError, match='No handler found for tool "nothing"'):
        await client.tool(token=token, tool="nothing")
    database, where = client.database, {"token": token, "node_id": "db_1"}
    await database.query(sql="CREATE TABLE t (a INTEGER)", **where)
    session = (await database.begin_transaction(**where))["session_id"]
    await database.query(sql="INSERT INTO t VALUES ($1)", session_id=session, params=[7], **where)
    await database.commit(session_id=session, **where)
    assert (await database.query(sql="SELECT a FROM t", **where))["rows"] == [{"a": 7}]
    await client.terminate(token)


async def test_it_chats(client: RocketRideClient) -> None:
    from rocketride.schema import Question

    token = (await client.use(pipeline=chat()))["token"]
    question = Question()
    question.addQuestion("What is it?")
    assert (await client.chat(token=token, question=question))["answers"] == ["42"]
    await client.terminate(token)


async def test_many_pipelines_and_files_at_once(client: RocketRideClient, tmp_path: Path) -> None:
    tokens = [answer["token"] for answer in await asyncio.gather(*(client.use(pipeline=echo(f"p{n}")) for n in range(16)))]
    texts = await asyncio.gather(
        *(client.send(token, f"text {n}", {"name": f"{n}.txt"}, "text/plain") for n, token in enumerate(tokens))
    )
    assert [text["text"] for text in texts if text is not None] == [[f"text {n}\n\n"] for n in range(16)]
    files = []
    for number in range(200):
        path = tmp_path / f"{number}.txt"
        path.write_text(f"file {number}")
        files.append(str(path))
    sent = await client.send_files(files, tokens[0])
    assert {result["result"]["text"][0] for result in sent} == {f"file {number}\n\n" for number in range(200)}
    for token in tokens:
        await client.terminate(token)


async def test_a_new_client_finds_a_running_pipeline(client: RocketRideClient, port: int) -> None:
    from rocketride import RocketRideClient

    await client.use(pipeline=echo("again"), token="AGAIN")
    other = RocketRideClient(uri=f"http://127.0.0.1:{port}", auth=KEY)
    await other.connect()
    result = await other.send("AGAIN", "hello", {"name": "a.txt"}, "text/plain")
    assert result is not None
    assert result["text"] == ["hello\n\n"]
    await other.disconnect()
    await client.terminate("AGAIN")


async def test_it_finds_and_restarts_a_pipeline(client: RocketRideClient) -> None:
    token = (await client.use(pipeline=echo("restarted")))["token"]
    assert await client.get_task_token(project_id="restarted", source="w") == token
    await client.restart(token=token, project_id="restarted", source="w", pipeline=echo("restarted"))
    result = await client.send(token, "again", {"name": "a.txt"}, "text/plain")
    assert result is not None
    assert result["text"] == ["again\n\n"]
    await client.terminate(token)


async def test_it_validates(client: RocketRideClient) -> None:
    found = await client.validate(pipeline=echo("v"))
    assert (found["errors"], "pipeline" in found) == ([], True)
    wrong = echo("v")
    wrong["components"][1]["provider"] = "nonsense"
    assert (await client.validate(pipeline=wrong))["errors"]


async def test_a_command_that_is_not_there_is_an_invalid_command(client: RocketRideClient) -> None:
    with pytest.raises(RuntimeError, match="Invalid command: rrext_account_me"):
        await client.call("rrext_account_me")
    assert json.dumps(await client.get_services())


@pytest.mark.promise("store:whole-files")
async def test_files_of_the_store(client: RocketRideClient) -> None:
    await client.fs_write_string("a/b.txt", "wörld\n\0")
    assert await client.fs_read_string("a/b.txt") == "wörld\n\0"
    assert [(each["name"], each["type"]) for each in (await client.fs_list_dir())["entries"]] == [("a", "dir")]
    assert (await client.fs_stat("a/b.txt"))["size"] == 8
    assert await client.fs_stat("nothing") == {"exists": False}
    many = await client.fs_read_many(["a/b.txt", "nothing", "a"])
    assert [(each["ok"], each["data"]) for each in many] == [(True, "wörld\n\0".encode()), (False, None), (False, None)]
    handle = (await client.fs_open("large", "w"))["handle"]
    pieces = [bytes([n]) * 2**20 for n in range(17)]  # as base64 it would be over the limit of results
    for piece in pieces:
        assert await client.fs_write(handle, piece) == len(piece)
    await client.fs_close(handle, "w")
    assert (await client.fs_read_many(["large"]))[0]["data"] == b"".join(pieces)
    await client.fs_rename("large", "c/large")
    with pytest.raises(RuntimeError, match="is not empty"):
        await client.fs_rmdir("c")
    await client.fs_rmdir("c", recursive=True)
    with pytest.raises(RuntimeError, match='"c" does not exist'):
        await client.fs_open("c/large")
    await client.save_template("t", {"name": "T", "components": []})
    assert (await client.get_all_templates())["count"] == 1
    await client.save_log("p", "s", {"body": {"startTime": 1}})
    assert [each["name"] for each in await client.list_logs("p")] == ["s-1.log"]
    await client.fs_delete("a/b.txt")
    with pytest.raises(RuntimeError, match="no links"):
        await client.fs_get_url("a/b.txt")
