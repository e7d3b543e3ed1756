"""What the published client has had since 1.5: methods, and its commands."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from published_server import KEY, PATIENCE, PublishedServer, everything, pipeline
from published_types import misfits

if TYPE_CHECKING:
    from rocketride import RocketRideClient

pytestmark = pytest.mark.promise("ws:rocketride")


# methods


async def test_it_lists_tasks_and_connections_in_pages(client: RocketRideClient) -> None:
    from rocketride.types.dashboard import LIST_CONNECTIONS_RESPONSE, LIST_TASKS_RESPONSE

    tokens = [(await client.use(pipeline=pipeline(f"page {n}"), name=f"listed {n}"))["token"] for n in range(5)]
    page = await client.list_tasks(
        {"page": 2, "page_size": 2, "search": "LISTED", "sort": [{"field": "name", "dir": "desc"}], "filters": {"state": ["3"]}}
    )
    assert misfits(page, LIST_TASKS_RESPONSE) == []
    assert ([row["name"] for row in page["rows"]], page["total"], page["page"], page["pageSize"]) == (
        ["listed 2.w", "listed 1.w"],
        5,
        2,
        2,
    )
    connections = await client.list_connections()
    assert misfits(connections, LIST_CONNECTIONS_RESPONSE) == []
    assert connections["total"] >= 1
    rows = {row["token"]: row for row in await client.get_tasks()}
    assert set(tokens) <= set(rows)
    assert rows[tokens[0]]["pipeline"] == await client.get_task_pipeline(tokens[0])
    await asyncio.gather(*map(client.terminate, tokens))
    assert not set(tokens) & {row["token"] for row in await client.get_tasks()}


async def test_it_resolves_settings(client: RocketRideClient) -> None:
    resolved = await client.resolve_config("tool_filesystem", {"root": ".", "nonsense": 1})
    assert (resolved["provider"], resolved["resolved"]["root"], resolved["dropped"]) == ("tool_filesystem", ".", ["nonsense"])
    with pytest.raises(RuntimeError, match="nonsense"):
        await client.resolve_config("nonsense")


@pytest.mark.promise("log:own-runs")
async def test_it_reads_and_replays_the_log_of_traced_runs(client: RocketRideClient) -> None:
    where = ("logged", "w")
    assert (await client.log.streams(*where))["streams"] == []
    for n in range(2):
        token = (await client.use(pipeline=pipeline("logged", "teller"), pipelineTraceLevel="full"))["token"]
        await client.send(token, f"text {n}", {"name": f"{n}.txt"}, "text/plain")
        await client.terminate(token)
    timeline = await client.log.chapters(*where)
    assert [(each["outcome"], each["traceLevel"]) for each in timeline["chapters"]] == [("cancelled", "full")] * 2
    page = await client.log.read(*where, max_events=5)
    assert [event["body"]["logSeq"] for event in page["events"]] == [1, 2, 3, 4, 5]
    rest = await client.log.read(*where, cursor=page["nextSeq"], types=["output"])
    assert {event["body"]["output"] for event in rest["events"]} <= {"heard text 0\n", "heard text 1\n"}
    session = client.log.open_event_stream(*where)
    await session.seek(timeline["endTime"] + 1)
    status = await session.get_status()
    assert status is not None
    assert (status["state"], status["completedCount"]) == (6, 1)
    assert await session.get_console(10) == ["heard text 0", "heard text 1"]
    traces = await session.get_traces(10)
    assert ([each["doc"] for each in traces["closed"]], traces["open"]) == (["0.txt", "1.txt"], [])
    detail = await session.get_trace(traces["closed"][1]["beginSeq"])
    assert detail["summary"]["open"] is False
    assert "text 1" in str(detail["events"])
    await session.seek(timeline["startTime"] - 1)
    played: list[int] = []
    await session.play(None, 0, lambda item: played.append(item["event"]["body"]["logSeq"]))
    while session._playing:
        await asyncio.sleep(0)
    assert played == list(range(1, len(played) + 1))
    assert len(played) > 20
    session.close_event_stream()
    assert (await client.log.delete(*where, all=True))["deletedSegments"] == 1
    assert (await client.log.read(*where))["events"] == []


async def test_it_reads_many_files_of_the_store_at_once(client: RocketRideClient) -> None:
    await client.fs_write_string("many/b.txt", "wörld\n\0")
    many = await client.fs_read_many(["many/b.txt", "nothing", "many"])
    assert [(each["ok"], each["data"]) for each in many] == [(True, "wörld\n\0".encode()), (False, None), (False, None)]
    assert all(each["error"] for each in many[1:])
    with pytest.raises(RuntimeError, match="no links"):
        await client.fs_get_url("many/b.txt")
    await client.fs_rmdir("many", recursive=True)


async def test_databases_have_transactions_and_parameters(client: RocketRideClient) -> None:
    token = (await client.use(pipeline=everything("transactions")))["token"]
    database, where = client.database, {"token": token, "node_id": "db_1"}
    await database.query(sql="CREATE TABLE t (a INTEGER)", **where)
    for end, value in ((database.commit, 7), (database.rollback, 8)):
        session = (await database.begin_transaction(**where))["session_id"]
        await database.query(sql="INSERT INTO t VALUES ($1)", session_id=session, params=[value], **where)
        await end(session_id=session, **where)
        with pytest.raises(RuntimeError, match="session"):
            await database.query(sql="SELECT 1", session_id=session, **where)
    assert (await database.query(sql="SELECT a FROM t", **where))["rows"] == [{"a": 7}]
    await client.terminate(token)


async def test_apps_and_accounts_are_not_there(client: RocketRideClient) -> None:
    for attempt in (
        client.publish_app("a", 1, "t"),
        client.where_app("a"),
        client.build_log("a", 1),
        client.account.list_keys(),
        client.account.get_env("user"),
        client.deploy.versions("p"),
        client.deploy.preview("* * * * *"),
        client.billing.list_credit_packs(),
    ):
        with pytest.raises(RuntimeError, match="^(Invalid command: rrext_account|rrext has no deployments)"):
            await attempt


# commands


class Finished(NamedTuple):
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The value on stdout."""
        return json.loads(self.out)


