"""The published RocketRide client, unmodified, drives a server of WebSockets: each of its methods that all versions have."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from published_server import KEY, VERSION, PublishedServer, chat, component, everything, pipeline, served
from published_types import misfits

if TYPE_CHECKING:
    from rocketride import RocketRideClient

pytestmark = pytest.mark.promise("ws:rocketride")


# connections


async def test_it_connects_pings_and_knows_who_it_is(client: RocketRideClient, server: PublishedServer) -> None:
    from rocketride.types import ConnectResult

    await client.ping()
    await client.ping(token="any")
    info = client.get_account_info()
    assert info is not None
    assert misfits(info, ConnectResult) == []
    assert (info["userId"], info["displayName"], info["capabilities"]) == ("local", "local", ["oss"])
    assert client.is_connected()
    assert client.get_connection_info()["uri"] == f"ws://127.0.0.1:{server.port}/task/service"
    assert client.get_apikey() == KEY


async def test_a_wrong_key_is_an_exception_of_its_own(server: PublishedServer) -> None:
    from rocketride import AuthenticationException, RocketRideClient

    stranger = RocketRideClient(uri=server.url, auth="wrong")
    with pytest.raises(AuthenticationException, match="Invalid API key"):
        await stranger.connect()
    await stranger.disconnect()


async def test_it_logs_out_and_in_again_on_one_connection_and_on_another(client: RocketRideClient) -> None:
    await client.logout()
    assert (client.is_attached(), client.is_authenticated()) == (True, False)
    with pytest.raises(RuntimeError, match="Not authenticated"):
        await client.get_services()
    assert (await client.login(KEY))["userId"] == "local"
    await client.detach()
    assert not client.is_attached()
    await client.attach()
    await client.login()
    await client.ping()


async def test_callbacks_tell_of_the_connection_and_of_each_message(server: PublishedServer) -> None:
    from rocketride import RocketRideClient

    told: list[str] = []

    async def connected(where: str | None) -> None:
        told.append(f"connected {where}")

    async def disconnected(reason: str | None, has_error: bool) -> None:
        told.append(f"disconnected {has_error}")

    client = RocketRideClient(
        uri=server.url, auth=KEY, on_connected=connected, on_disconnected=disconnected, on_protocol_message=told.append
    )
    await client.connect()
    await client.ping()
    await client.disconnect()
    assert told[-1] == "disconnected False"
    assert f"connected ws://127.0.0.1:{server.port}/task/service" in told
    assert sum("rrext_ping" in each for each in told) == 2


async def test_a_stranger_learns_what_the_server_is(server: PublishedServer) -> None:
    from rocketride import RocketRideClient
    from rocketride.types import ServerInfoResult

    info = await RocketRideClient.get_server_info(server.url)
    assert misfits(info, ServerInfoResult) == []
    own = server.url if VERSION >= (1, 5) else "origin"
    assert (info["capabilities"], info["apps"], info["endpoints"]) == (["oss"], [], {"api": own, "ui": own})
    assert isinstance(info["version"], str)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """A certificate of this machine for itself, and its key."""
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert]
    subprocess.run([*words, *names], check=True, capture_output=True)
    return cert, key


async def test_it_speaks_through_tls(certificate: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    from rocketride import RocketRideClient

    cert, key = certificate
    with served("--tls-cert", cert, "--tls-key", key) as server:
        client = RocketRideClient(uri=server.url, auth=KEY)
        with pytest.raises(OSError, match="certificate"):
            await client.connect()
        monkeypatch.setenv("SSL_CERT_FILE", cert)
        await client.connect()
        token = (await client.use(pipeline=pipeline("secret")))["token"]
        result = await client.send(token, "z" * 300_000, {}, "text/plain")
        assert result is not None
        assert len(result["text"][0]) == 300_002
        await client.disconnect()


# pipelines


async def test_it_uses_a_pipeline_sends_and_ends_it(client: RocketRideClient) -> None:
    used = await client.use(pipeline=everything("use"), token="USE", threads=4, ttl=60, args=["--verbose"])
    assert (used["token"], used["projectId"], used["source"], used["provider"]) == ("USE", "use", "w", "webhook")
    with pytest.raises(RuntimeError, match="Pipeline is already running."):
        await client.use(pipeline=everything("use"), token="USE")
    assert (await client.use(pipeline=everything("use"), token="USE", use_existing=True))["token"] == "USE"
    result = await client.send("USE", "hello", {"name": "a.txt"}, "text/plain")
    assert result is not None
    assert (result["name"], result["path"], result["result_types"]) == ("a.txt", "", {"text": "text"})
    assert result["text"] == ["hello\n\n"]
    status = await client.get_task_status("USE")
    assert (status["state"], status["completed"], status["completedCount"]) == (3, False, 1)
    assert status["threads"]["limit"] == 4
    assert [task["ttl"] for task in (await client.get_dashboard())["tasks"] if task["id"] == used["id"]] == [60]
    await client.terminate("USE")
    status = await client.get_task_status("USE")
    assert (status["state"], status["completed"]) == (6, True)
    await client.terminate("USE")
    with pytest.raises(RuntimeError, match="Your pipeline is not running"):
        await client.tool(token="USE", tool="read_file")
    with pytest.raises(RuntimeError, match="Your pipeline is not running"):
        await client.terminate("NEVER")


async def test_it_uses_files_with_names_of_variables(server: PublishedServer, tmp_path: Path) -> None:
    from rocketride import RocketRideClient

    client = RocketRideClient(uri=server.url, auth=KEY, env={"ROCKETRIDE_LANE": "said", "ROCKETRIDE_APIKEY": KEY})
    await client.connect()
    wrapped = {"pipeline": pipeline("files")}
    wrapped["pipeline"]["components"][1]["config"]["laneName"] = "${ROCKETRIDE_LANE}"
    path = tmp_path / "named.pipe"
    path.write_text(json.dumps(wrapped))
    token = (await client.use(filepath=str(path), pipelineTraceLevel="none"))["token"]
    result = await client.send(token, b"hello", mimetype="text/plain")
    assert result is not None
    assert result["said"] == ["hello\n\n"]
    assert (await client.get_task_status(token))["name"].split(".")[-1] == "w"
    assert KEY not in json.dumps(await client.get_task_pipeline(token))
    await client.terminate(token)
    again = await client.use(pipeline=wrapped, source="w", pipelineTraceLevel="full")
    await client.terminate(again["token"])
    await client.disconnect()


async def test_more_threads_than_may_be_are_as_many_as_may_be(client: RocketRideClient) -> None:
    token = (await client.use(pipeline=pipeline("threads"), threads=1_000_000))["token"]
    assert 1 <= (await client.get_task_status(token))["threads"]["limit"] < 1_000_000
    await client.terminate(token)


async def test_what_a_user_sets_later_is_in_the_variables_of_the_next_pipeline(client: RocketRideClient) -> None:
    client.set_env({"ROCKETRIDE_LANE": "later"})
    named = pipeline("variables")
    named["components"][1]["config"]["laneName"] = "${ROCKETRIDE_LANE}"
    token = (await client.use(pipeline=named))["token"]
    result = await client.send(token, "hello", {}, "text/plain")
    assert result is not None
    assert result["later"] == ["hello\n\n"]
    await client.terminate(token)


async def test_a_wrong_pipeline_is_not_used(client: RocketRideClient) -> None:
    for wrong, text in (
        (pipeline("w") | {"source": "nothing"}, "nothing"),
        (pipeline("w", "nonsense"), "nonsense"),
        ({"components": [component("x", "llm_mistral")], "source": "x"}, "llm_mistral"),
    ):
        with pytest.raises(RuntimeError, match=text):
            await client.use(pipeline=wrong)


async def test_a_status_is_what_the_client_says_that_it_is(client: RocketRideClient) -> None:
    from rocketride.types import TASK_STATUS

    token = (await client.use(pipeline=pipeline("status", "refuser")))["token"]
    await client.send(token, "hello", {"name": "a.txt"}, "text/plain")
    with pytest.raises(RuntimeError, match="refused"):
        await client.send(token, "fail", {"name": "b.txt"}, "text/plain")
    for _ in range(2):
        status = await client.get_task_status(token)
        read = TASK_STATUS.model_validate_json(json.dumps(status), strict=True)
        assert read.model_fields_set == set(TASK_STATUS.model_fields)
        assert (read.completedCount, read.failedCount, read.totalCount) == (1, 1, 2)
        assert "refused" in read.errors[-1]
        await client.terminate(token)


async def test_it_finds_and_restarts_a_pipeline(client: RocketRideClient) -> None:
    token = (await client.use(pipeline=pipeline("restarted"), threads=2, ttl=77))["token"]
    assert await client.get_task_token(project_id="restarted", source="w") == token
    assert (await client.get_task_pipeline(token))["project_id"] == "restarted"
    for given in (token, None):
        await client.restart(token=given, project_id="restarted", source="w", pipeline=pipeline("restarted", "teller"))
        assert "teller" in json.dumps(await client.get_task_pipeline(token))
        result = await client.send(token, "again", {"name": "a.txt"}, "text/plain")
        assert result is not None
        assert result["text"] == ["again\n\n"]
    await client.terminate(token)
    with pytest.raises(RuntimeError, match="not running"):
        await client.get_task_token(project_id="restarted", source="w")
    with pytest.raises(RuntimeError, match="not running"):
        await client.restart(project_id="never", source="w", pipeline=pipeline("never"))


async def test_it_validates(client: RocketRideClient) -> None:
    from rocketride.types import VALIDATION_RESULT

    found = await client.validate(pipeline=everything("v"))
    assert (found["errors"], found["warnings"], "pipeline" in found) == ([], [], True)
    wrong = await client.validate(pipeline=pipeline("v", "nonsense"), source="w")
    assert [(each["id"], "nonsense" in each["message"]) for each in wrong["errors"]] == [("nonsense", True)]
    assert misfits(found, VALIDATION_RESULT) + misfits(wrong, VALIDATION_RESULT) == []
    assert (await client.validate(pipeline=everything("v"), source="out"))["errors"]


async def test_services_are_what_the_client_says_that_they_are(client: RocketRideClient) -> None:
    from rocketride.types import SERVICE_DEFINITION, SERVICES_RESPONSE

    answer = await client.get_services()
    services = answer["services"]
    assert {"webhook", "chat", "teller", "llm_scripted"} <= set(services)
    one = await client.get_service("webhook")
    assert one["title"] == "Webhook"
    if VERSION >= (1, 5):  # before, the types said less than the server of that time sent
        assert misfits(answer, SERVICES_RESPONSE) == []
        assert [misfit for each in (*services.values(), one) for misfit in misfits(each, SERVICE_DEFINITION)] == []
    with pytest.raises(RuntimeError, match="Service 'nonsense' not found"):
        await client.get_service("nonsense")


async def test_the_dashboard_is_what_the_client_says_that_it_is(client: RocketRideClient) -> None:
    from rocketride.types import DASHBOARD_RESPONSE

    token = (await client.use(pipeline=pipeline("board")))["token"]
    await client.identify("a judge")
    await client.add_monitor({"token": token}, ["summary", "task"])
    board = await client.get_dashboard()
    assert misfits(board, DASHBOARD_RESPONSE) == []
    row = next(row for row in board["connections"] if row["clientInfo"]["name"] == "a judge")
    assert row["clientInfo"]["version"] == ".".join(map(str, VERSION))
    assert KEY[:4] not in row["apikey"]
    task = next(task for task in board["tasks"] if task["projectId"] == "board")
    assert row["monitors"] == [{"key": task["name"], "flags": ["summary", "task"]}]
    assert row["attachedTasks"] == [task["name"]]
    assert (task["provider"], task["connections"], task["completed"]) == ("webhook", 1, False)
    await client.terminate(token)


# data


@pytest.mark.parametrize(("data", "mimetype"), [("µ\0 text", "text/plain"), (b"\0\xff", None), ("", "text/plain")])
async def test_it_sends_texts_and_bytes(client: RocketRideClient, data: Any, mimetype: str | None) -> None:
    token = (await client.use(pipeline=pipeline("send")))["token"]
    result = await client.send(token, data, mimetype=mimetype)
    assert result is not None
    assert (len(result["name"]), len(result["objectId"])) == (36, 36)
    assert result.get("text") == ([f"{data}\n\n"] if mimetype else None)
    await client.terminate(token)


async def test_pipes_carry_bytes_in_pieces(client: RocketRideClient) -> None:
    token = (await client.use(pipeline=everything("pipe")))["token"]
    pipe = await client.pipe(token, {"name": "b.txt"}, "text/plain", "webhook")
    async with pipe:
        for piece in (b"one\n", b"", "µ\0\n".encode(), b"x" * 3_000_000):
            await pipe.write(piece)
        listed = await pipe.tool(tool="list_directory", node_id="files_1", input={})
        assert "notes.txt" in [entry["name"] for entry in listed["entries"]]
        result = await pipe.close()
    assert "".join(result["text"]).split() == ["one", "µ\0", "x" * 3_000_000]
    with pytest.raises(RuntimeError, match=f"Pipe {pipe.pipe_id} is not open"):
        await pipe.tool(tool="list_directory", node_id="files_1", input={})
    await client.terminate(token)


async def test_pipes_that_cannot_be_opened_say_why(client: RocketRideClient) -> None:
    from rocketride.core import PipeException

    for token, provider, text in (("NEVER", None, "Your pipeline is not running"), ("ONLY", "chat", "chat")):
        if token == "ONLY":
            await client.use(pipeline=pipeline("only"), token=token)
        pipe = await client.pipe(token, {"name": "b.txt"}, "text/plain", provider)
        with pytest.raises(PipeException, match=text):
            await pipe.open()
    await client.terminate("ONLY")


async def test_it_sends_files_with_what_it_knows_of_them(server: PublishedServer, tmp_path: Path) -> None:
    from rocketride import RocketRideClient
    from rocketride.types import UPLOAD_RESULT

    steps: list[str] = []

    async def heard(message: dict[str, Any]) -> None:
        steps.append(message["body"]["action"])

    client = RocketRideClient(uri=server.url, auth=KEY, on_event=heard)
    await client.connect()
    token = (await client.use(pipeline=pipeline("sent")))["token"]
    plain, empty, large = (tmp_path / name for name in ("plain.txt", "empty.txt", "large.bin"))
    plain.write_text("plain")
    empty.touch()
    large.write_text("y" * 2_500_000)
    sent = await client.send_files(
        [str(plain), str(empty), (str(plain), {"name": "other"}), (str(large), None, "text/plain")], token
    )
    assert [misfit for each in sent for misfit in misfits(each, UPLOAD_RESULT)] == []
    assert [(each["action"], each["result"]["name"]) for each in sent] == [
        ("complete", name) for name in ("plain.txt", "empty.txt", "other", "large.bin")
    ]
    texts = ["".join(each["result"].get("text", [])).replace("\n", "") for each in sent]
    assert texts == ["plain", "", "plain", "y" * 2_500_000]
    assert (steps.count("open"), steps.count("complete"), steps.count("write")) == (4, 4, 5)
    await client.terminate(token)
    await client.disconnect()


async def test_it_calls_tools(client: RocketRideClient) -> None:
    token = (await client.use(pipeline=everything("tools")))["token"]
    read = await client.tool(token=token, tool="read_file", input={"path": "notes.txt"})
    assert read["content"] == "found"
    assert await client.tool(token=token, tool="who", node_id="waiter") == "local"
    for wanted, text in (
        ({"tool": "nothing"}, 'No handler found for tool "nothing"'),
        ({"tool": "read_file", "node_id": "nowhere"}, "nowhere"),
        ({"tool": "read_file", "input": {"path": 7}}, "/input/path"),
        ({"tool": "read_file", "input": {"path": "no.txt"}}, "no.txt"),
    ):
        with pytest.raises(RuntimeError, match=text):
            await client.tool(token=token, **wanted)
    listed = await client.call("rrext_process", token=token, subcommand="tools")  # any keyword of `call` reaches the server
    assert {"read_file", "execute", "wait"} <= {tool["name"] for tool in listed["tools"]}
    with pytest.raises(TimeoutError):
        await client.tool(token=token, tool="wait", timeout=50)  # milliseconds
    await client.ping()
    await client.terminate(token)


async def test_it_queries_databases(client: RocketRideClient) -> None:
    token = (await client.use(pipeline=everything("base")))["token"]
    database, where = client.database, {"token": token, "node_id": "db_1"}
    await database.query(sql="CREATE TABLE t (a INTEGER)", **where)
    assert (await database.query(sql="INSERT INTO t VALUES (7), (8)", **where))["affected_rows"] == 2
    assert (await database.query(sql="SELECT a FROM t", **where))["rows"] == [{"a": 7}, {"a": 8}]
    with pytest.raises(RuntimeError, match="nowhere"):
        await database.query(sql="SELECT * FROM nowhere", **where)
    with pytest.raises(ValueError, match="sqlite"):  # the client knows no such dialect
        await database.dialect(**where)
    await client.terminate(token)


async def test_it_chats(client: RocketRideClient) -> None:
    from rocketride.schema import Question

    token = (await client.use(pipeline=chat()))["token"]
    question = Question()
    question.addQuestion("What is it?")
    assert (await client.chat(token=token, question=question))["answers"] == ["42"]
    question = Question(expectJson=True)
    question.addQuestion("As JSON!")
    question.addInstruction("Form", "an object")
    question.addContext("a context")
    assert (await client.chat(token=token, question=question))["answers"] == [{"n": 1}]
    await client.terminate(token)


# the rest


async def test_a_command_that_is_not_there_is_an_invalid_command(client: RocketRideClient) -> None:
    for command in ("rrext_account_me", "rrext_deployed", "rrext_account_billing", "rrext_app_list"):
        with pytest.raises(RuntimeError, match=f"Invalid command: {command}"):
            await client.call(command)
    with pytest.raises(RuntimeError, match="Invalid command: rrext_account_me"):
        await client.account.get_profile()
    with pytest.raises(RuntimeError, match="^rrext has no deployments, .*: `rrext serve FILE.pipe` keeps"):
        await client.deploy.list()
    with pytest.raises(RuntimeError, match="Invalid command: rrext_account_billing"):
        await client.billing.get_credit_balance("org")


@pytest.mark.promise("store:whole-files")
async def test_files_of_the_store(client: RocketRideClient) -> None:
    await client.fs_write_string("a/b.txt", "wörld\n\0")
    assert await client.fs_read_string("a/b.txt") == "wörld\n\0"
    await client.fs_write_json("a/c.json", {"n": [1]})
    assert await client.fs_read_json("a/c.json") == {"n": [1]}
    assert [(each["name"], each["type"]) for each in (await client.fs_list_dir())["entries"]] == [("a", "dir")]
    assert (await client.fs_list_dir("a"))["count"] == 2
    assert (await client.fs_stat("a/b.txt"))["size"] == 8
    assert await client.fs_stat("nothing") == {"exists": False}
    handle = (await client.fs_open("large", "w"))["handle"]
    for number in range(17):  # as base64 it would be over the limit of results
        assert await client.fs_write(handle, bytes([number]) * 2**20) == 2**20
    await client.fs_close(handle, "w")
    opened = await client.fs_open("large")
    assert opened["size"] == 17 * 2**20
    assert await client.fs_read(opened["handle"], 2**20 - 1, 2) == b"\0\1"
    assert await client.fs_read(opened["handle"], 17 * 2**20) == b""
    await client.fs_close(opened["handle"])
    await client.fs_rename("large", "c/large")
    with pytest.raises(RuntimeError, match="is not empty"):
        await client.fs_rmdir("c")
    await client.fs_rmdir("c", recursive=True)
    with pytest.raises(RuntimeError, match='"c" does not exist'):
        await client.fs_open("c/large")
    await client.fs_mkdir("d/e")
    await client.fs_rmdir("d", recursive=True)
    await client.fs_rmdir("a", recursive=True)


async def test_templates_and_logs_in_the_store(client: RocketRideClient) -> None:
    await client.save_template("t", {"name": "T", "components": []})
    assert (await client.get_template("t"))["name"] == "T"
    assert (await client.get_all_templates())["count"] == 1
    await client.delete_template("t")
    name = await client.save_log("p", "s", {"body": {"startTime": 1}})
    assert [each["name"] for each in await client.list_logs("p", "s")] == [name] == ["s-1.log"]
    assert (await client.get_log("p", name))["body"] == {"startTime": 1}
    await client.delete_log("p", name)
    assert await client.list_logs("p") == []
    for folder in (".templates", ".logs"):
        await client.fs_rmdir(folder, recursive=True)
