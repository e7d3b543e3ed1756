"""The pipelines of clients on a network: what they may not do unless the operator trusts the clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ws_server import ADA, WsServer

from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Execute, Terminate, Validate
from rrext.engine.local_engine import LocalEngine
from rrext.engine.tasks.registry import MAX_REMOTE_TASKS
from rrext.errors import InvalidPipeline, TooManyRequests, Unavailable
from rrext.http.public import is_public
from rrext.nodes.base.setup import SetupContext
from rrext.pipefile.environment import Environment
from rrext.testing import pair

pytestmark = pytest.mark.promise("ws:clients:not-trusted")


def with_node(provider: str, **config: Any) -> dict[str, Any]:
    """A pipeline with a node that has tools."""
    return {
        "components": [
            {"id": "webhook_1", "provider": "webhook", "config": {}},
            {"id": "n", "provider": provider, "config": config, "control": [{"classType": "tool", "from": "webhook_1"}]},
        ],
        "source": "webhook_1",
        "project_id": "p",
    }


def test_paths_stay_below_the_root(server: WsServer, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("secret")
    with server.client(ADA) as client:
        token = client.body("execute", pipeline=with_node("tool_filesystem", root="."))["token"]
        assert client.tool("read_file", {"path": "notes.txt"}, token=token)["content"] == "found"
        client.body("terminate", token=token)


@pytest.mark.promise("tools:allow-list:hides")
def test_a_list_of_tools_holds_on_a_network_and_no_pipeline_of_a_client_leads_around_it() -> None:
    renamed = with_node("python")
    renamed["components"][0] = {
        "id": "webhook_1",
        "provider": "tools",
        "config": {"tools": [{"type": "node", "node": "n", "tool": "execute", "name": "who"}]},
    }
    with WsServer("--tools", "who") as server, server.client() as client:
        assert [tool["name"] for tool in client.body("tools", token="face")["tools"]] == ["who"]
        assert client.tool("who", {}, token="face")["node"] == "probe_1"
        answer = client.ask("rrext_process", subcommand="tool", tool="add", input={"a": 1, "b": 2}, token="face")
        assert answer["code"] == "tool_not_found"
        assert client.ask("execute", pipeline=renamed)["code"] == "unavailable"


STRANGER = Caller("s", user_id="ada", trusted=False)
PATHS: list[tuple[str, dict[str, Any], str]] = [
    ("tool_filesystem", {"root": "{}"}, "/root"),
    ("embedding_local", {"path": "{}"}, "/path"),
    ("parse", {"root": "{}"}, "/root"),
    ("db_sqlite", {"path": "{}/a.db", "create": True}, "/path"),
    ("db_duckdb", {"path": "{}/a.db"}, "/path"),
    ("db_duckdb", {"files": {"t": "{}/*.csv"}}, "/files/t"),
    ("store_qdrant_edge", {"path": "{}/store"}, "/path"),
    ("graph_ladybug", {"path": "{}/graph"}, "/path"),
    ("split", {"unit": "tokens", "tokenizer": "{}"}, "/tokenizer"),
]


def below(value: Any, path: str) -> Any:
    """Settings with a path in their place."""
    if isinstance(value, dict):
        return {key: below(inner, path) for key, inner in value.items()}
    return value.format(path) if isinstance(value, str) else value


@pytest.mark.parametrize(("provider", "config", "setting"), PATHS, ids=[f"{row[0]}{row[2]}" for row in PATHS])
async def test_a_path_out_of_the_root_is_refused_with_its_setting_by_execute_and_by_check(
    tmp_path: Path, provider: str, config: dict[str, Any], setting: str
) -> None:
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "out").symlink_to(tmp_path)
    refused = [("not_permitted", f"/components/1/config{setting}")]

    async def told(pipeline: dict[str, Any], caller: Caller) -> Any:
        return json.loads((await engine.ask(Validate(pipeline=pipeline), caller))[0])["problems"]

    for engine in (LocalEngine(root=str(root)), LocalEngine()):
        more = ("a",) if engine.root is None else ()
        try:
            for path in (str(tmp_path), "..", "a/../..", "out", "out/deep/er", f"{root}x", "a\0b", *more):
                pipeline = with_node(provider, **below(config, path))
                with pytest.raises(InvalidPipeline) as error:
                    await engine.ask(Execute(pipeline=pipeline), STRANGER)
                problems = error.value.data["problems"]
                assert [(one["code"], one["path"]) for one in problems] == refused, path
                assert await told(pipeline, STRANGER) == problems
                assert "not_permitted" not in str(await told(pipeline, Caller("t")))
            for path in () if more else ("a", "./a/../a", str(root / "a"), "${ROCKETRIDE_X}"):
                pipeline = with_node(provider, **below(config, path))
                assert "not_permitted" not in str(await told(pipeline, STRANGER))
                await engine.ask(Execute(pipeline=pipeline, env={"ROCKETRIDE_X": "a"}, token=path), STRANGER)
        finally:
            await engine.aclose()


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_a_root_out_of_the_root_is_refused_over_a_network_and_without_its_variable(tmp_path: Path, isolation: str) -> None:
    with WsServer("--root", str(tmp_path), "--isolation", isolation) as server, server.client() as client:
        pipeline = with_node("tool_filesystem", root="${ROCKETRIDE_SECRET}")
        answer = client.ask("execute", pipeline=pipeline, env={"ROCKETRIDE_SECRET": "/etc/swordfish"})
        assert answer["code"] == "invalid_pipeline"
        (problem,) = answer["data"]["problems"]
        assert (problem["code"], problem["path"]) == ("not_permitted", "/components/1/config/root")
        assert "swordfish" not in str(answer)
        checked = client.body("rrext_validate", pipeline=with_node("tool_filesystem", root=".."))
        assert [entry["path"] for entry in checked["problems"]] == ["/components/1/config/root"]


async def test_databases_in_memory_are_no_paths() -> None:
    engine = LocalEngine()
    try:
        for provider in ("db_sqlite", "db_duckdb", "parse", "graph_ladybug"):
            await engine.ask(Execute(pipeline=with_node(provider), token=provider), STRANGER)
    finally:
        await engine.aclose()


def test_a_link_that_leads_out_of_the_root_later_is_refused_by_the_call(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("secret")
    root = tmp_path / "root"
    (root / "later").mkdir(parents=True)
    with WsServer("--root", str(root), "--isolation", "none") as server, server.client() as client:
        token = client.body("execute", pipeline=with_node("tool_filesystem", root="later"))["token"]
        (root / "later").rmdir()
        (root / "later").symlink_to(tmp_path)
        answer = client.ask("rrext_process", subcommand="tool", tool="read_file", input={"path": "f.txt"}, token=token)
        assert answer["code"] == "unavailable"


def test_a_pipeline_gives_itself_no_permission(server: WsServer) -> None:
    with server.client(ADA) as client:
        answer = client.ask("execute", pipeline=with_node("tool_filesystem", root=".", allow_write=True))
        assert answer["code"] == "invalid_pipeline"
        (problem,) = answer["data"]["problems"]
        assert (problem["code"], problem["path"]) == ("not_permitted", "/components/1/config/allow_write")


def test_a_text_of_an_exception_stays_in_the_log(open_server: WsServer) -> None:
    with open_server.client() as client:
        answer = client.ask("rrext_process", subcommand="tool", tool="crash")
        assert answer["code"] == "tool_failed"
        assert "swordfish" not in str(answer)
        assert "ValueError" in answer["message"]


def test_clients_that_the_operator_trusts_may_do_what_files_may(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("found")
    with WsServer("--trust-clients") as server, server.client() as client:
        pipeline = with_node("tool_filesystem", root=str(tmp_path), allow_write=True)
        token = client.body("execute", pipeline=pipeline, token="t")["token"]
        assert client.tool("read_file", {"path": "notes.txt"}, token=token)["content"] == "found"
        assert "swordfish" in client.ask("rrext_process", subcommand="tool", tool="crash", token="face")["message"]
        assert client.tool("who", token="face", context={"userId": "ada"})["user"] == "ada"


async def test_variables_are_its_own_and_those_that_the_operator_named(tmp_path: Path) -> None:
    variables = {"ROCKETRIDE_SECRET": "hidden", "NAMED": "shown"}
    engine = LocalEngine(environment=Environment(variables, names=["NAMED"]), root=str(tmp_path))
    try:
        with pytest.raises(InvalidPipeline) as refused:
            await engine.ask(Execute(pipeline=with_node("tool_filesystem", root="${ROCKETRIDE_SECRET}")), STRANGER)
        assert refused.value.data["problems"][0]["code"] == "unresolved_variable"
        own = Execute(pipeline=with_node("tool_filesystem", root="${NAMED}${ROCKETRIDE_OWN}"), env={"ROCKETRIDE_OWN": "x"})
        await engine.ask(own, STRANGER)
        async with pair(engine, trusted=False) as client:
            problems = (await client.validate(pipeline=with_node("tool_filesystem", root="${ROCKETRIDE_SECRET}")))["problems"]
            assert [problem["code"] for problem in problems] == ["unresolved_variable"]
    finally:
        await engine.aclose()


async def test_a_user_has_a_limited_number_of_pipelines_and_others_are_not_held_up() -> None:
    engine = LocalEngine()
    try:
        for number in range(MAX_REMOTE_TASKS):
            engine.load(with_node("memory_internal"), token=f"t{number}", owner="ada", remote=True)
        with pytest.raises(TooManyRequests):
            await engine.ask(Execute(pipeline=with_node("memory_internal"), token="more"), STRANGER)
        await engine.ask(Terminate(token="t0"), STRANGER)
        await engine.ask(Execute(pipeline=with_node("memory_internal"), token="more"), STRANGER)
        await engine.ask(Execute(pipeline=with_node("memory_internal"), token="t1"), Caller("b", user_id="bob", trusted=False))
    finally:
        await engine.aclose()


@pytest.mark.parametrize(
    ("provider", "config"),
    [
        ("db_postgres", {"host": "127.0.0.1", "database": "d", "user": "u"}),
        ("db_mysql", {"host": "127.0.0.1", "database": "d", "user": "u"}),
        ("graph_neo4j", {"uri": "bolt://127.0.0.1:7687", "user": "u", "password": "p"}),
    ],
)
async def test_a_pipeline_connects_to_no_database_server(provider: str, config: dict[str, str]) -> None:
    engine = LocalEngine()
    try:
        engine.load(with_node(provider, **config), token="t", owner="ada", remote=True)
        async with pair(engine, trusted=True) as client:
            with pytest.raises(Unavailable, match="came over a network"):
                await client.tool(tool="query", input={"sql" if "db_" in provider else "query": "RETURN 1"})
    finally:
        await engine.aclose()


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1/v1", "http://localhost:1/v1", "http://169.254.169.254", "http://[::1]:1"]
)
async def test_a_pipeline_asks_no_model_at_a_private_address(address: str) -> None:
    engine = LocalEngine()
    pipeline = with_node("llm_openai_api", base_url=address, model="m", retries=0)
    pipeline["components"][0] = {"id": "webhook_1", "provider": "chat", "config": {}}
    pipeline["components"][1] |= {"input": [{"lane": "questions", "from": "webhook_1"}], "control": []}
    pipeline["components"].append(
        {"id": "out", "provider": "response_answers", "config": {}, "input": [{"lane": "answers", "from": "n"}]}
    )
    try:
        engine.load(pipeline, token="t", owner="ada", remote=True)
        async with pair(engine, trusted=True) as client:
            with pytest.raises(Exception, match="is a private address"):
                await client.chat(question="hello")
    finally:
        await engine.aclose()


def test_addresses_that_are_private_in_any_way_are_not_public() -> None:
    from ipaddress import ip_address

    private = ["10.0.0.1", "127.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1"]
    private += ["255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "::ffff:127.0.0.1", "2002:7f00:1::", "ff02::1"]
    private += ["64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "::127.0.0.1", "::8.8.8.8", "::ffff:0:7f00:1", "::5efe:7f00:1"]
    private += ["fec0::1", "5f00::1", "2001:db8::1", "4000::1"]
    assert [text for text in private if is_public(ip_address(text))] == []
    assert all(
        is_public(ip_address(text)) for text in ("8.8.8.8", "2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::808:808")
    )


def test_a_context_of_a_setup_is_local_unless_it_is_said() -> None:
    SetupContext(None).require_local_pipeline()  # type: ignore[arg-type]