class Shell:
    """Runs the client's commands in a folder of their own, in this process: each start of Python would take half a second."""

    def __init__(self, server: PublishedServer, folder: Path) -> None:
        self.server = server
        self.folder = folder

    def __call__(self, *words: str) -> Finished:
        from rocketride.cli.main import main

        out, err, argv = io.StringIO(), io.StringIO(), sys.argv
        sys.argv = ["rocketride", *words]
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
                main()
        finally:
            sys.argv = argv
        return Finished(int(ended.value.code or 0), out.getvalue(), err.getvalue())

    def good(self, *words: str) -> str:
        """What a command that succeeds says."""
        done = self(*words)
        assert (done.code, done.err) == (0, ""), done
        return done.out

    def bad(self, *words: str, code: int = 1) -> str:
        """What a command that fails says."""
        done = self(*words)
        assert done.code == code, done
        return done.err + done.out

    def json(self, *words: str) -> Any:
        """The JSON of a command that succeeds."""
        return json.loads(self.good(*words, "--json"))

    def file(self, name: str, content: Any) -> str:
        """A file in the folder."""
        (self.folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
        return name


@pytest.fixture
def shell(server: PublishedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """A shell of a user with a key."""
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path)
        patch.setattr(os, "environ", os.environ.copy())
        os.environ |= {"ROCKETRIDE_URI": server.url, "ROCKETRIDE_APIKEY": KEY}
        yield Shell(server, tmp_path)


def test_start_list_and_stop(shell: Shell) -> None:
    file = shell.file("a.pipe", pipeline("started"))
    said = shell.good("start", "--pipeline", file, "--token", "CLI", "--threads", "2", "--args", "a", "b")
    assert "Token: CLI" in said
    row = next(row for row in shell.json("list")["tasks"] if row["token"] == "CLI")
    assert (row["source"], row["status"], row["pipeline"]["project_id"]) == ("w", "Running", "started")
    assert "Token: CLI\n  Source: w\n  Status: Running" in shell.good("list")
    assert "Token: CLI" in shell.good("list", "--json=list.json")
    assert json.loads((shell.folder / "list.json").read_text())["tasks"]
    assert "Pipeline is already running." in shell.bad("start", "--pipeline", file, "--token", "CLI")
    assert shell.json("stop", "--token", "CLI") == {"token": "CLI", "terminated": True}
    assert "Task CLI terminated." in shell.good("stop", "--token", "CLI")
    assert "Your pipeline is not running" in shell.bad("stop", "--token", "NEVER")
    token = shell.json("start", "--pipeline", file)["token"]
    shell.good("stop", "--token", token)
    assert "nonsense" in shell.bad("start", "--pipeline", shell.file("bad.pipe", pipeline("bad", "nonsense")))


def test_upload_to_a_pipeline_of_its_own_and_to_a_running_one(shell: Shell) -> None:
    file = shell.file("a.pipe", pipeline("uploaded", "refuser"))
    (shell.folder / "d").mkdir()
    for name, text in (("one.txt", "one"), ("empty.txt", ""), ("d/two.txt", "two"), ("wrong.txt", "fail")):
        shell.file(name, text)
    done = shell.json("upload", "--pipeline", file, "--threads", "2", "--max-concurrent", "2", "o*.txt", "d", "empty.txt")
    assert (done["uploaded"], done["failed"], done["totalBytes"]) == (3, 0, 6)
    assert "Uploaded 1 of 1" in shell.good("upload", "--pipeline", file, "one.txt", "--args", "--deep", "7")
    shell.good("start", "--pipeline", file, "--token", "UP")
    said = shell.bad("upload", "--token", "UP", "one.txt", "wrong.txt")
    assert "uploaded one.txt (3 B)" in said
    assert re.search(r"failed +wrong.txt: .*refused", said)
    assert "Uploaded 1 of 2 file(s)" in said
    shell.good("stop", "--token", "UP")
    assert "not running" in shell.bad("upload", "--token", "UP", "one.txt")
    assert not [row for row in shell.json("list")["tasks"] if row["token"] in ("UP", "UPLOAD_TASK")]


def test_validate(shell: Shell) -> None:
    good = shell.file("good.pipe", {"pipeline": pipeline("v")})
    bad = shell.file("bad.pipe", pipeline("v", "nonsense"))
    assert "good.pipe: valid" in shell.good("validate", good, "--source", "w")
    said = shell.bad("validate", "*.pipe")
    assert re.search(r"bad.pipe: invalid\n +error: .*nonsense.* \(nonsense\)", said)
    assert "Summary: 2 file(s), 1 valid, 1 invalid" in said
    assert "is no source" in shell.bad("validate", good, "--source", "out")
    done = shell("validate", bad, "--json")
    assert (done.code, done.json["summary"]) == (1, {"total": 1, "valid": 0, "invalid": 1})
    assert "File not found" in shell.bad("validate", "nowhere.pipe", code=2)


def test_store(shell: Shell) -> None:
    (shell.folder / "large.bin").write_bytes(bytes(range(256)) * 1000)
    shell.good("store", "mkdir", "cli/sub")
    shell.good("store", "write", "cli/a.txt", "--content", "wörld")
    shell.good("store", "write", "cli/large.bin", "--file", "large.bin")
    assert shell.good("store", "type", "cli/a.txt") == "wörld"
    assert shell.json("store", "type", "cli/a.txt") == {"path": "cli/a.txt", "content": "wörld"}
    said = shell.good("store", "dir", "cli")
    assert re.search(r"6 a.txt\n.*256,000 large.bin\n.*<DIR> +sub\n +2 File\(s\) +256,006 bytes\n +1 Dir\(s\)", said)
    assert "<DIR>          cli" in shell.good("store", "dir")
    assert [(row["name"], row["type"]) for row in shell.json("store", "dir", "cli")["entries"]] == [
        ("a.txt", "file"),
        ("large.bin", "file"),
        ("sub", "dir"),
    ]
    assert "0 File(s)" in shell.good("store", "dir", "cli/sub")
    assert "cli/large.bin: file (size: 256,000, modified: " in shell.good("store", "stat", "cli/large.bin")
    assert shell.good("store", "stat", "nothing") == "nothing: not found\n"
    assert "Deleted" in shell.good("store", "rm", "cli/a.txt")
    for words in (("rm", "cli/a.txt"), ("type", "cli/a.txt"), ("dir", "nothing")):
        assert "does not exist" in shell.bad("store", *words)
    assert "cli/sub" in shell.bad("store", "write", "cli/sub", "--content", "x")
    shell.good("store", "rm", "cli/large.bin")


@pytest.mark.promise("profile:trusted-only")
async def test_a_task_in_a_process_of_its_own_is_profiled_there() -> None:
    from published_server import served
    from rocketride import RocketRideClient

    with served("--trust-clients", "--isolation", "process") as server:
        client = RocketRideClient(uri=server.url, auth=KEY)
        await client.connect()
        token = (await client.use(pipeline=pipeline("profiled apart", "teller")))["token"]
        assert (await client.cprofile_start(target=token, session="of it"))["status"] == "started"
        assert ((await client.cprofile_status())["active"], (await client.cprofile_status(target=token))["active"]) == (
            False,
            True,
        )
        assert (await client.cprofile_stop(target=token))["session"] == "of it"
        assert "processor time" in (await client.cprofile_report(target=token))["report"]
        with pytest.raises(RuntimeError, match="not running"):
            await client.cprofile_start(target="nobody")
        await client.disconnect()


@pytest.mark.promise("profile:trusted-only")
def test_profile(shell: Shell) -> None:
    bad = shell.bad("profile", "start")
    assert "profile start needs --token" in bad
    done = shell("profile", "run", "--duration", "0.2", "--session", "mine")
    said = done.out
    assert re.search(
        r"Profiling started: session 'mine' on the server process\n(.*\n)*Profiling stopped: session 'mine' ran", said
    )
    assert "s of processor time in" in shell.good("profile", "report")
    assert re.search(r" *ID  NAME +TID +TIME +SHARE\n", shell.good("profile", "threads"))
    assert shell.good("profile", "tree").startswith("Call tree, all threads: ")
    token = shell.good("start", "--pipeline", shell.file("p.pipe", pipeline("profiled")), "--token", "PROFILED") and "PROFILED"
    assert "session 'of it' on task PROFILED" in shell.good("profile", "start", "--token", token, "--session", "of it")
    assert "runs already" in shell.bad("profile", "start", "--token", token)
    assert "session 'of it'" in shell.good("profile", "status", "--token", token)
    assert re.search(r"PROFILED +\S+ +active +\S+ +- +of it", shell.good("profile", "list"))
    assert "session 'of it' ran" in shell.good("profile", "stop", "--token", token)
    assert "no session runs" in shell.bad("profile", "stop", "--token", token)
    shell.good("stop", "--token", token)


def test_login_and_init(shell: Shell) -> None:
    del os.environ["ROCKETRIDE_APIKEY"]
    assert "An API key is required" in shell.bad("login", "--json")
    wrong = shell.bad("login", "--apikey", "wrong")
    assert "Error: Invalid API key — credentials for" in wrong
    said = shell.good("login", "--apikey", KEY)
    assert re.search(r"Server \S+ — oss mode.", said)
    assert f"ROCKETRIDE_APIKEY={KEY}" in (shell.folder / ".env").read_text()
    shell.good("login", "--deploy", "--apikey", KEY)
    shell.good("login", "--no-deploy", "--apikey", KEY)
    said = shell.bad("init", "--no-install", "--no-deploy")
    assert "Service catalog synced" in said
    assert said.count("(HTTP 404)") == 3  # packages and pages of RocketRide's own server
    assert "webhook" in (shell.folder / ".rocketride" / "services-catalog.json").read_text()
    assert (shell.folder / ".rocketride" / "schema" / "webhook.json").is_file()


def test_a_command_without_its_server_or_key_says_so(shell: Shell) -> None:
    assert "Invalid API key — credentials for" in shell.bad("list", "--apikey", "wrong")
    assert "Connect call failed" in shell.bad("list", "--uri", "http://127.0.0.1:1")
    assert f"127.0.0.1:{shell.server.port}" not in shell.bad("list", "--uri", "http://127.0.0.1:1")
    for name in ("ROCKETRIDE_URI", "ROCKETRIDE_APIKEY"):
        del os.environ[name]
    assert "Not authenticated — credentials for" in shell.bad("list", "--uri", shell.server.url)
    assert "tasks" in shell("list", "--uri", shell.server.url, "--apikey", KEY, "--json").json


NOT_THERE = (
    "add a.pipe", "add a.pipe --deploy-to t --comment c", "add a.pipe --kind node", "list --team t", "get p --team t",
    "versions p", "history p --team t", "publish p 1 --team t", "run p s --team t", "artifact p 1", "enable p", "disable p",
    "remove p --team t", "log a 1", "schedule set p s none --ttl 5", "schedule pause p s", "schedule resume p s",
    "schedule preview * --count 3",
)  # fmt: skip


def test_there_are_no_deployments_and_commands_for_them_say_so(shell: Shell) -> None:
    shell.file("a.pipe", pipeline("deployed"))
    where = ("--uri", shell.server.url, "--apikey", KEY)
    for words in NOT_THERE:
        assert "Error: rrext has no deployments" in shell.bad("deploy", *words.split(), *where), words
    assert shell.good("diff", "a.pipe", "a.pipe")  # asks no server


def test_an_app_is_made_and_packed_and_there_is_no_place_for_it(shell: Shell) -> None:
    where = ("--uri", shell.server.url, "--apikey", KEY)
    assert "Created local.my-app" in shell.good("app", "create", "my-app", "--no-install", "--template", "Dashboard", *where)
    assert "Ready to deploy" in shell.good("app", "verify", "apps/my-app")
    said = shell.bad("app", "deploy", "apps/my-app", "--comment", "c", "--verbose", *where)
    assert "pack complete" in said
    assert "Error: rrext has no deployments" in said


def test_the_installed_command_is_the_same(shell: Shell) -> None:
    command = [sys.executable, "-c", "from rocketride.cli.main import main; main()", "list", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=os.environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert "tasks" in json.loads(done.stdout)
